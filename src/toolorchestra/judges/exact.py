"""The same words: equality after a normalisation that cannot change what is meant."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from toolorchestra.judges.base import Verdict
from toolorchestra.judges.final_answer import MAX_ANSWER_CHARS, final_answer

_QUOTES = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "«": '"', "»": '"', "\u2212": "-", "\u00a0": " "}
)
_WRAPPING = "\"'`*_ "
_ARTICLE = re.compile(r"(?:a|an|the) (?=\S)")
_STOPS = ".,;:"


def normalise(text: str) -> str:
    """What is compared: lower case, single spaces, no quotes or Markdown around it, no full stop, no leading article.

    Brackets, signs, a leading point and ``5!`` stay, since they change what is meant; so do superscripts (``10²``).
    """
    text = " ".join(unicodedata.normalize("NFC", text).translate(_QUOTES).split()).casefold()
    text = text.lstrip(_WRAPPING).rstrip(_WRAPPING + _STOPS)
    before_mark = text.rstrip("?!" + _WRAPPING)
    if before_mark[-1:].isalpha():
        text = before_mark
    return _ARTICLE.sub("", text, count=1) if _ARTICLE.match(text) else text


def same_words(answer: str, gold: Sequence[str]) -> bool:
    """Whether the answer, or the final answer that it marks, has the words of one of the right answers."""
    marked = final_answer(answer)
    given = {normalise(text) for text in (answer[:MAX_ANSWER_CHARS], marked or "")} - {""}
    return bool(given & {normalise(right) for right in gold})


class ExactJudge:
    """Right if the words are the same after :func:`normalise`. It always has a verdict."""

    name = "exact"

    async def judge(self, question: str, answer: str, gold: Sequence[str]) -> Verdict:
        """Compare words; the question does not matter."""
        del question
        correct = same_words(answer, gold)
        return Verdict(correct, "the same words" if correct else "not the words of any right answer")
