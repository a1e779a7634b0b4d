"""The documentation is run: Python blocks as they stand, task examples through the reader."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from toolorchestra import Task, read_tasks

REPO = Path(__file__).resolve().parents[1]
PAGES = sorted((REPO / "docs").rglob("*.md"))
# A block that is not to be run is fenced as ``` {.python}.
BLOCK = re.compile(r"^```(python|json)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples(language: str) -> list[object]:
    """Every block in one language, named by its page."""
    found = ((page, match) for page in PAGES for match in BLOCK.finditer(page.read_text(encoding="utf-8")))
    return [
        pytest.param(match[2], id=f"{page.relative_to(REPO)}:{match.start()}")
        for page, match in found
        if match[1] == language
    ]


@pytest.mark.parametrize("code", examples("python"))
def test_python_blocks_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "<documentation>", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("code", examples("json"))
def test_task_examples_can_be_read(code: str, tmp_path: Path) -> None:
    decoder, rows, rest = json.JSONDecoder(), [], code.strip()
    while rest:
        row, end = decoder.raw_decode(rest)
        rows.append(row)
        rest = rest[end:].strip()
    if not all("question" in row for row in rows):
        return
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert len(read_tasks(file)) == len(rows)


def test_the_task_reference_names_every_key_of_a_task() -> None:
    page = (REPO / "docs/reference/task-files.md").read_text(encoding="utf-8")
    keys = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    row = Task(id="1", question="What is 1?", answer="1").to_json()
    assert keys == {*row, *row["preference"]}
