"""Chat templates as transformers has them, and templates made to hurt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runners.runtime.chat_template import MAX_TEMPLATE_CHARS, ChatTemplates, TextError
from runners.runtime.model_file import ModelFileError

CHAT = [{"role": "user", "content": "Hi"}]


def render(source: str, messages: Any = CHAT, **more: Any) -> str:
    return ChatTemplates(Path("m.gguf"), {"default": source}, {"bos_token": "<s>"}).render(messages, None, True, more)


def nested(then: str) -> str:
    """A template that builds a list of 2^50 items out of fifty small ones, and then does something with it."""
    return "{% set n = namespace(x=['a']) %}{% for i in range(50) %}{% set n.x = [n.x, n.x] %}{% endfor %}" + then


def doubling(how: str) -> str:
    """A template that doubles a text fifty times."""
    return "{% set n = namespace(x='ab') %}{% for i in range(50) %}" + how + "{% endfor %}{{ n.x }}"


HURTS = {
    "loops in loops": "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "loops that skip": "{% for i in range(100000) %}{% for j in range(100000) if j < 0 %}{% endfor %}{% endfor %}",
    "a macro that calls itself twice": "{% macro f(n) %}{{ f(n-1) ~ f(n-1) if n }}{% endmacro %}{{ f(60) }}",
    "a macro that never ends": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "a long range": "{% for i in range(10 ** 9) %}{% endfor %}",
    "a long text": "{{ 'x' * 10 ** 9 }}",
    "a long list": "{{ [1] * 10 ** 9 }}",
    "lists of lists": "{{ [[1] * 100000] * 100000 }}",
    "a huge power": "{{ 10 ** (10 ** 9) }}",
    "text doubled with ~": doubling("{% set n.x = n.x ~ n.x %}"),
    "text doubled with +": doubling("{% set n.x = n.x + n.x %}"),
    "text doubled in a block": doubling("{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}"),
    "text doubled with join": doubling("{% set n.x = [n.x, n.x] | join %}"),
    "text doubled with format": doubling("{% set n.x = '%s%s' % (n.x, n.x) %}"),
    "a nested list printed": nested("{{ n.x }}"),
    "a nested list as JSON": nested("{{ n.x | tojson }}"),
    "a nested list as text": nested("{{ n.x | string | length }}"),
    "a nested list formatted": nested("{{ '{}'.format(n.x) }}"),
    "a nested list in a format": nested("{{ '%s' % [n.x] }}"),
    "a wide number": "{{ '%1000000000d' % 1 }}",
    "a width as an argument": "{{ '%*d' % (1000000000, 1) }}",
    "a wide field": "{{ '{:1000000000d}'.format(1) }}",
    "a field of computed width": "{{ '{:{}}'.format(1, 1000000000) }}",
    "padding": "{{ 'x'.ljust(1000000000) }}",
    "a text replaced by longer ones": "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
    "the same as a filter": "{{ ('a' * 1000000) | replace('a', 'b' * 1000000) }}",
    "a long separator": "{{ ('b' * 1000000).join(range(100000) | map('string')) }}",
    "many long texts": "{{ range(100000) | map('string') | map('replace', '', 'y' * 100000) | list | length }}",
    "a sum of lists": "{{ ([[1] * 100000] * 1000) | sum(start=[]) }}",
    "JSON indented far": "{{ messages | tojson(indent=1000000000) }}",
    "text indented far": "{{ 'x' | indent(1000000000, true) }}",
    "a long time format": "{{ strftime_now('%Y' * 100000) }}",
    "a way out by class": "{{ messages.__class__.__mro__[1].__subclasses__() }}",
    "a way out by globals": "{{ raise_exception.__globals__.json }}",
    "a way out by filter": "{{ (messages | attr('__class__')).mro() }}",
    "a change of the chat": "{{ messages.append(1) }}",
}


@pytest.mark.parametrize("how", HURTS)
def test_a_template_made_to_hurt_is_stopped(how: str) -> None:
    with pytest.raises(TextError, match="the model's template refuses it") as caught:
        render(HURTS[how])
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "source", ["{{ 'x' | center(1000) }}", "{% include 'other' %}{% for %}", "{{", "{% nonsense %}"]
)
def test_what_is_no_template_is_refused_when_the_model_opens(source: str) -> None:
    with pytest.raises(ModelFileError, match="chat template: expected a jinja template"):
        render(source)


def test_a_template_of_absurd_length_is_refused() -> None:
    with pytest.raises(ModelFileError, match="at most"):
        render("x" * (MAX_TEMPLATE_CHARS + 1))


def test_long_chats_stay_within_the_bounds() -> None:
    source = (
        "{% set n = namespace(text='', calls=0) %}{% for m in messages %}{% if m.role == 'user' %}"
        "{% set n.text = m.content | trim | replace('\\n', ' ') %}{% endif %}"
        "{% for part in m.parts %}{{ part ~ ':' }}{% endfor %}{{ '<' + m.role + '>' + n.text }}{% endfor %}"
    )
    messages = [{"role": "user", "content": "word \n" * 200, "parts": ["a", "b"]} for _ in range(5000)]
    assert render(source, messages) == ("a:b:<user>" + ("word  " * 200).strip()) * 5000


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ bos_token }}{% if tools is none and documents is none %}x{% endif %}", "<s>x"),
        ("{{ {'b': '<é>', 'a': [1, none]} | tojson }}", json.dumps({"b": "<é>", "a": [1, None]}, ensure_ascii=False)),
        ("{{ {'b': 1, 'a': 2} | tojson(indent=2, sort_keys=true) }}", json.dumps({"a": 2, "b": 1}, indent=2)),
        ("{{ [1, 2] | tojson(separators=(',', ':')) }}", "[1,2]"),
        (
            "{% for m in messages %}{% continue %}x{% endfor %}{% for i in range(3) %}{{ i }}{% break %}{% endfor %}",
            "0",
        ),
        ("{% for i in range(4) if i is odd %}{{ loop.index }}{{ i }}{{ ',' if not loop.last }}{% endfor %}", "11,23"),
        ("{% for x in [[1, [2]]] recursive %}{{ x if x is number else loop(x) }}{% endfor %}", "12"),
        ("  {% if true %}\n a\n  {% endif %}\nb", " a\nb"),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}", "Hi"),
        ("{{ messages[0]['content'] ~ 1 ~ none }}", "Hi1None"),
        ("{{ ['a', 1, 'c'] | join('-') }}{{ messages | join(',', attribute='role') }}", "a-1-cuser"),
        ("{{ [1, 2.5] | sum }}{{ [{'n': 2}] | sum(attribute='n') }}", "3.52"),
        ("{{ 'a\nb\n\nc' | indent(2) }}", "a\n  b\n\n  c"),
        ("{{ 'a\nb' | indent('> ', first=true) }}", "> a\n> b"),
        ("{{ '%s is %05.1f' | format('x', 2) }}{{ '{:>4}|{{}}'.format('y') }}", "x is 002.0   y|{}"),
        ("{{ 'aXbX' | replace('X', '', 1) }}{{ 'aXbX'.replace('X', '-') }}", "abXa-b-"),
        ("{{ 'a b'.split() | map('upper') | list }}{{ {'k': 1}.items() | list }}", "['A', 'B'][('k', 1)]"),
        ("{{ enable_thinking }}{{ absent }}{{ absent is defined }}", "FalseFalse"),
        ("{{ strftime_now('%Y') | length }}", "4"),
    ],
)
def test_what_templates_use_works_as_in_transformers(source: str, expected: str) -> None:
    assert render(source, enable_thinking=False) == expected


def test_a_templates_own_refusal_is_told() -> None:
    with pytest.raises(TextError, match="no system role, please"):
        render("{{ raise_exception('no system role, please') }}")


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt", "bos_token"])
def test_names_of_the_chats_own_can_not_be_set(name: str) -> None:
    with pytest.raises(TextError, match=f"{name} can't be set"):
        ChatTemplates(Path("m"), {"default": ""}, {"bos_token": ""}).render(CHAT, None, True, {name: "x"})
