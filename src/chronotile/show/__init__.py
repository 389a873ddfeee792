"""Show: what was found, in words, pages and pictures, on its way to people and programs.

In: values that other rooms read and decided on. Out: text, JSON, tables, HTML, SVG and PNG. Text
from files is escaped here, where it leaves. Decides nothing, and opens no array: what a `Story`
needs of the storage it reads by functions that its caller gives it.

Modules, in reading order:

    events           one thing that happened, in words
    operation_words  one change of ours, in words
    story            all events of one array, in order
    explain_words    why an object is not visible, and what to do about it
    file_json        one decoded file as JSON
    byte_ranges      the bytes of one file, field by field
    error_messages   standard error, and the exit status
    styled           texts, tables and trees with styles
    output           standard output: JSON, lines, and what `styled` prints
    terminal_fit     tables and lines that fit a terminal
    row_formats      rows as CSV, JSON lines, Parquet and Arrow
    notebook         findings and tables that show themselves in a notebook
    page             one look for all pages: colours, header and footer, tables
    certificate_page what an erasure left, in lines and as a page that prints well
    axes             the time axis, and what all panels share
    picture          what the timeline of an array shows
    chart            the timeline of one array, drawn
    usage_map        a picture of what an array's bytes are for
    fleet_page       a page on a whole fleet
    timeline_page    the timeline as a page with a slider
"""
