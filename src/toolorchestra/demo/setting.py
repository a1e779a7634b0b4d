"""What a demo task's ``setting`` holds: all of its market, as plain values, so that a task file is self-contained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolorchestra.demo.bank import Question
from toolorchestra.demo.offers import Offer
from toolorchestra.errors import UserError
from toolorchestra.tasks import Task


@dataclass(frozen=True, slots=True)
class Setting:
    """The market of one task.

    Attributes:
        seed: Of the simulated models: which questions they know.
        wish: The name of the wish, for breakdowns.
        offers: The tools, in the order in which they are shown.
        distractors: Wrong answers that models give.
        evidence: What shows the answer, where something does.
        expression: What to compute, for arithmetic.
        collection: Where the document is, for a look-up.
    """

    seed: int
    wish: str
    offers: tuple[Offer, ...]
    distractors: tuple[str, ...]
    evidence: str | None = None
    expression: str | None = None
    collection: str | None = None

    @classmethod
    def of(cls, question: Question, offers: Sequence[Offer], wish: str, seed: int) -> Setting:
        """The setting of a question in a market."""
        return cls(
            seed,
            wish,
            tuple(offers),
            question.distractors,
            question.evidence,
            question.expression,
            question.collection,
        )

    def to_json(self) -> dict[str, Any]:
        """The plain form. ``prices`` repeats what the offers come to, in dollars a call, for readers of the file."""
        return {
            "seed": self.seed,
            "wish": self.wish,
            "offers": [offer.to_json() for offer in self.offers],
            "prices": {offer.name: str(offer.usd_per_call) for offer in self.offers},
            "distractors": list(self.distractors),
            "evidence": self.evidence,
            "expression": self.expression,
            "collection": self.collection,
        }

    @classmethod
    def read(cls, task: Task) -> Setting:
        """Read a task's setting.

        Raises:
            UserError: The task is none of the demo's.
        """
        value, where = task.setting, f"task {task.id!r}"
        try:
            return cls(
                seed=int(value["seed"]),
                wish=str(value["wish"]),
                offers=tuple(Offer.from_json(offer, where=where) for offer in value["offers"]),
                distractors=tuple(value["distractors"]),
                evidence=value["evidence"],
                expression=value["expression"],
                collection=value["collection"],
            )
        except KeyError as error:
            raise UserError(
                f"{where}: its setting has no {error.args[0]!r}; the demo market runs tasks that `build_tasks` made"
            ) from None
