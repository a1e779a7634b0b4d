"""What a judge looks like, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from toolorchestra.trajectory import Charge


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right.

    Attributes:
        correct: ``None`` where the judge cannot say; the rollout is then not usable, neither right nor wrong.
        reason: Why, in a few words.
        charges: What judging cost.
    """

    correct: bool | None
    reason: str = ""
    charges: tuple[Charge, ...] = ()


class Judge(Protocol):
    """Compares an answer with the right one."""

    @property
    def name(self) -> str:
        """What task files and outcomes call it."""
        ...

    async def judge(self, question: str, answer: str, gold: Sequence[str]) -> Verdict:
        """Judge an answer to a question.

        Args:
            question: What was asked.
            answer: What was answered: untrusted, of any length.
            gold: The right answers, any of which will do.

        Raises:
            RetryableError: The judge's infrastructure failed: the outcome is missing, not wrong.
        """
        ...
