"""The one body that people send: an experiment document, as JSON or YAML."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja.errors import HttpError

from runners.document import MAX_BYTES, parse_json, parse_text

JSON_TYPES = ("application/json",)
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")

# The schema's name is that of runners.spec.ExperimentSpec; labsite.api adds it to the published components.
DOCUMENT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/ExperimentSpec"}},
            "application/yaml": {"schema": {"type": "string", "description": "The same document as YAML."}},
        },
    }
}


def read_document(request: HttpRequest) -> dict[str, Any]:
    """The document in the request's body. Raises HttpError (413, 415), TextError or SpecError."""
    kind = request.content_type.lower() if request.content_type else ""
    if kind not in JSON_TYPES + YAML_TYPES:
        raise HttpError(415, f"content type {kind or 'missing'}; allowed: {', '.join(JSON_TYPES + YAML_TYPES)}")
    if len(request.body) > MAX_BYTES:
        raise HttpError(413, f"the document is larger than {MAX_BYTES} bytes")
    try:
        text = request.body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HttpError(400, f"the document is not UTF-8 text: {error.reason} at byte {error.start}") from error
    return parse_json(text) if kind in JSON_TYPES else parse_text(text)
