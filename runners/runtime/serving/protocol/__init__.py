"""Request bodies, one module per endpoint: what is taken, what is refused, what is ignored.

Null means "not given". A field that would change the answer and that the server does not have is refused by name; an
unknown one is ignored and logged once. Lengths against the model's context are the API's business, not ours.
"""
