"""How one control shows what the document says at its path. Which controls there are is decided elsewhere.

A field's name says to experiments.form.changes what its change does. A setting that is an axis of the matrix is
shown there and can't be set twice; a value that a control can't show is left to the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.form.changes import ENDS
from experiments.form.kinds import KINDS, axes_of, is_used, kind_of
from experiments.form.parts import Axis, Field, Group, Option
from experiments.form.settings import Setting, setting
from runners.display import setting_value
from runners.document import FieldError
from runners.dotted import read

LABELS = {
    "tokens": "Tokens",
    "min_tokens": "From",
    "max_tokens": "To at most",
    "median_tokens": "Median",
    "sigma": "Sigma of the log",
    "max_concurrency": "Users at once",
    "request_rate": "Request rate",
    "burstiness": "Burstiness",
    "bytes_per_s": "Link bandwidth",
    "latency_s": "Link latency",
    "capacity_bytes": "Capacity",
    "groups": "Shared prefixes",
    "prefix_tokens": "Tokens of each",
    "share": "Share that has one",
    "factor": "Thinking per answer token",
    "effort": "Effort",
    "in_history": "Thinking stays in the history",
    "count": "Number",
    "min_count": "From",
    "max_count": "To at most",
    "value_s": "Always",
    "min_s": "From",
    "mean_s": "Mean",
    "median_s": "Median",
    "max_s": "At most",
}
UNITS = {"request_rate": "req/s", "bytes_per_s": "B/s", "latency_s": "s", "capacity_bytes": "B"}
UNITS |= dict.fromkeys(("value_s", "min_s", "mean_s", "median_s", "max_s"), "s")


class Drawing:
    def __init__(self, document: Mapping[str, Any], faults: Sequence[FieldError]) -> None:
        self.document = document
        self.axes = axes_of(document)
        self._faults = faults

    def text(self, path: str, label: str) -> Field:
        return self.field(f"set:{path}", path, label, wide=True)

    def plain(self, about: Setting, label: str = "", unit: str = "", default: str = "") -> Field:
        options: tuple[Option, ...] = ()
        if about.only_choices:
            options = tuple(option_of(choice) for choice in about.choices)
        stands = default if about.default is None else option_of(about.default).label
        label = label or about.path.split(".")[-1]
        return self.field(f"set:{about.path}", about.path, label, options=options, default=stands, unit=unit)

    def setting(self, path: str, label: str = "", unit: str = "", default: str = "") -> Field:
        return self.plain(setting(path, self.document), label, unit, default)

    def below(self, parent: str, key: str, of: str = "") -> Field:
        """A setting by the usual name of its key, with what it is of where that is not plain from its group."""
        label = LABELS.get(key, key)
        return self.setting(f"{parent}.{key}", f"{of}: {label.lower()}" if of else label, UNITS.get(key, ""))

    def kind(self, path: str, label: str) -> Field:
        """The kind of what keeps the keys of all its kinds in one mapping."""
        key, uses = KINDS[path]
        first, *others = (option_of(kind) for kind in uses)
        said = kind_of(path, self.document)
        value = "" if said == first.value else said
        return self.field(
            f"kind:{path}", f"{path}.{key}", label, value=value, options=tuple(others), default=first.label
        )

    def optional(self, path: str, label: str) -> Field:
        """Whether what a document may leave out is there."""
        value = "" if read(self.document, path) is None else "given"
        return self.field(f"optional:{path}", path, label, value=value, options=(option_of("given"),), default="none")

    def choice(self, path: str, label: str, names: Sequence[str], default: str = "") -> Field:
        """A name of which some are offered."""
        return self.field(f"set:{path}", path, label, options=tuple(map(option_of, names)), default=default)

    def axis(self, path: str) -> Axis:
        values = self.axes[path]
        shown = ", ".join(setting_value(value) for value in values) if isinstance(values, list) else str(values)
        return Axis(path, shown, (*self.errors(f"matrix.{path}"), *self.errors(path)))

    def is_addable(self, path: str) -> bool:
        """Not an axis yet, of an effect, and of the two ends of a workload the one that the document has."""
        parent, _, key = path.rpartition(".")
        other_end = parent == "workload" and key in ENDS and read(self.document, path) is None
        return path not in self.axes and not other_end and is_used(path, self.document)

    def folded(self, id: str, title: str, fields: Sequence[Field], note: str = "") -> Group:
        """A group that is folded as long as the document says nothing of it."""
        touched = any(field.value or field.state or field.errors for field in fields)
        return Group(title, tuple(fields), note, id=id, touched=touched)

    def field(
        self,
        name: str,
        path: str,
        label: str,
        *,
        value: str | None = None,
        options: tuple[Option, ...] = (),
        unit: str = "",
        default: str = "",
        state: str = "",
        wide: bool = False,
    ) -> Field:
        if value is None:
            found = read(self.document, path)
            if isinstance(found, list | dict):
                value, state = "", "text"
            else:
                value = "" if found is None else typed(found)
        if path in self.axes:
            value, state = "", "compared"
        if options and value and value not in {option.value for option in options}:
            options = (*options, Option(value, value, options[-1].group))
        return Field(name, path, label, value, options, unit, default, state, wide, self.errors(path))

    def errors(self, path: str) -> tuple[str, ...]:
        return tuple(fault.message for fault in self._faults if fault.field == path)


def typed(value: Any) -> str:
    """A value as one would type it: large and small numbers with their exponent."""
    short = f"{value:g}" if isinstance(value, float) else ""
    if "e" in short and float(short) == value:
        return short.replace("e+", "e").replace("e-0", "e-")
    return setting_value(value)


def option_of(choice: Any) -> Option:
    shown = ("on" if choice else "off") if isinstance(choice, bool) else setting_value(choice)
    return Option(setting_value(choice), shown)
