"""Seeing an episode while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from toolorchestra.environments.qa import SUBMIT, QuestionEnvironment
from toolorchestra.messages import ToolCall
from toolorchestra.trajectory import Action, CallRecord, Observation, Outcome, Trajectory, total_usd


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as it happened.

    Attributes:
        number: From 1.
        action: What the orchestrator decided.
        calls: What it called, and what came back.
        submitted: The call that ended the episode with an earlier result, where one did.
        usd: Dollars of the turn, calls included; ``None`` where one is unknown.
        seconds: Seconds of the turn; calls made at once count once.
        done: Whether it ended the episode.
    """

    number: int
    action: Action
    calls: tuple[CallRecord, ...]
    submitted: ToolCall | None
    usd: Decimal | None
    seconds: float
    done: bool


class WatchedEnvironment:
    """An environment that tells of every turn.

    Args:
        environment: The real one.
        on_turn: Called after every turn.
    """

    def __init__(self, environment: QuestionEnvironment, on_turn: Callable[[Turn], None]) -> None:
        self._environment = environment
        self._on_turn = on_turn
        self._turns = 0
        self._since = time.perf_counter()

    @property
    def time_left_s(self) -> float | None:
        """Seconds left, which the loop sets before every step."""
        return self._environment.time_left_s

    @time_left_s.setter
    def time_left_s(self, seconds: float | None) -> None:
        self._environment.time_left_s = seconds

    async def reset(self) -> Observation:
        """As the real one."""
        observation = await self._environment.reset()
        self._since = time.perf_counter()
        return observation

    async def step(self, action: Action) -> Observation:
        """As the real one; then tell."""
        deciding_s = time.perf_counter() - self._since if action.latency_s is None else action.latency_s
        observation = await self._environment.step(action)
        self._turns += 1
        self._on_turn(_turn(self._turns, action, observation, deciding_s))
        self._since = time.perf_counter()
        return observation

    async def score(self, trajectory: Trajectory) -> Outcome:
        """As the real one."""
        return await self._environment.score(trajectory)


def _turn(number: int, action: Action, observation: Observation, deciding_s: float) -> Turn:
    charges = [*action.charges, *observation.charges]
    for record in observation.calls:
        charges.extend(record.result.charges)
    asked = action.message.tool_calls if observation.done else ()
    submitted = next((call for call in asked if call.name == SUBMIT), None)
    return Turn(
        number,
        action,
        observation.calls,
        submitted,
        total_usd(charges),
        deciding_s + observation.latency_s,
        observation.done,
    )
