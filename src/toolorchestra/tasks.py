"""Tasks and task files: what is asked, what is right, and the setting in which it is asked.

A task file is JSON Lines, one task a line. Besides ``id``, ``question`` and ``answer`` everything has a default.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from toolorchestra.errors import UserError
from toolorchestra.preferences import Preference


@dataclass(frozen=True, slots=True)
class Task:
    """One question with its right answer.

    Attributes:
        id: Unique in its file.
        question: What is asked.
        answer: The right answer.
        aliases: Other answers that are right too.
        judge: Which verifier compares: ``exact``, ``number``, ``math`` or ``model``.
        kind: A label for breakdowns, such as ``arithmetic``.
        split: A label for breakdowns, such as ``held-out tools``.
        preference: The user's wish; the default asks for a right answer only.
        tools: Names of the tools on offer; ``None`` for all.
        setting: Plain values that the environment reads, such as prices and descriptions that hold for this task only.
    """

    id: str
    question: str
    answer: str
    aliases: tuple[str, ...] = ()
    judge: str = "exact"
    kind: str = ""
    split: str = ""
    preference: Preference = field(default_factory=Preference)
    tools: tuple[str, ...] | None = None
    setting: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A plain object for files."""
        return {
            "id": self.id,
            "question": self.question,
            "answer": self.answer,
            "aliases": list(self.aliases),
            "judge": self.judge,
            "kind": self.kind,
            "split": self.split,
            "preference": self.preference.to_json(),
            "tools": None if self.tools is None else list(self.tools),
            "setting": dict(self.setting),
        }


class _Row(BaseModel):
    """One line of a task file, as written."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    answer: str
    aliases: list[str] = []
    judge: str = "exact"
    kind: str = ""
    split: str = ""
    preference: dict[str, Any] = {}
    tools: list[str] | None = None
    setting: dict[str, Any] = {}

    @field_validator("answer")
    @classmethod
    def _not_blank(cls, answer: str) -> str:
        if not answer.strip():
            raise ValueError("the answer is empty; every task needs the right answer to be scored against")
        return answer

    def task(self) -> Task:
        """The frozen form."""
        preference = Preference.from_json(self.preference)
        values = self.model_dump(exclude={"preference", "aliases", "tools"})
        tools = None if self.tools is None else tuple(self.tools)
        return Task(**values, aliases=tuple(self.aliases), tools=tools, preference=preference)


def read_tasks(path: Path) -> tuple[Task, ...]:
    """Read a task file whole, checking every line before any work starts.

    Raises:
        UserError: The file is missing or empty, a line is no valid task, or two tasks share an id. The message names
            the file, the line, the key and the fix.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such task file. It is JSON Lines: one object with id, question, answer a line")
    tasks: list[Task] = []
    lines_by_id: dict[str, int] = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            task = _read_line(line, where=f"{path}:{number}")
            if task.id in lines_by_id:
                raise UserError(
                    f"{path}:{number}: the id {task.id!r} stands on line {lines_by_id[task.id]} too; make ids unique"
                )
            lines_by_id[task.id] = number
            tasks.append(task)
    if not tasks:
        raise UserError(f"{path}: the task file is empty. Write one object with id, question and answer a line")
    return tuple(tasks)


def write_tasks(path: Path, tasks: Iterable[Task]) -> None:
    """Write a task file that :func:`read_tasks` reads back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(task.to_json(), ensure_ascii=False) + "\n" for task in tasks)
    path.write_text("".join(lines), encoding="utf-8")


def tasks_hash(tasks: Iterable[Task]) -> str:
    """A fingerprint of tasks and their order, kept in a run's record so that a resumed run cannot mix two sets."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(json.dumps(task.to_json(), sort_keys=True).encode())
    return digest.hexdigest()[:16]


def _read_line(line: str, *, where: str) -> Task:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not valid JSON ({error}); write one JSON object a line") from None
    try:
        return _Row.model_validate(value).task()
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "line"
        if first["type"] == "missing":
            raise UserError(f"{where}: the task has no {key!r}; every task needs id, question and answer") from None
        raise UserError(f"{where}: {key}: {first['msg'].removeprefix('Value error, ')}") from None
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
