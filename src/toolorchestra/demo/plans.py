"""Fixed plans for demo tasks, what each is worth, and the best one: the oracle, and the proof that tasks make sense.

A plan is played through the market like any policy. Since everything simulated repeats exactly, one rollout a plan
is its value, and the plans of a task, scored as one group, show which one the reward prefers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolorchestra.demo.market import Market, unsure
from toolorchestra.demo.offers import Offer, models
from toolorchestra.demo.setting import Setting
from toolorchestra.environments.qa import SUBMIT
from toolorchestra.limits import Limits
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.rewards import RewardSettings, score_group
from toolorchestra.rollout import EpisodeRequest, run_episodes
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Action, Trajectory

_NO_FLOOR = RewardSettings(std_floor=0.0)


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of a plan.

    Attributes:
        tool: Its name.
        role: The part that the tool plays.
        arguments: What it is called with.
        if_unsure: Make it only if the result before it says that it is not sure.
    """

    tool: str
    role: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    if_unsure: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls in order; the last result is the answer."""

    calls: tuple[PlannedCall, ...]

    @property
    def label(self) -> str:
        """Its roles, such as ``search+small``, or ``small?dear`` where the second is asked if the first is unsure."""
        first, *others = self.calls
        return first.role + "".join(("?" if call.if_unsure else "+") + call.role for call in others)


@dataclass(frozen=True, slots=True)
class PlanPolicy:
    """Plays a plan. It keeps no state: how far it has come is read from the conversation."""

    plan: Plan
    virtual_clock: bool = True

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        """Make the next call, or hand in the last result."""
        results = [message for message in history if message.role == "tool"]
        call = self._next(results)
        if call is None:
            return _hand_in(results, tools)
        wanted = ToolCall(f"call_{len(results)}", call.tool, call.arguments)
        return Action(Message("assistant", tool_calls=(wanted,)), latency_s=0.0, finish_reason="tool_calls")

    def _next(self, results: Sequence[Message]) -> PlannedCall | None:
        if len(results) == len(self.plan.calls):
            return None
        call = self.plan.calls[len(results)]
        return None if call.if_unsure and not unsure(results[-1].content) else call


def _hand_in(results: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
    number = str(len(results))
    if any(tool.name == SUBMIT for tool in tools):
        submit = ToolCall("submit", SUBMIT, {"result": number})
        return Action(Message("assistant", tool_calls=(submit,)), latency_s=0.0, finish_reason="tool_calls")
    content = results[-1].content.removeprefix(f"[{number}] ")
    return Action(Message("assistant", content), latency_s=0.0)


def plans(task: Task) -> tuple[Plan, ...]:
    """The plans that make sense for a task: whoever could answer, after reading, with a second one if unsure."""
    setting = Setting.read(task)
    asked = [PlannedCall(offer.name, offer.role) for offer in models(setting.offers)]
    found = [Plan((call,)) for call in asked]
    found += [
        Plan((first, PlannedCall(then.tool, then.role, if_unsure=True)))
        for index, first in enumerate(asked)
        for then in asked[index + 1 :]
        if first.role == "small" and then.role != "small"
    ]
    found += [Plan((opening, *plan.calls)) for opening in _openings(setting) for plan in found]
    found += [Plan((call,)) for call in _calculations(setting)]
    return tuple(found)


def _openings(setting: Setting) -> list[PlannedCall]:
    """For a look-up, the search of the right collection."""
    if setting.collection is None:
        return []
    arguments = {"collection": setting.collection}
    return [PlannedCall(offer.name, offer.role, arguments) for offer in _playing(setting, "search")]


def _calculations(setting: Setting) -> list[PlannedCall]:
    """For arithmetic, the right expression."""
    if setting.expression is None:
        return []
    arguments = {"expression": setting.expression}
    return [PlannedCall(offer.name, offer.role, arguments) for offer in _playing(setting, "interpreter")]


def _playing(setting: Setting, role: str) -> list[Offer]:
    return [offer for offer in setting.offers if offer.role == role]


@dataclass(frozen=True, slots=True)
class Valued:
    """What a plan came to.

    Attributes:
        plan: The plan.
        trajectory: Its episode.
        reward: Its reward among the task's plans.
    """

    plan: Plan
    trajectory: Trajectory
    reward: float


@dataclass(frozen=True, slots=True)
class _OnePlan:
    """Makes the policy of the plan with the sample's number."""

    plans: Sequence[Plan]
    name: str = "plan"

    def episode(self, task: Task, sample: int) -> PlanPolicy:
        """A plan's policy."""
        return PlanPolicy(self.plans[sample])


async def value_plans(market: Market, task: Task) -> tuple[Valued, ...]:
    """Play all plans of a task and score them against each other, the best first.

    Equal rewards go to the cheaper, then the quicker plan.
    """
    candidates = plans(task)
    trajectories = await run_episodes(
        [EpisodeRequest(task, index, task.id) for index in range(len(candidates))],
        factory=_OnePlan(candidates),
        make_environment=market.environment,
        limits=Limits(),
        concurrency=1,
    )
    tool_names = [tool.name for tool in trajectories[0].tools]
    score = score_group(trajectories, task.preference, tool_names, _NO_FLOOR)
    valued = [Valued(*row) for row in zip(candidates, trajectories, score.rewards.tolist(), strict=True)]
    return tuple(sorted(valued, key=_by_worth))


def _by_worth(valued: Valued) -> tuple[float, Any, float]:
    trajectory = valued.trajectory
    return (-valued.reward, trajectory.cost_usd, trajectory.latency_s)


@dataclass(frozen=True, slots=True)
class OracleFactory:
    """The policy that knows the best plan of every task.

    Attributes:
        best: By the task's id, as :func:`best_plans` returns it.
        name: The name on trajectories.
    """

    best: Mapping[str, Plan]
    name: str = "oracle"

    def episode(self, task: Task, sample: int) -> PlanPolicy:
        """Plays the task's best plan."""
        return PlanPolicy(self.best[task.id])


@dataclass(frozen=True, slots=True)
class LazyOracle:
    """The oracle that works out a task's best plan when it is asked, by playing all of them in the market."""

    market: Market
    name: str = "oracle"

    def episode(self, task: Task, sample: int) -> _LazyOraclePolicy:
        """Plays the task's best plan."""
        return _LazyOraclePolicy(self.market, task)


@dataclass(slots=True)
class _LazyOraclePolicy:
    market: Market
    task: Task
    _best: PlanPolicy | None = None
    virtual_clock: bool = True

    async def act(self, history: Sequence[Message], tools: Sequence[ToolSpec]) -> Action:
        if self._best is None:
            self._best = PlanPolicy((await value_plans(self.market, self.task))[0].plan)
        return await self._best.act(history, tools)


async def best_plans(market: Market, tasks: Sequence[Task]) -> dict[str, Plan]:
    """The plan with the highest reward of every task."""
    return {task.id: (await value_plans(market, task))[0].plan for task in tasks}
