"""The document as a form: what a control shows of it, and what changing a control does to its text.

The text is the only truth; the form is drawn from it and holds nothing of its own.
"""
