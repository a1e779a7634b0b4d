"""Baselines without a feedback rule: always the same model, random calls, the known best plan."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolorchestra.errors import UserError
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.policies.base import Policy
from toolorchestra.policies.scripted.arguments import fill_arguments
from toolorchestra.policies.scripted.moves import act, call_tools, finish, on_offer, results
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Action


@dataclass(frozen=True, slots=True)
class OneModel:
    """Always calls one tool, once, and answers with what it says.

    Attributes:
        tool: The tool's name.
    """

    tool: str

    @property
    def name(self) -> str:
        """``always <tool>``."""
        return f"always {self.tool}"

    def episode(self, task: Task, sample: int) -> Policy:
        """The policy of one episode."""
        return _OneModelEpisode(self.tool, task.question)


@dataclass(frozen=True, slots=True)
class _OneModelEpisode:
    tool: str
    question: str

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        if results(history):
            return finish(history, tools)
        spec = on_offer(tools).get(self.tool)
        if spec is None:
            # Another setting may offer other tools: the baseline then has no answer, and the task counts as failed.
            return act(Message("assistant", ""))
        return call_tools(history, [(self.tool, fill_arguments(spec, self.question))])


@dataclass(frozen=True, slots=True)
class RandomCalls:
    """Calls random tools with random arguments that fit, and finishes with a probability that grows with every result.

    Attributes:
        seed: The same seed, task and sample give the same episode.
        growth: The probability of finishing grows by this much with every result.
    """

    seed: int = 0
    growth: float = 0.35

    def __post_init__(self) -> None:
        if not 0.0 < self.growth <= 1.0:
            raise UserError(f"RandomCalls.growth is {self.growth}: it must be above 0 (else it never ends), at most 1")

    @property
    def name(self) -> str:
        """``random``."""
        return "random"

    def episode(self, task: Task, sample: int) -> Policy:
        """The policy of one episode, with a random stream of its own."""
        # A string seeds by its SHA-512, hence the same on every machine and under every hash seed.
        return _RandomEpisode(random.Random(f"{self.seed}/{task.id}/{sample}"), self.growth, task.question)


@dataclass(frozen=True, slots=True)
class _RandomEpisode:
    rng: random.Random
    growth: float
    question: str

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        offered = on_offer(tools)
        if not offered or self.rng.random() < self.growth * len(results(history)):
            return finish(history, tools)
        spec = self.rng.choice(list(offered.values()))
        arguments = fill_arguments(
            spec,
            self.question,
            choose=lambda name, values: self.rng.choice(list(values)),
            optional=lambda name: self.rng.random() < 0.5,
        )
        return call_tools(history, [(spec.name, arguments)])


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One step of a plan. Parameters that are required and not given are filled from the schema and the question."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Plan = Sequence[PlannedCall | ToolCall | str]
"""Calls in order: as :class:`PlannedCall`, as a ``ToolCall``, or by the tool's name alone."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """Plays the plan that is known to be best: what an orchestrator could reach at most.

    Attributes:
        plan: The calls for a task, one a turn; the episode then ends with the last result.
        name: For trajectories and reports.
    """

    plan: Callable[[Task], Plan]
    name: str = "oracle"

    def episode(self, task: Task, sample: int) -> Policy:
        """The policy of one episode."""
        return _OracleEpisode(tuple(map(_planned, self.plan(task))), task.question)


@dataclass(frozen=True, slots=True)
class _OracleEpisode:
    plan: tuple[PlannedCall, ...]
    question: str

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        done = len(results(history))
        if done >= len(self.plan):
            return finish(history, tools)
        step = self.plan[done]
        spec = on_offer(tools).get(step.tool)
        if spec is None:
            names = ", ".join(on_offer(tools)) or "none"
            raise UserError(f"the oracle's plan calls {step.tool!r}, which is not on offer (on offer: {names})")
        return call_tools(history, [(step.tool, {**fill_arguments(spec, self.question), **step.arguments})])


def _planned(step: PlannedCall | ToolCall | str) -> PlannedCall:
    if isinstance(step, str):
        return PlannedCall(step)
    return PlannedCall(step.name, step.arguments) if isinstance(step, ToolCall) else step
