"""Questions with four answers, of which one is right: about size, order, spelling and kinds of things.

Right is an answer that names the right letter, or gives the right answer's words and nothing else.
"""

from __future__ import annotations

import random
import re

from runners.quality.tasks.question import Question, question_stream

MAX_TOKENS = 24
LETTERS = "ABCD"
KINDS: dict[str, tuple[str, ...]] = {
    "animal": ("horse", "otter", "falcon", "trout", "beetle", "camel", "badger", "heron"),
    "colour": ("green", "purple", "yellow", "crimson", "scarlet", "blue"),
    "tool": ("hammer", "chisel", "wrench", "saw", "spade", "drill"),
    "fruit": ("apple", "pear", "melon", "banana", "mango", "grape"),
    "country": ("Norway", "Kenya", "Peru", "Japan", "Portugal", "Canada"),
    "metal": ("iron", "zinc", "nickel", "titanium", "tin", "aluminium"),
}
_LETTER = re.compile(
    r"^\W*(?:(?:the\s+)?(?:correct\s+)?answer\s*(?:is)?\W*)?([A-D])(?=$|[).:,\]*\s]*$|[).:,\]*])", re.I
)


def multiple_choice_question(seed: int, number: int) -> Question:
    stream = question_stream("multiple_choice", seed, number)
    asked, right, wrong = stream.choice((_largest, _smallest, _first_word, _kind))(stream)
    options = [right, *wrong]
    stream.shuffle(options)
    letter = LETTERS[options.index(right)]
    listed = "\n".join(f"{mark}) {option}" for mark, option in zip(LETTERS, options, strict=True))
    return Question(
        task="multiple_choice",
        number=number,
        prompt=f"{asked}\n{listed}\nAnswer with the letter alone.",
        expected=letter,
        max_tokens=MAX_TOKENS,
        check=lambda answer: chosen_letter(answer, options) == letter,
    )


def chosen_letter(answer: str, options: list[str]) -> str | None:
    """The letter that an answer names, in whatever case, alone or before a bracket or a stop; or that of the option
    whose words it is. None where it names none."""
    text = answer.strip()
    if found := _LETTER.match(text):
        return found[1].upper()
    plain = text.strip(" .\"'*").casefold()
    return next((mark for mark, option in zip(LETTERS, options, strict=True) if option.casefold() == plain), None)


Asked = tuple[str, str, list[str]]
"""The question, its right answer, three wrong ones."""


def _numbers(stream: random.Random) -> list[int]:
    return sorted(stream.sample(range(10, 1000), 4))


def _largest(stream: random.Random) -> Asked:
    *smaller, largest = _numbers(stream)
    return "Which number is the largest?", str(largest), [str(one) for one in smaller]


def _smallest(stream: random.Random) -> Asked:
    smallest, *larger = _numbers(stream)
    return "Which number is the smallest?", str(smallest), [str(one) for one in larger]


def _first_word(stream: random.Random) -> Asked:
    words = [word for words in KINDS.values() for word in words if word.islower()]
    by_letter = {word[0]: word for word in stream.sample(words, len(words))}
    first, *later = sorted(stream.sample(sorted(by_letter.values()), 4))
    return "Which word comes first in the alphabet?", first, later


def _kind(stream: random.Random) -> Asked:
    kind, *others = stream.sample(sorted(KINDS), 4)
    article = "an" if kind[0] in "aeiou" else "a"
    return f"Which of these is {article} {kind}?", stream.choice(KINDS[kind]), [stream.choice(KINDS[o]) for o in others]
