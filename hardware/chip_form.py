"""A chip record as a form by sections, and back: each figure is a field, each entry of a list a line of fields.

The record itself says what is wrong; its words are put at the field that they are about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from hardware.chip_sections import ROWS, SECTIONS, Entry, Rows
from hardware.errors import ChipExists
from hardware.models import Chip
from runners.chips import RecordError, read_record

Fieldset = tuple[str, dict[str, Any]]
MAX_TEXT = 4000


class LinesField(forms.CharField):
    """Text of one thing in each line; what a line holds is for the kinds below to say."""

    def prepare_value(self, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        return "\n".join(self.lines_of(value))

    def to_python(self, value: Any) -> Any:
        return self.read([line.strip() for line in str(value or "").splitlines() if line.strip()])

    def lines_of(self, value: Any) -> Iterable[str]:
        return map(str, value)

    def read(self, lines: list[str]) -> Any:
        return lines


class PairsField(LinesField):
    """Lines of `name = number`."""

    def lines_of(self, value: Any) -> Iterable[str]:
        return (f"{name} = {number!r}" for name, number in value.items())

    def read(self, lines: list[str]) -> Any:
        pairs: dict[str, float] = {}
        for line in lines:
            name, _, number = line.partition("=")
            try:
                pairs[name.strip()] = float(number)
            except ValueError as error:
                raise ValidationError(f"{line!r} is not allowed; allowed: lines of name = number") from error
        return pairs


class PartsField(LinesField):
    """Lines of `count x chip_id`."""

    def lines_of(self, value: Any) -> Iterable[str]:
        return (f"{part['count']} x {part['chip_id']}" for part in value)

    def read(self, lines: list[str]) -> Any:
        parts = []
        for line in lines:
            count, _, chip_id = line.partition(" x ")
            if not count.strip().isdecimal() or not chip_id.strip():
                raise ValidationError(f"{line!r} is not allowed; allowed: lines of count x chip_id")
            parts.append({"chip_id": chip_id.strip(), "count": int(count)})
        return parts


class ChipForm(forms.ModelForm):  # type: ignore[type-arg]
    """Its fields are declared by `form_for`, as their number is that of the record's lists."""

    lines: Mapping[str, int] = {}
    adds = False

    class Meta:
        model = Chip
        fields: tuple[str, ...] = ()

    def clean(self) -> dict[str, Any]:
        """Puts the whole record's data beside the fields', as `record_data`."""
        cleaned: dict[str, Any] = super().clean() or {}
        if self.errors:
            return cleaned
        data, places = self._data(cleaned)
        try:
            record = read_record(data)
        except RecordError as error:
            self._tell(error.faults, places)
        else:
            if self.adds and Chip.objects.filter(chip_id=record.chip_id).exists():
                self.add_error("chip_id", str(ChipExists(record.chip_id).message))
        cleaned["record_data"] = data
        return cleaned

    def _post_clean(self) -> None:
        """The model's row is the services' to make, from the record."""

    def _data(self, cleaned: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[int]]]:
        """The record's data, and for each list the numbers of the lines that are filled."""
        data: dict[str, Any] = {}
        for entry in _entries():
            _put(data, entry.path, cleaned.get(entry.name))
        if data.get("figures_of") == "system":
            data.setdefault("system", {})
        places: dict[str, list[int]] = {}
        for rows in ROWS:
            filled = [(number, row) for number in range(self.lines[rows.path]) if (row := _row(rows, number, cleaned))]
            places[rows.path] = [number for number, _ in filled]
            data[rows.path] = [row for _, row in filled]
        return data, places

    def _tell(self, faults: list[tuple[str, str]], places: Mapping[str, list[int]]) -> None:
        """At the field that each fault is about, else at the form's head with its path."""
        for path, message in faults:
            keys = path.split(".")
            if keys[0] in places and len(keys) > 1:
                keys[1] = str(places[keys[0]][int(keys[1])])
            names = ["__".join(keys[:length]) for length in range(len(keys), 0, -1)]
            known = next((name for name in names if name in self.fields), None)
            self.add_error(known, message if known or not path else f"{path}: {message}")


