"""A person's details out of a sentence, as JSON of a given schema. Right is JSON that fits it and has those details.

The server's own structured output is not used: what is tested is the model.
"""

from __future__ import annotations

import json
import re

from pydantic import BaseModel, ConfigDict, ValidationError

from runners.quality.tasks.question import Question, question_stream

MAX_TOKENS = 96
NAMES = ("Amara", "Bruno", "Chen", "Dilara", "Emil", "Farah", "Goran", "Hana", "Ivo", "Jun")
CITIES = ("Oslo", "Lima", "Porto", "Nairobi", "Kyoto", "Quebec", "Tallinn", "Cusco")
JOBS = ("teacher", "carpenter", "nurse", "pilot", "baker", "farmer")
_FENCED = re.compile(r"^```(?:json)?\s*(.*?)\s*```$", re.DOTALL | re.IGNORECASE)


class Person(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    name: str
    age: int
    city: str
    job: str


def json_schema_question(seed: int, number: int) -> Question:
    stream = question_stream("json_schema", seed, number)
    person = Person(
        name=stream.choice(NAMES), age=stream.randint(18, 90), city=stream.choice(CITIES), job=stream.choice(JOBS)
    )
    prompt = (
        f"{person.name} is {person.age} years old, lives in {person.city} and works as a {person.job}.\n"
        f"Write this as one JSON object of this schema, and nothing else:\n{_schema()}"
    )
    return Question(
        task="json_schema",
        number=number,
        prompt=prompt,
        expected=person.model_dump_json(),
        max_tokens=MAX_TOKENS,
        check=lambda answer: read_person(answer) == person,
    )


def read_person(answer: str) -> Person | None:
    """The person that an answer tells as JSON, in a code fence or without; None where it is no such JSON."""
    text = answer.strip()
    fenced = _FENCED.match(text)
    try:
        return Person.model_validate_json(fenced[1] if fenced else text)
    except ValidationError:
        return None


def _schema() -> str:
    properties = {name: {"type": "integer" if name == "age" else "string"} for name in Person.model_fields}
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return json.dumps(schema)
