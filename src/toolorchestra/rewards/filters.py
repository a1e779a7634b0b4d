"""Which rollouts are trained on, and for what reason the others are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from toolorchestra.trajectory import Trajectory

Reason = Literal["missing", "no_verdict", "malformed_call", "no_answer", "low_spread"]
"""Why a rollout is not trained on.

- ``missing``: lost to an infrastructure failure. There is no reward, so it cannot vote.
- ``no_verdict``: it answered, but nobody could say whether rightly (the judge abstained). It cannot vote either.
- ``malformed_call``: a tool call could not be read or did not fit the tool's schema.
- ``no_answer``: it ended without a valid answer.
- ``low_spread``: its whole group is dropped, as the rewards hardly differ.
"""

UNSCORED: frozenset[Reason] = frozenset({"missing", "no_verdict"})
"""Reasons for which there is no reward at all. Such a rollout never votes, whatever the settings."""


def verdict(trajectory: Trajectory) -> bool | None:
    """Whether a trajectory solved its task; ``None`` where nobody can say, which is neither right nor wrong.

    An episode that ended without an answer failed, whether or not a judge was asked.
    """
    if trajectory.status == "missing":
        return None
    if trajectory.solved is not None:
        return trajectory.solved
    ended = trajectory.outcome is not None or trajectory.status == "limit"
    return False if ended and not _answered(trajectory) else None


def unusable_reason(trajectory: Trajectory) -> Reason | None:
    """Why a rollout is not trained on; ``None`` for one that is usable.

    Source: arXiv 2511.21689, section 3.2 (the filters on malformed calls and invalid answers). A task that was solved
    without words (the environment judged a state) has its valid answer in that state.
    """
    if trajectory.status == "missing":
        return "missing"
    solved = verdict(trajectory)
    if solved is None:
        return "no_verdict"
    if trajectory.malformed_calls:
        return "malformed_call"
    return None if solved or _answered(trajectory) else "no_answer"


def unusable_reasons(trajectories: Sequence[Trajectory]) -> tuple[Reason | None, ...]:
    """:func:`unusable_reason` of every rollout, in their order."""
    return tuple(unusable_reason(trajectory) for trajectory in trajectories)


def count_reasons(reasons: Sequence[Reason | None]) -> Counter[Reason]:
    """How many rollouts were left out, by reason."""
    return Counter(reason for reason in reasons if reason is not None)


def _answered(trajectory: Trajectory) -> bool:
    return bool(trajectory.answer and trajectory.answer.strip())
