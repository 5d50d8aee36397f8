"""Options that several commands share, and what their texts mean."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from runners.cli.errors import WrongUse

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Put a YAML value at a dotted path of the document; repeatable."),
]
ProjectOption = Annotated[
    str | None, typer.Option(help="The project's slug; may be left out by who is in one project.")
]
KeyOption = Annotated[
    str | None,
    typer.Option(help="Sent again with the same key, a submission makes no second experiment. By default a new one."),
]
TimeoutOption = Annotated[
    float | None, typer.Option(min=0, metavar="SECONDS", help="Give up after so long; exit status 5.")
]
RunOption = Annotated[bool, typer.Option("--run", help="ID is that of a run, not of an experiment.")]
LimitOption = Annotated[int, typer.Option(min=1, help="Show at most so many.")]
AllOption = Annotated[bool, typer.Option("--all", help="Show all, however many pages that takes.")]
ExperimentId = Annotated[int, typer.Argument(metavar="ID", min=1, help="The experiment's number.")]
ThingId = Annotated[int, typer.Argument(metavar="ID", min=1, help="The experiment's number, or with --run the run's.")]


def read_changes(given: list[str] | None) -> dict[str, Any]:
    """`["a.b=3", "c=[x, y]"]` as `{"a.b": 3, "c": ["x", "y"]}`. Raises WrongUse."""
    return dict(_read_change(text) for text in given or [])


def _read_change(text: str) -> tuple[str, Any]:
    # Only who sets something waits for the document's own parser and its types.
    from runners.document import SpecError, parse_text  # noqa: PLC0415

    path, equals, value = text.partition("=")
    if not equals or not path.strip() or "\n" in value:
        raise WrongUse(f"--set {text!r}: expected PATH=VALUE, such as engine.max_num_seqs=16")
    try:
        read = parse_text(f"value: {value}")
    except SpecError as error:
        raise WrongUse(f"--set {path}: {value!r} is no YAML value: {error.errors[0].message}") from error
    return path.strip(), read["value"]
