"""The same number, however it is written: ``$1,234.50``, ``1234.5``, ``1.2345 x 10^3``, ``3/4``, ``2 million``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from toolorchestra.judges.base import Verdict
from toolorchestra.judges.exact import same_words
from toolorchestra.judges.final_answer import MAX_ANSWER_CHARS, final_answer

MAX_DIGITS = 1_000
"""Digits of a number, at most. A longer one is no number here, and equals none."""
MAX_EXPONENT = 1_000
"""Power of ten of a number, at most."""

_SIGNS = str.maketrans({"−": "-", "–": "-", "×": "x", "\u00a0": " ", "\u202f": " ", "\u2009": " "})
_CURRENCY = re.compile(r"\\?[$€£¥₹]\s{0,2}")
_LATEX = re.compile(r"\\[dt]?frac\s{0,2}\{(-?[0-9]{1,1000})\}\s{0,2}\{([0-9]{1,1000})\}")
_PLAIN = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
_NUMBER = re.compile(
    rf"""(?<![\w.^/])(?:(?<![)\]])(?P<sign>[+-])\s?)?
    (?:(?P<whole>[0-9]{{1,9}})\s+(?=[0-9]{{1,9}}/[0-9]))?   # of a mixed number
    (?P<mantissa>{_PLAIN})
    (?:[eE](?P<exponent>[+-]?[0-9]+)
      |\s{{0,2}}(?:x|\*|\\times|\\cdot)\s{{0,2}}10\s?(?:\^|\*\*)\s?\{{?(?P<power>[+-]?[0-9]+)\}}?
      |\s?/\s?(?P<divisor>[0-9]+(?:\.[0-9]+)?)
    )?
    (?:\s{{1,2}}(?P<scale>thousand|million|billion|trillion)\b)?
    (?P<more>[⁰¹²³⁴-⁹]|\s?(?:\^|\*\*|!|[*/x]\s?[0-9]|(?:\.|,)[0-9]))?""",
    re.VERBOSE | re.IGNORECASE,
)
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}


class _Found(NamedTuple):
    value: Fraction | None  # None: looks like a number, but is none that can be compared
    start: int
    end: int


class NumberJudge:
    """Right if the numbers are equal, exactly and as decimals. Currency, commas, units and percent signs do not count.

    The number of an answer is the first one of what it marks as its final answer (after the last ``=``, if there is
    one), else the last one of the text. ``5%`` equals ``5``, not ``0.05``. A right answer that is no number is
    compared by its words. It always has a verdict.
    """

    name = "number"

    async def judge(self, question: str, answer: str, gold: Sequence[str]) -> Verdict:
        """Compare numbers; the question does not matter."""
        del question
        if same_words(answer, gold):
            return Verdict(True, "the same words")
        given = answer_number(answer)
        if given is None:
            return Verdict(False, "the answer holds no number that can be compared")
        correct = given in {number for right in gold if (number := parse_number(right)) is not None}
        return Verdict(correct, "equal numbers" if correct else "no right answer has this number")


def parse_number(text: str) -> Fraction | None:
    """The value of a text that is one number with or without a unit; ``None`` for any other text."""
    found = _numbers(text)
    return found[0].value if len(found) == 1 else None


def answer_number(text: str) -> Fraction | None:
    """The number that an answer gives; ``None`` where there is none, or none that can be compared."""
    marked = final_answer(text)
    if marked is not None:
        found = _numbers(marked.rpartition("=")[2]) or _numbers(marked)
        if found:
            return found[0].value
    found = _numbers(_end_of(text))
    return found[-1].value if found else None


def _end_of(text: str) -> str:
    if len(text) <= MAX_ANSWER_CHARS:
        return text
    return text[-MAX_ANSWER_CHARS:].lstrip("0123456789,.")  # the first number may have been cut


def _numbers(text: str) -> list[_Found]:
    text = _CURRENCY.sub("", text[-MAX_ANSWER_CHARS:].translate(_SIGNS))
    text = _LATEX.sub(r"\1/\2", text)
    return [_Found(_value(match), match.start(), match.end()) for match in _NUMBER.finditer(text)]


def _value(match: re.Match[str]) -> Fraction | None:
    if match["more"] or len(match[0]) > MAX_DIGITS:
        return None
    power = int(match["exponent"] or match["power"] or 0) + _SCALES.get((match["scale"] or "").lower(), 0)
    if abs(power) > MAX_EXPONENT:
        return None
    value = Fraction(Decimal(match["mantissa"].replace(",", "")))
    if match["divisor"]:
        divisor = Fraction(Decimal(match["divisor"]))
        if divisor == 0:
            return None
        value /= divisor
    value = (value + int(match["whole"] or 0)) * Fraction(10) ** power
    return -value if match["sign"] == "-" else value
