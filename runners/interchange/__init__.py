"""Result files of other tools, and of other labs: what they say, in this lab's terms.

Each reader names its format in its own module; `reading` finds the right one, `results` is what they all give, and the
writers give a run in another tool's format. Pure: files in, typed values out; no Django, no storage. Everything is read
and written piece by piece, so that a file of a million requests needs no more memory than one of a hundred.
"""
