"""The one record between the loop and every training engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from toolorchestra.errors import UserError
from toolorchestra.messages import Message
from toolorchestra.trajectory import AllowedTokens, SampledTurn, Trajectory


class Span(NamedTuple):
    """Where a turn's own tokens stand in a sequence: from ``start`` up to, not including, ``end``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TrainingSequence:
    """One sequence of tokens as it was sampled, and what it is worth. Per-token fields have the length of ``ids``.

    Attributes:
        task_id: The task.
        sample: The rollout's number. A rollout whose history was rewritten gives several sequences.
        group: Rollouts that are compared with each other.
        ids: Token ids: prompt, turns and everything between them.
        loss_mask: True where the policy chose the token.
        logprobs: The sampler's log-probabilities where ``loss_mask`` is true, else 0.
        allowed: What a grammar allowed at a chosen token; ``None`` for a free choice.
        turn_spans: Where the turns stand.
        advantage: Of the whole rollout; exactly 0 for one that is not trained on.
        reward: Of the whole rollout; ``None`` where it could not be scored.
        reward_parts: What each component added to the reward.
        trained: Whether the rollout is trained on.
        policy_version: Optimiser updates that the sampling weights had seen.
        temperature: Of the sampling.
    """

    task_id: str
    sample: int
    group: str
    ids: tuple[int, ...]
    loss_mask: tuple[bool, ...]
    logprobs: tuple[float, ...]
    allowed: tuple[AllowedTokens | None, ...]
    turn_spans: tuple[Span, ...]
    advantage: float = 0.0
    reward: float | None = None
    reward_parts: Mapping[str, float] = field(default_factory=dict)
    trained: bool = True
    policy_version: int = 0
    temperature: float = 1.0

    @property
    def prompt_length(self) -> int:
        """Number of tokens before the first turn."""
        return self.turn_spans[0].start

    @property
    def choices(self) -> list[int]:
        """Positions of the tokens that were chosen."""
        return [position for position, chosen in enumerate(self.loss_mask) if chosen]


def sequences_of(
    trajectory: Trajectory,
    *,
    advantage: float = 0.0,
    reward: float | None = None,
    reward_parts: Mapping[str, float] | None = None,
    trained: bool = True,
) -> tuple[TrainingSequence, ...]:
    """The sequences of one rollout: one, or more where its history was rewritten on the way.

    A last turn that a limit cut before anything was said (it is on the record for what it cost) has no tokens and
    teaches nothing; it is left out.

    Raises:
        UserError: A turn has no token ids. They are never guessed from its text.
    """
    runs: list[list[SampledTurn]] = []
    for number, step in enumerate(trajectory.steps, start=1):
        turn = step.action.tokens
        if turn is None:
            if number == len(trajectory.steps) and step.action.message == Message("assistant"):
                break
            raise UserError(
                f"a turn of {trajectory.policy!r} on task {trajectory.task_id!r} has no token ids; train a policy "
                "that samples tokens (its text is not encoded again: the ids could differ from what was sampled)"
            )
        if not turn.continues or not runs:
            runs.append([])
        runs[-1].append(turn)
    return tuple(
        _sequence(trajectory, run, advantage=advantage, reward=reward, reward_parts=reward_parts or {}, trained=trained)
        for run in runs
    )


def _sequence(
    trajectory: Trajectory,
    turns: list[SampledTurn],
    *,
    advantage: float,
    reward: float | None,
    reward_parts: Mapping[str, float],
    trained: bool,
) -> TrainingSequence:
    ids: list[int] = []
    mask: list[bool] = []
    logprobs: list[float] = []
    allowed: list[AllowedTokens | None] = []
    spans: list[Span] = []
    for turn in turns:
        context = len(turn.context_ids)
        ids += [*turn.context_ids, *turn.ids]
        mask += [*[False] * context, *turn.sampled]
        logprobs += [*[0.0] * context, *turn.logprobs]
        allowed += [*[None] * context, *turn.allowed]
        spans.append(Span(len(ids) - len(turn.ids), len(ids)))
    return TrainingSequence(
        task_id=trajectory.task_id,
        sample=trajectory.sample,
        group=trajectory.group,
        ids=tuple(ids),
        loss_mask=tuple(mask),
        logprobs=tuple(logprobs),
        allowed=tuple(allowed),
        turn_spans=tuple(spans),
        advantage=advantage,
        reward=reward,
        reward_parts=dict(reward_parts),
        trained=trained,
        policy_version=turns[0].policy_version,
        temperature=turns[0].temperature,
    )
