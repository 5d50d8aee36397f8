"""Answers in OpenAI's shapes, with a `lab` object beside them: the runtime's own times on the host's monotonic clock.

Every stream event says in `lab.tokens` how many tokens it stands for (0 where none), so that a client can count
latencies between tokens exactly, also where text is held back. Pure: values in, dictionaries out.
"""
