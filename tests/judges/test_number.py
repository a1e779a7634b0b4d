from __future__ import annotations

import json
import os
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.judges import NumberJudge
from toolorchestra.judges.number import answer_number, parse_number

DATA = Path(os.environ.get("TOOLORCHESTRA_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", "42"),
        ("$1,234.50", "1234.5"),
        ("1.2345 x 10^3", "1234.5"),
        ("1.2 \\times 10^{-3}", "0.0012"),
        ("-5", "-5"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("−7 °C", "-7"),
        ("5 km", "5"),
        ("5km", "5"),
        ("5%", "5"),
        ("50 \\%", "50"),
        (".5", "0.5"),
        ("+3", "3"),
        ("2.5 million", "2500000"),
        ("1e3", "1000"),
        ("3/4", "0.75"),
        ("1 1/2", "1.5"),
        ("\\frac{3}{4}", "0.75"),
        ("1,000,000", "1000000"),
    ],
)
def test_numbers_are_read_however_they_are_written(text: str, value: str) -> None:
    assert parse_number(text) == Fraction(Decimal(value))


@pytest.mark.parametrize(
    "text", ["", "Paris", "9^9^9", "10²", "5!", "2*3", "1e999999", "1/0", "9" * 1_001, "1.2.3", "3 and 4", "1,2"]
)
def test_what_is_not_one_plain_number_is_none(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("He has 3 apples and 4 pears, 7 in all.", 7),
        ("Answer: 5 + 3 = 8 eggs", 8),
        ("The answer is 42, as it was in 2019.", 42),
        ("#### 18", 18),
        ("\\boxed{12} since 3 * 4", 12),
        ("from 3-5", 5),
    ],
)
def test_the_number_of_a_longer_answer(text: str, value: int) -> None:
    assert answer_number(text) == value


@pytest.mark.parametrize(
    ("answer", "gold", "correct"),
    [
        ("It costs $42.00.", "42", True),
        ("about 43", "42", False),
        ("no idea", "42", False),
        ("0.05", "5%", False),
        ("Paris", "Paris", True),
        ("42", "Paris", False),
        ("0.1", "1/10", True),
        ("0.30000000000000004", "0.3", False),
    ],
)
async def test_verdicts(answer: str, gold: str, correct: bool) -> None:
    assert (await NumberJudge().judge("q", answer, [gold])).correct is correct


@pytest.mark.parametrize(
    "answer",
    [
        "9" * 5_000,
        "9" * 1_000_000,
        "1e999999",
        "1e" + "9" * 5_000,
        "9^9^9^9",
        "1 " * 10_000,
        "1,111" * 4_000,
        "1/" * 9_000,
    ],
    ids=lambda answer: answer[:8],
)
async def test_judge_05_hostile_numbers_are_wrong_and_quick(answer: str) -> None:
    start = time.monotonic()
    verdict = await NumberJudge().judge("q", answer, ["42"])
    assert time.monotonic() - start < 1
    assert verdict.correct is False


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**12), max_value=10**12))
def test_grouping_and_currency_do_not_matter(number: Decimal) -> None:
    value = Fraction(number)
    sign = "-" if number < 0 else ""
    for text in (f"{number:f}", f"{number:,f}", f"{sign}${abs(number):,f}", f"so it is {number:f}.", f"{number:f} USD"):
        assert answer_number(text) == value, text


@given(st.text())
def test_no_text_raises(text: str) -> None:
    parse_number(text)
    answer_number(text)


async def test_recorded_solutions_are_judged_as_their_labels_say() -> None:
    path = DATA / "qa" / "gsm8k" / "example_model_solutions.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is absent: set TOOLORCHESTRA_DATA to the folder of real data")
    judge = NumberJudge()
    wrong, total = [], 0
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][:400]
    for row in rows:
        gold = row["ground_truth"].rpartition("A: ")[2]
        for key in ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"):
            verdict = await judge.judge(row["question"], row[key]["solution"], [gold])
            total += 1
            if verdict.correct is not row[key]["is_correct"]:
                wrong.append((gold, row[key]["solution"][-60:], verdict))
    assert len(wrong) / total <= 0.01, wrong[:10]
