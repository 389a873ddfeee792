"""Reports: what was found, on its way to people and programs.

In: a log, a view, an error. Out: reasons and findings in words; text or JSON on standard output,
one line on standard error. Text from files is escaped here, where it leaves. Decides nothing.
"""
