"""Refuses a query parameter that is given twice: which of its values was meant, nobody can say."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from labsite.api_errors import PREFIX, error_response, one_error


class SingleParametersMiddleware(MiddlewareMixin):
    """For the API, whose parameters all have one value."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        if not request.path.startswith(PREFIX):
            return None
        faults = [
            fault
            for name, values in request.GET.lists()
            if len(values) > 1
            for fault in one_error(name, f"given {len(values)} times", "once")
        ]
        return error_response(422, "the request is refused", faults) if faults else None
