from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolorchestra.judges import MathJudge

DATA = Path(os.environ.get("TOOLORCHESTRA_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture(scope="module")
def judge() -> Iterator[MathJudge]:
    judge = MathJudge()
    yield judge
    judge.close()


@pytest.mark.parametrize(
    ("answer", "gold", "correct"),
    [
        ("The answer is $\\frac{1}{2}$.", "0.5", True),
        ("\\boxed{2\\sqrt{2}}", "\\sqrt{8}", True),
        ("$(x+1)^2$", "x^2+2x+1", True),
        ("\\boxed{(3, \\pi/2)}", "\\left( 3, \\frac{\\pi}{2} \\right)", True),
        ("\\boxed{3}", "4", False),
        ("no idea", "4", False),
        ("\\boxed{\\text{Evelyn}}", "\\text{Evelyn}", True),
        ("Answer: p - q", "p - q", True),
        ("", "4", False),
    ],
)
async def test_verdicts(judge: MathJudge, answer: str, gold: str, correct: bool) -> None:
    assert (await judge.judge("q", answer, [gold])).correct is correct


async def test_judge_05_a_number_of_thousands_of_digits_is_wrong_and_quick(judge: MathJudge) -> None:
    start = time.monotonic()
    for answer in ("9" * 5_000, "9" * 1_000_000, "\\boxed{" + "9" * 5_000 + "}"):
        assert (await judge.judge("q", answer, ["42"])).correct is False
    assert time.monotonic() - start < 1


async def test_a_comparison_without_end_is_stopped_and_the_next_one_works() -> None:
    judge = MathJudge(timeout_s=1.0)
    assert (await judge.judge("q", "$1+1$", ["2"])).correct is True
    start = time.monotonic()
    ticks = 0
    verdict_of = asyncio.ensure_future(judge.judge("q", "$9^{9^{9^{9}}} + 1$", ["9^{9^{9^{9}}}"]))
    while not verdict_of.done():
        await asyncio.sleep(0.02)
        ticks += 1
    assert (await verdict_of).correct is not True
    assert time.monotonic() - start < 3
    assert ticks > 0
    assert (await judge.judge("q", "$2+1$", ["3"])).correct is True
    judge.close()


async def test_many_at_once_are_all_judged(judge: MathJudge) -> None:
    verdicts = await asyncio.gather(*(judge.judge("q", f"${n}+1$", [str(n + n % 2)]) for n in range(1, 9)))
    assert [verdict.correct for verdict in verdicts] == [n % 2 == 1 for n in range(1, 9)]


async def test_recorded_solutions_agree_with_their_answers(judge: MathJudge) -> None:
    path = DATA / "qa" / "math500" / "math500.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is absent: set TOOLORCHESTRA_DATA to the folder of real data")
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][:40]
    right = [(await judge.judge(row["problem"], row["solution"], [row["answer"]])).correct for row in rows]
    wrong = [
        (await judge.judge(row["problem"], row["solution"], [other["answer"]])).correct
        for row, other in zip(rows, [*rows[1:], rows[0]], strict=True)
        if row["answer"] != other["answer"].removeprefix("x=")  # "5" does answer "x=5"
    ]
    assert right.count(True) / len(right) >= 0.97
    assert wrong.count(True) == 0
