"""Recorded traffic as rows: read from the formats in which it is published, kept in one of our own, told in figures.

Bytes in, typed rows out, one line at a time: a trace of a million requests is read in bounded memory. A line that can't
be taken is told by its number. What a row becomes in a load is for `runners.load.trace_plan`.
"""
