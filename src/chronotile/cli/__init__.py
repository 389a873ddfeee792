"""The command line: it opens, calls, prints.

In: what the user typed. Out: a report on standard output, or a file. Decides nothing: a command is
the method of the same name of `ct.open`, with the same options, if it changes something. One that
only looks may have more options, on how to print, and may call what that method calls, too: `log`
`Log.story`, `visible` `view`, `rows` `row_reader`, `usage` `measure_usage`. No command knows
another.

    program    the names of all commands; loads the module of the one that is called
    options    arguments and options that several commands share
    completion what a shell can complete
    profile    what a user's own file says, and config
    log        the history
    look       visible, explain, fragments, members, moments
    rows       rows, diff, blame
    check      check, usage
    change     delete to publish, tag, and operations
    files      show, conformance
    pages      timeline, report
    fleet      ls, sql
    pipeline   tables, and pipeline with Spark
    demo       demo, guide
    sample     the array and the dataset of the demo
"""

from chronotile.cli.program import main, run

__all__ = ["main", "run"]
