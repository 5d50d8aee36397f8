"""The experiments that ship with the lab: each a document that runs as it is, with a guide to what it shows beside it.

A file `<nn>-<slug>.yaml` may have a guide of the same name in Markdown; its first line is the title.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from experiments.guides import Guide, read_guide
from experiments.search.planner import most_runs_of, plans_ahead
from runners.document import parse_text
from runners.matrix import Plan, plan_experiment

FOLDER = Path(__file__).resolve().parent / "examples"
FIRST = "demo"
TAG = "example-"


@dataclass(frozen=True)
class Example:
    """`chips` are the ids of all chips that its trials name, `nodes` says which nodes may run it."""

    slug: str
    text: str
    document: Mapping[str, Any]
    guide: Guide | None
    trials: int
    runs: int
    searches: bool
    chips: tuple[str, ...]
    nodes: str
    speculative: bool

    @property
    def title(self) -> str:
        return self.guide.title if self.guide else str(self.document["name"])

    @property
    def question(self) -> str:
        return str(self.document.get("question", ""))

    @property
    def tag(self) -> str | None:
        """The tag that its experiments carry, by which a page finds its guide again."""
        return next((tag for tag in self.document.get("tags", ()) if tag.startswith(TAG)), None)


@cache
def examples(folder: Path = FOLDER) -> tuple[Example, ...]:
    """All of them, the one to begin with first, then by their numbers. Files of the installed version: read once.

    Raises SpecError for one that is no experiment.
    """
    paths = sorted(folder.glob("*.yaml"), key=lambda path: (path.stem != FIRST, path.stem[:1].isdigit(), path.stem))
    return tuple(map(_read, paths))


def find_example(slug: str) -> Example | None:
    return next((one for one in examples() if one.slug == slug), None)


def example_of(tags: Iterable[str]) -> Example | None:
    """The example that an experiment is, by its tags."""
    wanted = {tag for tag in tags if tag.startswith(TAG)}
    return next((one for one in examples() if one.tag in wanted), None)


def _read(path: Path) -> Example:
    text, guide = path.read_text(encoding="utf-8"), path.with_suffix(".md")
    document = parse_text(text)
    plan = plan_experiment(document)
    return Example(
        slug=re.sub(r"^\d+-", "", path.stem),
        text=text,
        document=document,
        guide=read_guide(guide.read_text(encoding="utf-8")) if guide.exists() else None,
        trials=len(plan.searched) or len(plan.cells),
        runs=most_runs_of(plan),
        searches=plans_ahead(plan.spec),
        chips=_chips(plan),
        nodes=_nodes(plan),
        speculative=any(cell.spec.allow_speculative for cell in plan.cells),
    )


def _chips(plan: Plan) -> tuple[str, ...]:
    named = [chip for cell in plan.cells for chip in cell.spec.placement.chips(cell.spec.chip)]
    return tuple(chip for chip in dict.fromkeys(named) if chip != "any")


def _nodes(plan: Plan) -> str:
    selector = plan.spec.nodes
    if selector.names:
        return f"the node {' or '.join(selector.names)}"
    kind = selector.labels.get("kind", "")
    others = [f"{key} {value}" for key, value in selector.labels.items() if key != "kind"]
    return " ".join(["a", *([kind] if kind else []), "node", *(["with", ", ".join(others)] if others else [])])
