"""Task files: read whole and checked before any work starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.preferences import Preference
from toolorchestra.tasks import Task, read_tasks, tasks_hash, write_tasks

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
answers = text.filter(str.strip)
tasks = st.builds(
    Task,
    id=text,
    question=text,
    answer=answers,
    aliases=st.lists(text, max_size=2).map(tuple),
    kind=st.sampled_from(["", "arithmetic"]),
    split=st.sampled_from(["", "held-out tools"]),
    preference=st.builds(Preference, text=text, compute=st.floats(0, 1)),
    tools=st.none() | st.lists(text, max_size=2).map(tuple),
    setting=st.dictionaries(text, st.integers() | text | st.lists(st.booleans(), max_size=2), max_size=2),
)


@given(st.lists(tasks, min_size=1, max_size=4, unique_by=lambda task: task.id))
def test_a_file_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, rows: list[Task]) -> None:
    path = tmp_path_factory.mktemp("tasks") / "deep" / "tasks.jsonl"
    write_tasks(path, rows)
    assert read_tasks(path) == tuple(rows)


def test_only_id_question_and_answer_are_needed_and_numbers_may_be_numbers(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"id": 7, "question": "6*7?", "answer": 42}\n\n')
    assert read_tasks(path) == (Task("7", "6*7?", "42"),)


GOOD = '{"id": "a", "question": "q", "answer": "x"}'


@pytest.mark.parametrize(
    ("lines", "where", "message"),
    [
        ([""], "", "the task file is empty"),
        ([GOOD, '{"id": "b", "question": "q"}'], ":2", "the task has no 'answer'"),
        ([GOOD, '{"id": "b", "question": "q", "answer": "  "}'], ":2", "answer: the answer is empty"),
        ([GOOD, '{"id": "b", "question": "", "answer": "x"}'], ":2", "question:"),
        ([GOOD, "", GOOD], ":3", "the id 'a' stands on line 1 too"),
        ([GOOD, "{"], ":2", "not valid JSON"),
        (["[" * 100_000], ":1", "not valid JSON"),
        (["[1]"], ":1", "line: "),
        (['{"id": "a", "question": "q", "answer": "x", "anser": "y"}'], ":1", "anser: "),
        (
            ['{"id": "a", "question": "q", "answer": "x", "preference": {"outcome": 2}}'],
            ":1",
            "preference.outcome is 2",
        ),
        (['{"id": "a", "question": "q", "answer": "x", "preference": {"cost": 1}}'], ":1", "no key 'cost'"),
        (['{"id": "a", "question": "q", "answer": "x", "tools": "web"}'], ":1", "tools: "),
    ],
)
def test_a_wrong_file_names_itself_the_line_and_the_fault(
    tmp_path: Path, lines: list[str], where: str, message: str
) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError) as caught:
        read_tasks(path)
    assert str(caught.value).startswith(f"{path}{where}: ")
    assert message in str(caught.value)


def test_a_missing_file_is_named_with_how_to_create_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.jsonl: no such task file.*id, question, answer"):
        read_tasks(tmp_path / "none.jsonl")


class TestHash:
    @given(st.lists(tasks, min_size=1, max_size=3))
    def test_it_outlives_a_file_and_sees_any_change(self, rows: list[Task]) -> None:
        changed = [replace(rows[0], answer=rows[0].answer + "!"), *rows[1:]]
        again = [replace(task, setting=json.loads(json.dumps(dict(task.setting)))) for task in rows]
        assert tasks_hash(rows) == tasks_hash(again)
        assert tasks_hash(rows) != tasks_hash(changed)
        assert tasks_hash(rows) != tasks_hash([*rows, rows[0]])

    def test_the_order_of_keys_does_not_matter(self) -> None:
        one = Task("a", "q", "x", setting={"p": 1, "q": 2})
        assert tasks_hash([one]) == tasks_hash([replace(one, setting={"q": 2, "p": 1})])

    def test_the_order_of_tasks_does(self) -> None:
        one, two = Task("a", "q", "x"), Task("b", "q", "x")
        assert tasks_hash([one, two]) != tasks_hash([two, one])
