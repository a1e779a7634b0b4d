"""Recorded answers: found by their question, charged as recorded, and never guessed."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.errors import UserError
from toolorchestra.messages import Message
from toolorchestra.models import RecordedAnswer, RecordedModel, Sampling, read_recorded
from toolorchestra.pricing import Price, Usage

PRICE = Price(input=Decimal(1), output=Decimal(10), source="test")


def ask(text: str) -> list[Message]:
    return [Message("system", "Be brief."), Message("user", text)]


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


async def test_answers_with_recorded_seconds_and_exact_dollars() -> None:
    answer = RecordedAnswer("Who?", "Ada", cost_usd=Decimal("0.0000123"), latency_s=2.5)
    completion = await RecordedModel("dear", [answer]).complete(ask("Who?"))
    assert completion.message == Message("assistant", "Ada")
    assert completion.latency_s == 2.5
    assert [(charge.source, charge.usd, charge.latency_s) for charge in completion.charges] == [
        ("dear", Decimal("0.0000123"), 2.5)
    ]


async def test_tokens_are_priced_and_unknown_cost_stays_unknown() -> None:
    tokens = RecordedAnswer("a", "1", usage=Usage(input_tokens=100, output_tokens=20))
    model = RecordedModel("m", [tokens, RecordedAnswer("b", "2")], price=PRICE)
    assert (await model.complete(ask("a"))).charges[0].usd == Decimal("0.0003")
    unknown = (await model.complete(ask("b"))).charges[0]
    assert unknown.usd is None
    assert unknown.note
    unpriced = await RecordedModel("m", [tokens]).complete(ask("a"))
    assert unpriced.charges[0].usd is None


@pytest.mark.parametrize(
    "text",
    [
        "What  is\nup?",
        "Context: none.\n\nQuestion: What is up?",
        "Question: What is up?\nAnswer in one word.",
        "Question: none\n\nQuestion: What is up?",
        "What is up?\nKeep it cheap.",
    ],
)
async def test_the_question_is_found_in_what_surrounds_it(text: str) -> None:
    model = RecordedModel("m", [RecordedAnswer("What is up?", "the sky")])
    assert (await model.complete(ask(text))).message.content == "the sky"


async def test_samples_differ_and_a_single_one_serves_all() -> None:
    answers = [RecordedAnswer("q", "first", 0), RecordedAnswer("q", "second", 1), RecordedAnswer("once", "same", 0)]
    model = RecordedModel("m", answers)
    assert (await model.complete(ask("q"))).message.content == "first"
    assert (await model.complete(ask("q"), sampling=Sampling(seed=1))).message.content == "second"
    assert (await model.complete(ask("once"), sampling=Sampling(seed=7))).message.content == "same"
    with pytest.raises(UserError, match=r"sample 2.*only samples 0, 1"):
        await model.complete(ask("q"), sampling=Sampling(seed=2))


async def test_a_miss_names_the_question_and_the_model() -> None:
    with pytest.raises(UserError, match=r"'dear'.*Never asked.*leave the task out"):
        await RecordedModel("dear", [RecordedAnswer("q", "a")]).complete(ask("Question: Never asked"))


def test_two_answers_to_one_question_are_refused() -> None:
    with pytest.raises(UserError, match="two answers"):
        RecordedModel("m", [RecordedAnswer("a  b", "1"), RecordedAnswer("a b", "2")])


def test_reads_rows(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}}
    path = write(
        tmp_path / "t.jsonl",
        {"question": "q", "response": 42, "usage": usage, "cost_usd": 1e-7, "latency_s": 1, "extra": "kept out"},
        "\n",
        {"question": "q", "answer": "b", "sample": 1},
    )
    first, second = read_recorded(path).answers
    assert first.answer == "42"
    assert first.usage == Usage(input_tokens=4, cache_read_tokens=6, output_tokens=4)
    assert first.cost_usd == Decimal("1E-7")
    assert second.sample == 1
    assert second.cost_usd is None


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"question": "q", "answer": ""}, "answer is blank"),
        ({"question": "q", "answer": "a", "score": None}, "score is blank"),
        ({"question": "q", "answer": "a", "score": " "}, "score is blank"),
        ({"question": "q", "answer": "a", "cost_usd": ""}, "cost_usd is blank"),
        ({"answer": "a"}, "'question'"),
        ({"question": "q"}, "'answer'"),
        ({"question": "q", "answer": "a", "cost_usd": -1}, "cost_usd"),
        ({"question": "q", "answer": "a", "latency_s": "NaN"}, "latency_s"),
        ({"question": "q", "answer": "a", "usage": {"prompt_tokens": -3}}, "usage"),
        ("{oops\n", "not valid JSON"),
        ("[1]\n", "no JSON object"),
        ({"question": "ok ", "answer": "again"}, r"stands on line 1 too"),
        ({"question": "q", "answer": "a", "model": "other"}, "several models"),
    ],
)
def test_bad_rows_name_file_line_and_key(tmp_path: Path, row: Any, said: str) -> None:
    path = write(tmp_path / "t.jsonl", {"question": "ok", "answer": "x"}, row)
    with pytest.raises(UserError, match=rf"t\.jsonl:2: .*{said}"):
        read_recorded(path)


def test_blank_rows_are_dropped_on_request_and_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", {"question": "a", "answer": "x", "score": ""}, {"question": "b", "answer": "y"})
    table = read_recorded(path, blanks="drop")
    assert [answer.question for answer in table.answers] == ["b"]
    assert len(table.dropped) == 1
    assert "t.jsonl:1: score" in table.dropped[0]


def test_one_model_of_several(tmp_path: Path) -> None:
    rows = [{"question": "q", "answer": name, "model": name} for name in ("small", "large")]
    path = write(tmp_path / "t.jsonl", *rows)
    assert read_recorded(path, model="large").answers[0].answer == "large"
    with pytest.raises(UserError, match="no usable rows of model 'huge'"):
        read_recorded(path, model="huge")


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such table"):
        read_recorded(tmp_path / "none.jsonl")
    with pytest.raises(UserError, match="no usable rows"):
        read_recorded(write(tmp_path / "t.jsonl"))


def test_real_outcomes_of_a_benchmark(tmp_path: Path) -> None:
    import gzip

    root = Path(os.environ.get("TOOLORCHESTRA_DATA", Path(__file__).parents[3] / "shared" / "data"))
    folder = root / "frames-simpleqa-outcomes"
    if not folder.is_dir():
        pytest.skip(f"the recorded outcomes are not at {folder} (set TOOLORCHESTRA_DATA)")
    with gzip.open(folder / "outcomes.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    one = [row for row in rows if (row["bench"], row["model"], row["effort"]) == _first_setting(rows)]
    table = read_recorded(
        write(tmp_path / "t.jsonl", *({"question": str(row["id"]), **row} for row in one if row["response"].strip()))
    )
    assert len(table.answers) > 100


def _first_setting(rows: list[dict[str, Any]]) -> tuple[str, str, str]:
    return rows[0]["bench"], rows[0]["model"], rows[0]["effort"]
