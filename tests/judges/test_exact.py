from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.judges import ExactJudge, final_answer
from toolorchestra.judges.exact import normalise


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("Paris", "Paris"),
        ("  the  PARIS. ", "Paris"),
        ("**Paris**", "Paris"),
        ('"Paris!"', "Paris"),
        ("It took a while.\nFinal answer: Paris.", "Paris"),
        ("**Answer:** Paris", "Paris"),
        ("So the answer is Paris.", "Paris"),
        ("so \\boxed{Paris}", "Paris"),
        ("A", "a"),
        ("The Who", "the who"),
        ("\u201cPeter\u2019s\u201d", "Peter's"),
        ("\u22125", "-5"),
        ("C++", "C++"),
    ],
)
async def test_the_same_words(answer: str, gold: str) -> None:
    assert (await ExactJudge().judge("q", answer, ["something else", gold])).correct is True


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("Paris, France", "Paris"),
        ("not Paris", "Paris"),
        ("", "Paris"),
        ("...", "!"),
        (".5", "5"),
        ("5!", "5"),
        ("-5", "5"),
        ("10²", "102"),
        ("[0, 1)", "(0, 1]"),
        ("C", "C++"),
        ("the", "a"),
    ],
)
async def test_other_words(answer: str, gold: str) -> None:
    assert (await ExactJudge().judge("q", answer, [gold])).correct is False


@given(st.text())
def test_normalising_twice_changes_no_more_than_an_article(text: str) -> None:
    once = normalise(text)
    assert normalise(once) in (once, normalise(once.partition(" ")[2]))


async def test_hostile_answers_take_no_time() -> None:
    start = time.process_time()
    for text in ("." * 1_000_000 + "x", '"' * 1_000_000, " " * 1_000_000, "answer is " * 100_000, "\\boxed{" * 100_000):
        assert (await ExactJudge().judge("q", text, ["x y"])).correct is False
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Answer: 3\nno:\nAnswer: 4", "4"),
        ("#### 18", "18"),
        ("answer: 1\n\\boxed{\\frac{1}{2}} done", "\\frac{1}{2}"),
        ("\\boxed{open", None),
        ("nothing here", None),
        ("The final answer: x", "x"),
        ("my answer is 7 eggs", "7 eggs"),
    ],
)
def test_final_answers(text: str, found: str | None) -> None:
    assert final_answer(text) == found
