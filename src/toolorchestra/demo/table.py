"""The market on paper: what each strategy costs and solves, and which plan the reward prefers by kind and wish.

``python -m toolorchestra.demo.table`` prints it. If the best plan of a kind and wish is not the one that common sense
names, a policy cannot learn common sense from the reward: the market's numbers are then wrong, not the policy.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from toolorchestra.demo.build import SPLITS, build_tasks
from toolorchestra.demo.market import Market
from toolorchestra.demo.plans import OracleFactory, Valued, value_plans
from toolorchestra.demo.roles import ROLES
from toolorchestra.demo.setting import Setting
from toolorchestra.demo.strategies import STRATEGIES, StrategyFactory
from toolorchestra.limits import Limits
from toolorchestra.policies.base import PolicyFactory
from toolorchestra.rollout import group_requests, run_episodes
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Trajectory

_LABELS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """What a strategy came to over all tasks: share solved, dollars for a thousand tasks, seconds a task."""

    name: str
    accuracy: float
    usd_per_1k: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class WorthRow:
    """The plans of one kind and wish, over tasks with every role on offer once.

    Attributes:
        kind: Of the tasks.
        wish: The wish's name; for hard tasks with whether the thinker costs less than the dear model.
        tasks: How many there were.
        best: How often the plan with a label was a task's best.
        rewards: Mean reward by label, the highest first.
    """

    kind: str
    wish: str
    tasks: int
    best: Counter[str]
    rewards: dict[str, float]


async def value_all(market: Market, tasks: Iterable[Task]) -> dict[str, tuple[Valued, ...]]:
    """All plans of every task, by the task's id."""
    return {task.id: await value_plans(market, task) for task in tasks}


async def strategy_rows(
    market: Market, tasks: Sequence[Task], valued: dict[str, tuple[Valued, ...]]
) -> list[StrategyRow]:
    """Every strategy, and the oracle, over the same tasks."""
    factories: list[PolicyFactory] = [StrategyFactory(name, strategy) for name, strategy in STRATEGIES.items()]
    factories.append(OracleFactory({task_id: plans[0].plan for task_id, plans in valued.items()}))
    rows = []
    for factory in factories:
        trajectories = await run_episodes(
            group_requests(tasks, 1),
            factory=factory,
            make_environment=market.environment,
            limits=Limits(),
            concurrency=1,
        )
        rows.append(_strategy_row(factory.name, trajectories))
    return rows


def worth_rows(tasks: Sequence[Task], valued: dict[str, tuple[Valued, ...]]) -> list[WorthRow]:
    """Which plans the reward prefers, by kind and wish."""
    groups: defaultdict[tuple[str, str], list[tuple[Valued, ...]]] = defaultdict(list)
    for task in tasks:
        setting = Setting.read(task)
        if sorted(offer.role for offer in setting.offers) == sorted(ROLES):
            groups[task.kind, _wish(task, setting)].append(valued[task.id])
    return [_worth_row(kind, wish, members) for (kind, wish), members in sorted(groups.items())]


def render(strategies: Sequence[StrategyRow], worth: Sequence[WorthRow]) -> str:
    """Both tables as text."""
    lines = ["strategy                accuracy  $/1k tasks  s/task"]
    lines += [f"{row.name:24}{row.accuracy:8.3f}{row.usd_per_1k:12.3f}{row.latency_s:8.1f}" for row in strategies]
    lines += ["", "kind        wish                      tasks  best plan                 mean reward"]
    for row in worth:
        label, count = row.best.most_common(1)[0]
        rewards = ", ".join(f"{name} {value:.2f}" for name, value in list(row.rewards.items())[:_LABELS_SHOWN])
        share = f"{label} {count / row.tasks:.0%}"
        lines.append(f"{row.kind:12}{row.wish:26}{row.tasks:5}  {share:26}{rewards}")
    return "\n".join(lines)


def _wish(task: Task, setting: Setting) -> str:
    if task.kind != "hard":
        return setting.wish
    prices = {offer.role: offer.usd_per_call for offer in setting.offers}
    return f"{setting.wish}, {'thinker' if prices['thinker'] < prices['dear'] else 'dear'} cheaper"


def _strategy_row(name: str, trajectories: Sequence[Trajectory]) -> StrategyRow:
    return StrategyRow(
        name,
        fmean(trajectory.solved is True for trajectory in trajectories),
        1000 * fmean(float(trajectory.cost_usd or 0) for trajectory in trajectories),
        fmean(trajectory.latency_s for trajectory in trajectories),
    )


def _worth_row(kind: str, wish: str, members: Sequence[tuple[Valued, ...]]) -> WorthRow:
    best = Counter(valued[0].plan.label if valued[0].reward > 0 else "(none)" for valued in members)
    rewards: defaultdict[str, list[float]] = defaultdict(list)
    for valued in members:
        for one in valued:
            rewards[one.plan.label].append(one.reward)
    means = {label: fmean(values) for label, values in rewards.items()}
    return WorthRow(kind, wish, len(members), best, dict(sorted(means.items(), key=lambda item: -item[1])))


async def _tables(split: str, n: int, seed: int) -> str:
    market = Market()
    try:
        tasks = build_tasks(next(known for known in SPLITS if known == split), n, seed)
        valued = await value_all(market, tasks)
        return render(await strategy_rows(market, tasks, valued), worth_rows(tasks, valued))
    finally:
        market.close()


def main() -> None:
    """Print the tables of one split."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=SPLITS, default="train")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(asyncio.run(_tables(arguments.split, arguments.tasks, arguments.seed)))


if __name__ == "__main__":
    main()
