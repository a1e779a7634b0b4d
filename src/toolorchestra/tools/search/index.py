"""BM25 over passages, with scores that can be compared between queries."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from toolorchestra.errors import UserError
from toolorchestra.tools.search.corpus import Passage

if TYPE_CHECKING:
    import numpy as np

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_STOPWORDS = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be been but by can did do does for from had has have he her his how i if in into is it
        its me my no not of on or our she so such that the their them then there these they this to was we were what
        when where which who whom whose why will with you your""",
    )
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found.

    Attributes:
        passage: What was found.
        score: From 0 to below 1: the share of the query's weight that the passage covers (see :class:`Bm25Index`).
    """

    passage: Passage
    score: float


class Index(Protocol):
    """Something that finds passages."""

    def search(self, query: str, *, top_k: int, collection: str | None = None) -> Sequence[Hit]:
        """The best passages, best first. An empty sequence means that nothing matches."""
        ...


def words(text: str) -> list[str]:
    """The words that count for the search: folded in case and form, without stop words and plural endings.

    Chinese, Japanese and Korean characters count one by one, as these scripts put no space between words.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [_singular(word) for word in _WORD.findall(folded) if word not in _STOPWORDS]


def _singular(word: str) -> str:
    """Harman's S-stemmer (1991): only plurals, so that no two unrelated words become one."""
    if len(word) <= 3 or not word.endswith("s"):
        return word
    if word.endswith("ies") and word[-4] not in "ae":
        return word[:-3] + "y"
    if word.endswith("es") and word[-3] not in "aeo":
        return word[:-1]
    return word if word[-2] in "us" else word[:-1]


class Bm25Index:
    """BM25 (Lucene's form, k1 = 1.5, b = 0.75), in memory.

    A term adds ``idf · tf / (tf + k1 · (1 - b + b · length / mean))``, always less than its idf,
    ``ln(1 + (N - df + 0.5) / (df + 0.5))``. The score is the sum over the query's distinct words divided by the sum
    of their idfs: 0 for no word in common, near 1 for all of them, often, in a short passage. Words that occur nowhere
    weigh too, so a query about something else scores low. Equal scores keep the order of the passages.

    Raises:
        UserError: bm25s is not installed, or no passage holds a word.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(passages)
        tokens = [words(f"{passage.title} {passage.text}") for passage in self.passages]
        self._frequency = Counter(word for document in tokens for word in set(document))
        if not self._frequency:
            raise UserError("the search folder holds no words to search for")
        self._bm25 = _build(tokens)

    def search(self, query: str, *, top_k: int, collection: str | None = None) -> list[Hit]:
        """The best passages for a query, best first."""
        asked = list(dict.fromkeys(words(query)))
        known = [word for word in asked if word in self._frequency]
        if not known:
            return []
        scores: np.ndarray[Any, Any] = self._bm25.get_scores(known)
        whole = sum(self._idf(word) for word in asked)
        order = (-scores).argsort(kind="stable")
        hits: list[Hit] = []
        for position in order:
            passage, score = self.passages[position], float(scores[position])
            if score <= 0 or len(hits) == top_k:
                break
            if collection is None or passage.collection == collection:
                hits.append(Hit(passage, score / whole))
        return hits

    def _idf(self, word: str) -> float:
        frequency = self._frequency.get(word, 0)
        return math.log(1 + (len(self.passages) - frequency + 0.5) / (frequency + 0.5))


def _build(tokens: list[list[str]]) -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise UserError("local search needs the package bm25s: pip install bm25s") from error
    bm25 = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numpy")
    bm25.index(tokens, show_progress=False)
    return bm25
