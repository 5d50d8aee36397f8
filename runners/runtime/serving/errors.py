"""Errors as the OpenAI API words them: a status and `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """An answer that is an error. `retry_after_s` says that the same request may succeed later."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}


def bad_field(param: str, message: str, code: str | None = None) -> ApiError:
    """400 for one field of the body; `param` is its dotted path."""
    return ApiError(400, f"{param}: {message}", param=param, code=code)


def not_yet_supported(param: str, value: object, allowed: str) -> ApiError:
    """400 for a field that would change the meaning of the answer and that this server does not have."""
    shown = repr(value)[:80]
    return bad_field(param, f"{shown} is not yet supported; allowed: {allowed}", code="unsupported_value")


def unavailable(message: str, code: str, retry_after_s: int | None = None) -> ApiError:
    return ApiError(503, message, kind="server_error", code=code, retry_after_s=retry_after_s)
