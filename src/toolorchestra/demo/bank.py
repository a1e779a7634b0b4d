"""The demo's questions: bundled banks of our own writing, and generated arithmetic, each cut into two parts.

Part A is for training, part B is held out: no question, and no document that a question is about, is in both.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

Part = Literal["A", "B"]

KINDS = ("arithmetic", "lookup", "easy", "medium", "hard")
COLLECTIONS = ("people", "products", "places", "events")

_DATA = Path(__file__).parent / "data"
_EXTRA_DISTRACTORS = {
    "city": ("Vienna", "Oslo", "Lima"),
    "symmetry": ("C3v", "D6h", "C2h"),
    "year": ("1871", "1964", "1703"),
    "number": ("5", "12", "40"),
    "person": ("Karl Osten", "Ruth Ainsley"),
}
_OPERATORS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
_PHRASES = (
    "What is {}?",
    "Compute {}.",
    "Please work out {}.",
    "How much is {}?",
    "I need the value of {}.",
    "Tell me the result of {}.",
)
_HELD_OUT_PHRASES = ("Can you calculate {} for me?", "What do I get for {}?", "Find the exact value of {}.")
_SMALLEST_RESULT = 100


@dataclass(frozen=True, slots=True)
class Question:
    """One question of the bank.

    Attributes:
        kind: One of ``KINDS``.
        text: The question.
        answer: The right answer.
        aliases: Other right answers.
        distractors: Plausible wrong answers.
        evidence: The sentence, or the number, that shows the answer.
        expression: For arithmetic, what to compute.
        collection: For a look-up, where the document is.
    """

    kind: str
    text: str
    answer: str
    aliases: tuple[str, ...] = ()
    distractors: tuple[str, ...] = ()
    evidence: str | None = None
    expression: str | None = None
    collection: str | None = None


def corpus_folder() -> Path:
    """The folder of the bundled documents, one subfolder a collection."""
    return _DATA / "corpus"


@cache
def questions(kind: str, part: Part) -> tuple[Question, ...]:
    """The written questions of one kind (not ``arithmetic``, which is generated) and part."""
    rows = _rows(kind)
    answers = _answers_by_group(rows)
    # Look-ups are cut by document, the others by row; two fifths are held out.
    keys = [row.get("document", str(index)) for index, row in enumerate(rows)]
    place = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    return tuple(
        _question(kind, row, answers)
        for row, key in zip(rows, keys, strict=True)
        if (place[key] % 5 in (1, 3)) == (part == "B")
    )


def arithmetic(rng: random.Random, part: Part) -> Question:
    """A sum of two or three operations on integers of two to four digits, in a sentence."""
    while True:
        expression, value = _expression(rng)
        # Small results are too easily right by chance, or found in the text by accident.
        if abs(value) >= _SMALLEST_RESULT:
            break
    phrases = _PHRASES if part == "A" else _PHRASES[:3] + _HELD_OUT_PHRASES
    return Question(
        kind="arithmetic",
        text=rng.choice(phrases).format(expression),
        answer=str(value),
        distractors=_near(value, rng),
        evidence=str(value),
        expression=expression,
    )


def _expression(rng: random.Random) -> tuple[str, int]:
    a, b, c, d = (_operand(rng) for _ in range(4))
    p, q = rng.choice("+-*"), rng.choice("+-")
    apply: Mapping[str, Callable[[int, int], int]] = _OPERATORS
    factor = rng.randint(11, 99)
    forms = (
        (f"{a} * {factor} {q} {c}", apply[q](a * factor, c)),
        (f"({a} {q} {b}) * {factor}", apply[q](a, b) * factor),
        (f"{c} {q} {a} * {factor}", apply[q](c, a * factor)),
        (f"{a} {p} {factor} {q} {d}", _chain(a, p, factor, q, d)),
        (f"{a} * {factor} {q} {c} + {d}", apply[q](a * factor, c) + d),
    )
    return rng.choice(forms)


def _chain(a: int, p: str, b: int, q: str, c: int) -> int:
    return _OPERATORS[q](_OPERATORS[p](a, b), c)


def _operand(rng: random.Random) -> int:
    digits = rng.choice((2, 3, 3, 4))
    return rng.randint(10 ** (digits - 1) + 1, 10**digits - 1)


def _near(value: int, rng: random.Random) -> tuple[str, ...]:
    steps = (10, -10, 100, -100, 1, -2, 30, -90)
    return tuple(str(value + step) for step in rng.sample(steps, 4))


def _rows(kind: str) -> list[dict[str, Any]]:
    text = (_DATA / f"{kind}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _answers_by_group(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    groups = {group: list(answers) for group, answers in _EXTRA_DISTRACTORS.items()}
    for row in rows:
        groups.setdefault(row["group"], []).append(row["answer"])
    return groups


def _question(kind: str, row: Mapping[str, Any], answers: Mapping[str, list[str]]) -> Question:
    right = {_folded(answer) for answer in (row["answer"], *row["aliases"])}
    wrong = dict.fromkeys(answer for answer in answers[row["group"]] if _folded(answer) not in right)
    document = row.get("document")
    return Question(
        kind=kind,
        text=row["question"],
        answer=row["answer"],
        aliases=tuple(row["aliases"]),
        distractors=tuple(wrong),
        evidence=None if document is None else _sentence(document, row["answer"]),
        collection=None if document is None else document.split("/")[0],
    )


def _sentence(document: str, answer: str) -> str:
    """The sentence of a document that holds the answer."""
    text = (corpus_folder() / document).read_text(encoding="utf-8")
    body = " ".join(text.split("\n", 1)[1].split())
    sentences = re.split(r"(?<=[.!?])\s+", body)
    return next(sentence for sentence in sentences if _folded(answer) in _folded(sentence))


def _folded(text: str) -> str:
    return text.casefold().removeprefix("the ")
