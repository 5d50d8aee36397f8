"""What ships: each example read once, with its guide, what it needs and how much it is; and guides as safe HTML."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.guides import read_guide, render
from experiments.shipped import FOLDER, Example, example_of, examples, find_example
from runners.document import SpecError
from runners.matrix import plan_experiment

DOCUMENT = """name: "A name"
question: Why?
tags: [example, example-short]
model: llama-3-8b
nodes: {labels: {kind: modelled}}
placement:
  disaggregate: {kind: prefill_decode, prefill: {chip: h100-sxm}, decode: {chip: mi300x}}
workload: {kind: synthetic, arrival: {kind: closed, max_concurrency: 1}, num_requests: 4}
matrix: {engine.weights: [bf16, fp8]}
repeats: 2
"""


def read(folder: Path, document: str = DOCUMENT, guide: str | None = None) -> Example:
    (folder / "07-a-slug.yaml").write_text(document)
    if guide is not None:
        (folder / "07-a-slug.md").write_text(guide)
    (example,) = examples(folder)
    return example


def test_an_example_tells_what_it_needs_and_how_much_it_is(tmp_path: Path) -> None:
    example = read(tmp_path)
    assert (example.slug, example.title, example.question, example.tag) == ("a-slug", "A name", "Why?", "example-short")
    assert (example.trials, example.runs) == (2, 4)
    assert (example.chips, example.nodes, example.speculative) == (("h100-sxm", "mi300x"), "a modelled node", False)
    assert example.guide is None


def test_a_guides_first_line_is_the_title(tmp_path: Path) -> None:
    example = read(tmp_path, guide="# A title\n\n## What to look for\n\nThe *front*.\n")
    assert example.title == "A title"
    assert example.guide is not None
    assert example.guide.body == "<h3>What to look for</h3>\n<p>The <em>front</em>.</p>\n"


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("{names: [local]}", "the node local"),
        ("{labels: {kind: measured, rack: a}}", "a measured node with rack a"),
        ("{}", "a node"),
    ],
)
def test_which_nodes_may_run_it_is_said_in_words(tmp_path: Path, nodes: str, said: str) -> None:
    assert read(tmp_path, DOCUMENT.replace("{labels: {kind: modelled}}", nodes)).nodes == said


def test_a_file_that_is_no_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="repeats"):
        read(tmp_path, DOCUMENT.replace("repeats: 2", "repeats: 0"))


def test_every_file_that_ships_is_there_once_and_the_demonstration_first():
    found = examples()
    assert len(found) == len({one.slug for one in found}) == len(list(FOLDER.glob("*.yaml")))
    assert found[0].slug == "demo"
    tags = [one.tag for one in found if one.tag]
    assert len(tags) == len(set(tags))
    for one in found:
        assert plan_experiment(one.document).spec.question


def test_an_experiment_is_an_example_by_its_tag():
    tagged = next(one for one in examples() if one.tag)
    assert example_of(["mine", str(tagged.tag)]) == tagged
    assert example_of(["example", "example-of-nothing"]) is None
    assert find_example("no-such") is None


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "[a](javascript:alert(1))",
        "<img src=x onerror=alert(1)>",
        "![a](http://e.example/a.png)",
    ],
)
def test_a_guide_holds_nothing_that_a_browser_would_run_or_fetch(text: str) -> None:
    shown = render(text)
    assert "<script" not in shown and "<img" not in shown and 'href="javascript' not in shown


def test_tables_and_lists_are_shown():
    body = read_guide("t\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- x\n").body
    assert "<th>a</th>" in body and "<td>2</td>" in body and "<li>x</li>" in body
