"""Tasks as a configuration asks them: its preference, its tools, its judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolorchestra.config import did_you_mean
from toolorchestra.errors import UserError
from toolorchestra.judges import JUDGES, Verdict
from toolorchestra.preferences import Preference
from toolorchestra.tasks import Task

_NEUTRAL = Preference()


class NoAnswerJudge:
    """The judge of a question whose right answer nobody knows: it never says."""

    name = "none"

    async def judge(self, question: str, answer: str, gold: Sequence[str]) -> Verdict:
        """No verdict."""
        del question, answer, gold
        return Verdict(None, "the right answer is not known")


def adopt_preference(task: Task, preference: Preference) -> Task:
    """The task, with the configuration's preference where it has none of its own."""
    return replace(task, preference=preference) if task.preference == _NEUTRAL else task


def check_task(task: Task, tools: Sequence[str], judge: str) -> None:
    """Check that a task can be asked.

    Raises:
        UserError: It names a tool or a judge that there is not.
    """
    unknown = next((name for name in task.tools or () if name not in tools), None)
    if unknown is not None:
        raise UserError(
            f"task {task.id!r}: no tool {unknown!r} under tools ({did_you_mean(unknown, tools)}); correct the task's "
            "tools, or add the tool"
        )
    if judge not in JUDGES:
        raise UserError(
            f"task {task.id!r}: there is no judge {judge[:40]!r} ({did_you_mean(judge, JUDGES)}); correct its judge"
        )
