"""What a demo run shows: the report, and the claims that the run is held to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolorchestra.demo.market import roles
from toolorchestra.demo.systems import DEAREST, TRAINED, WARM
from toolorchestra.evaluation import (
    Adherence,
    Claim,
    Estimate,
    Example,
    ReportData,
    Split,
    curve_row,
    difference,
    mean,
    pooled_rewards,
    ratio,
    summarise,
    write_report,
)
from toolorchestra.files import JsonLines, write_atomic
from toolorchestra.runs import RunFolder
from toolorchestra.tasks import Task, read_tasks
from toolorchestra.trajectory import Trajectory

Runs = Mapping[str, Sequence[Trajectory]]

NOTICE = (
    "The market is simulated: its models answer from skill profiles, its prices and seconds are made up, and its clock "
    "is virtual. What is real is the orchestrator (SmolLM2-135M, trained here), the search, the sandboxed calculator "
    "and every number computed from them."
)
SPLITS = {
    "test": "Questions that training never saw, with tool names and prices from the training range.",
    "heldout_tools": "Tools under names and descriptions that training never saw.",
    "heldout_prices": "Prices outside the training range.",
    "wishes": "Hard questions, each asked with a balanced wish and with the wish to do without the dear model.",
}
NEEDED = {
    "arithmetic": ("interpreter",),
    "lookup": ("search",),
    "easy": ("small",),
    "hard": ("dear", "thinker"),
}
"""The first call that a kind of task needs. Medium questions have no one right first call and are left out."""

DESCRIPTIONS = {
    TRAINED: "SmolLM2-135M after the warm start and GRPO",
    WARM: "the same model before GRPO: supervised on verified traces only",
    DEAREST: "the model with the highest price in each task's market, for everything",
    "always dear": "the expert model for everything, the cheaper one where there are two",
    "oracle": "knows every outcome beforehand and takes the plan with the highest reward",
    "by need": "a rule written by hand that is told each task's kind",
    "random": "random tools, random arguments",
}


def write_findings(folder: Path) -> list[Claim]:
    """Write ``report.html`` and ``summary.json`` of a demo run; return its claims."""
    run = RunFolder(folder)
    tasks = {task.id: task for task in read_tasks(folder / "tasks.jsonl")}
    by_split = {
        split: _by_system([each for each in run.trajectories() if tasks[each.task_id].split == split], tasks)
        for split in SPLITS
    }
    claims = _claims(by_split, tasks)
    splits = [Split(name, _summaries(runs, tasks), SPLITS[name]) for name, runs in by_split.items() if runs]
    record = run.record()
    data = ReportData(
        title="toolorchestra demo",
        summary="A 135-million-parameter model was trained on two CPU cores to decide, turn by turn, which tool or "
        "model to call. Here it is compared with fixed rules on tasks that it has not seen.",
        notice=NOTICE,
        focus=TRAINED,
        before=WARM,
        reference=DEAREST,
        descriptions=DESCRIPTIONS,
        splits=splits,
        learning=[curve_row(row) for row in JsonLines(folder / "training" / "metrics.jsonl").read()],
        adherence=_adherence(by_split["wishes"], tasks),
        adherence_of="tasks that call the dear model",
        claims=claims,
        examples=_examples(by_split["test"].get(TRAINED, ()), tasks),
        settings=record,
        command="make demo",
    )
    write_report(run.report_path, data)
    summary = {
        "claims": [{"text": c.text, "measured": c.measured, "target": c.target, "met": c.met} for c in claims],
        "splits": {split.name: [system.to_json() for system in split.systems] for split in splits},
        "first_calls": {split: _first_calls(runs.get(TRAINED, ()), tasks) for split, runs in by_split.items()},
    }
    write_atomic(folder / "summary.json", json.dumps(summary, indent=2, default=str))
    return claims


def _by_system(trajectories: Sequence[Trajectory], tasks: Mapping[str, Task]) -> dict[str, list[Trajectory]]:
    systems: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        systems.setdefault(trajectory.policy, []).append(_with_roles(trajectory, tasks[trajectory.task_id]))
    return systems


def _with_roles(trajectory: Trajectory, task: Task) -> Trajectory:
    """The trajectory with tools called by their roles, since their names differ from task to task."""
    parts = roles(task)
    steps = []
    for step in trajectory.steps:
        if step.observation is not None:
            calls = tuple(
                replace(each, call=replace(each.call, name=parts.get(each.call.name, each.call.name)))
                for each in step.observation.calls
            )
            step = replace(step, observation=replace(step.observation, calls=calls))
        steps.append(step)
    return replace(trajectory, steps=tuple(steps), info={**trajectory.info, "roles": dict(parts)})


def _summaries(runs: Runs, tasks: Mapping[str, Task]) -> list[Any]:
    rewards = _rewards(runs, tasks)
    reference = DEAREST if DEAREST in runs else None
    return list(summarise(runs, reference=reference, rewards=rewards).values())


def _rewards(runs: Runs, tasks: Mapping[str, Task]) -> dict[str, dict[tuple[str, int], float | None]]:
    preferences = {each.task_id: tasks[each.task_id].preference for group in runs.values() for each in group}
    renamed = {
        task_id: type(preference)(
            preference.text,
            preference.outcome,
            preference.compute,
            preference.latency,
            {roles(tasks[task_id]).get(name, name): weight for name, weight in preference.tools.items()},
        )
        for task_id, preference in preferences.items()
    }
    columns = {task_id: tuple(dict.fromkeys(roles(tasks[task_id]).values())) for task_id in preferences}
    return pooled_rewards(runs, renamed, columns)


def _claims(by_split: Mapping[str, Runs], tasks: Mapping[str, Task]) -> list[Claim]:
    test = by_split["test"]
    if not all(name in test for name in (TRAINED, DEAREST, WARM)):
        return []
    right = {name: _per_task(test[name], lambda each: float(bool(each.solved))) for name in (TRAINED, DEAREST)}
    cost = {name: _per_task(test[name], lambda each: float(each.cost_usd or 0)) for name in (TRAINED, DEAREST)}
    gained = difference(right[TRAINED], right[DEAREST])
    spent = ratio(cost[TRAINED], cost[DEAREST])
    reward = {name: _held_out_rewards(by_split, tasks, name) for name in (TRAINED, WARM)}
    better = difference(reward[TRAINED], reward[WARM])
    claims = [
        Claim(
            "Accuracy against always calling the dearest model",
            _points(gained),
            "at most 2 points below",
            None if gained is None else gained.value >= -0.02,
        ),
        Claim(
            "Cost against always calling the dearest model",
            _percent(spent),
            "at most 40%",
            None if spent is None else spent.value <= 0.4,
        ),
        Claim(
            "Reward above the warm start's, on all held-out tasks",
            _number(better),
            "above 0 by more than the interval",
            None if better is None or better.low is None else better.low > 0,
        ),
    ]
    for split in ("test", "heldout_tools", "heldout_prices"):
        claims.append(_by_need_claim(split, by_split[split].get(TRAINED, ()), tasks))
    claims.append(_wish_claim(by_split["wishes"].get(TRAINED, ()), tasks))
    return claims


def _held_out_rewards(by_split: Mapping[str, Runs], tasks: Mapping[str, Task], name: str) -> dict[str, list[float]]:
    """A system's rewards by task, over all splits. Each task's systems are one group, so splits can be put together."""
    found: dict[str, list[float]] = {}
    for runs in by_split.values():
        for (task, _), value in _rewards(runs, tasks).get(name, {}).items():
            if value is not None:
                found[task] = [value]
    return found


def _by_need_claim(split: str, trajectories: Sequence[Trajectory], tasks: Mapping[str, Task]) -> Claim:
    firsts = _first_calls(trajectories, tasks)
    shares: dict[str, float] = {}
    for kind, needed in NEEDED.items():
        counted = firsts.get(kind, {})
        if sum(counted.values()):
            shares[kind] = sum(counted.get(role, 0) for role in needed) / sum(counted.values())
    measured = ", ".join(f"{kind} {share:.0%}" for kind, share in shares.items())
    return Claim(
        f"First call by need ({split.replace('_', ' ')})",
        measured or "not measured",
        "more than half in every kind",
        all(share > 0.5 for share in shares.values()) if shares else None,
    )


def _wish_claim(trajectories: Sequence[Trajectory], tasks: Mapping[str, Task]) -> Claim:
    shares = {wish: _dear_share(trajectories, tasks, wish) for wish in ("balanced", "avoid-dear")}
    balanced, avoided = shares["balanced"], shares["avoid-dear"]
    met = None
    if balanced is not None and avoided is not None:
        met = balanced.value > 0 and avoided.value <= balanced.value / 2
    return Claim(
        "Share of tasks that call the dear model, when asked not to",
        f"{_percent(balanced)} without the wish, {_percent(avoided)} with it",
        "falls by half or more",
        met,
    )


def _dear_share(trajectories: Sequence[Trajectory], tasks: Mapping[str, Task], wish: str) -> Estimate | None:
    asked = [each for each in trajectories if tasks[each.task_id].setting.get("wish") == wish]
    return mean(_per_task(asked, lambda each: float("dear" in each.calls)))


def _adherence(runs: Runs, tasks: Mapping[str, Task]) -> list[Adherence]:
    rows = []
    for system in (TRAINED, "by need", "oracle"):
        for wish in ("balanced", "avoid-dear"):
            share = _dear_share(runs.get(system, ()), tasks, wish)
            if share is not None:
                rows.append(Adherence(system, wish, share))
    return rows


def _first_calls(trajectories: Sequence[Trajectory], tasks: Mapping[str, Task]) -> dict[str, dict[str, int]]:
    """How often each role was called first, by kind of task. Tasks that do not offer what they need are left out."""
    counts: dict[str, Counter[str]] = {}
    for trajectory in trajectories:
        needed = NEEDED.get(trajectory.kind)
        if trajectory.status == "missing":
            continue
        if needed is not None and not set(needed) & set(roles(tasks[trajectory.task_id]).values()):
            continue
        first = next(
            (each.call.name for step in trajectory.steps if step.observation for each in step.observation.calls), "none"
        )
        counts.setdefault(trajectory.kind, Counter())[first] += 1
    return {kind: dict(counter.most_common()) for kind, counter in sorted(counts.items())}


def _per_task(trajectories: Sequence[Trajectory], value: Any) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for trajectory in trajectories:
        if trajectory.status != "missing":
            values.setdefault(trajectory.task_id, []).append(value(trajectory))
    return values


def _examples(trajectories: Sequence[Trajectory], tasks: Mapping[str, Task]) -> list[Example]:
    """One episode a kind that went well, and a few that did not."""
    chosen: list[Example] = []
    for kind in sorted({each.kind for each in trajectories}):
        of_kind = [each for each in trajectories if each.kind == kind]
        for solved in (True, False):
            found = next((each for each in of_kind if each.solved is solved), None)
            if found is not None:
                chosen.append(Example(found, expected=tasks[found.task_id].answer))
    return chosen


def _points(value: Estimate | None) -> str:
    return _shown(value, lambda number: f"{100 * number:+.1f}", unit=" points")


def _percent(value: Estimate | None) -> str:
    return _shown(value, lambda number: f"{number:.0%}")


def _number(value: Estimate | None) -> str:
    return _shown(value, lambda number: f"{number:+.2f}")


def _shown(value: Estimate | None, form: Callable[[float], str], *, unit: str = "") -> str:
    if value is None:
        return "not measured"
    if value.low is None or value.high is None:
        return f"{form(value.value)}{unit}"
    return f"{form(value.value)}{unit} (95%: {form(value.low)} to {form(value.high)})"