def _row(rows: Rows, number: int, cleaned: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of a list; empty where nothing but choices is filled in."""
    row: dict[str, Any] = {}
    for entry in rows.entries:
        _put(row, entry.path, cleaned.get(_line_name(rows, number, entry)))
    typed = any(_read(row, entry.path) is not None for entry in rows.entries if entry.kind != "choice")
    return row if typed else {}


def form_for(chip: Chip | None) -> type[ChipForm]:
    """The form of a chip's record, or of a new one, with room for a few more lines in each list."""
    record: Mapping[str, Any] = chip.record if chip else {}
    lines = {rows.path: rows.count(record) for rows in ROWS}
    made: dict[str, Any] = {"lines": lines, "adds": chip is None, "__module__": __name__}
    for entry in _entries():
        made[entry.name] = _field(entry, _read(record, entry.path), fixed=bool(chip and entry.path == "chip_id"))
    for rows in ROWS:
        present = record.get(rows.path) or ()
        for number in range(lines[rows.path]):
            row = present[number] if number < len(present) else {}
            for entry in rows.entries:
                made[_line_name(rows, number, entry)] = _field(entry, _read(row, entry.path), of=f"{number + 1}. ")
    return type("ChipRecordForm", (ChipForm,), made)


def fieldsets_for(chip: Chip | None) -> list[Fieldset]:
    """Sections in order, each list's entries a line each; what is rarely needed is folded."""
    record: Mapping[str, Any] = chip.record if chip else {}
    sections: list[Fieldset] = [
        (section.title, {"fields": [entry.name for entry in section.entries], "description": section.about})
        for section in SECTIONS
    ]
    for rows in ROWS:
        numbers = range(rows.count(record))
        lines = [tuple(_line_name(rows, number, entry) for entry in rows.entries) for number in numbers]
        sections.append((rows.title, {"fields": lines, "description": rows.about, "classes": ["lines"]}))
    return sections


def _entries() -> Iterator[Entry]:
    for section in SECTIONS:
        yield from section.entries


def _line_name(rows: Rows, number: int, entry: Entry) -> str:
    return f"{rows.path}__{number}__{entry.name}"


def _field(entry: Entry, value: Any, *, fixed: bool = False, of: str = "") -> forms.Field:
    common: dict[str, Any] = {"label": f"{of}{entry.label}", "required": False, "help_text": entry.help}
    common["initial"] = value
    long = forms.Textarea(attrs={"rows": 3, "cols": 60})
    match entry.kind:
        case "number" | "whole":
            step = "any" if entry.kind == "number" else 1
            return forms.FloatField(widget=forms.NumberInput(attrs={"step": step}), **common)
        case "choice":
            return forms.ChoiceField(choices=[(one, one) for one in entry.choices], **common)
        case "flag":
            return forms.BooleanField(**common)
        case "list":
            return LinesField(widget=long, **{**common, "initial": value or []})
        case "pairs":
            return PairsField(widget=long, **{**common, "initial": value or {}})
        case "parts":
            return PartsField(widget=long, **{**common, "initial": value or []})
        case "long":
            return forms.CharField(widget=long, max_length=MAX_TEXT, **common)
        case "text":
            size = forms.TextInput(attrs={"size": 40})
            return forms.CharField(widget=size, max_length=MAX_TEXT, disabled=fixed, **common)


def _read(data: Mapping[str, Any], path: str) -> Any:
    value: Any = data
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    """What is empty is left out, and so is a table of nothing but what is empty."""
    if value in (None, "", [], {}):
        return
    *tables, last = path.split(".")
    for table in tables:
        data = data.setdefault(table, {})
    data[last] = int(value) if isinstance(value, float) and value.is_integer() else value
