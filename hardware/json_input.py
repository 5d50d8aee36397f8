"""JSON that a person types into a form. Text of any depth and with numbers of any length is either read or refused at
its field; Django's own field answers the nested and the long with an error of the server."""

from __future__ import annotations

import json
from typing import Any

from django import forms


class _TypedDecoder(json.JSONDecoder):
    def decode(self, s: str, *args: Any) -> Any:
        try:
            return super().decode(s, *args)
        except json.JSONDecodeError:
            raise
        except (RecursionError, ValueError) as error:  # too deep; a whole number of too many digits
            raise json.JSONDecodeError(str(error), s, 0) from error


class TypedJSON(forms.JSONField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "decoder": _TypedDecoder})
