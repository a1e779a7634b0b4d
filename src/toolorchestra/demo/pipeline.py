"""The demo from end to end: train a small orchestrator on the market, compare it with baselines, write the report.

Killed at any moment, the same call goes on where it stopped: nothing that finished is run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolorchestra.config import TrainingSettings, WarmStartSettings
from toolorchestra.demo.build import BLOCK, SPLITS, Split, build_tasks, under_both_wishes
from toolorchestra.demo.findings import write_findings
from toolorchestra.demo.market import Market, roles
from toolorchestra.demo.systems import LIMITS, ORCHESTRATOR_PRICE, LazyTokens, systems
from toolorchestra.evaluation import Claim
from toolorchestra.memory import return_memory
from toolorchestra.policies import PolicyFactory, RandomCalls
from toolorchestra.rollout import group_requests, run_episodes
from toolorchestra.runs import EpisodeKey, RunFolder, RunRecord
from toolorchestra.tasks import Task, tasks_hash, write_tasks
from toolorchestra.trajectory import Trajectory, without_tokens


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """How large a demo is.

    Attributes:
        seed: Of tasks, sampling and order.
        training_tasks: Tasks to learn from.
        held_out: Tasks of each held-out split.
        wish_tasks: Tasks that are asked under two wishes.
        training: Settings of the training.
        concurrency: Episodes at once; it bounds the memory of their caches.
    """

    seed: int
    training_tasks: int
    held_out: Mapping[Split, int]
    wish_tasks: int
    training: TrainingSettings
    concurrency: int = 24

    def to_json(self) -> dict[str, Any]:
        """Plain values for the run's record."""
        return {
            "seed": self.seed,
            "training_tasks": self.training_tasks,
            "held_out": dict(self.held_out),
            "wish_tasks": self.wish_tasks,
            "training": self.training.model_dump(mode="json"),
            "limits": {"turns": LIMITS.turns},
        }


def demo_plan(*, quick: bool = False, seed: int = 0) -> DemoPlan:
    """The sizes of the demo; ``quick`` makes one that shows that everything works and learns next to nothing."""
    training = TrainingSettings(
        group_size=16,
        tasks_per_step=BLOCK if quick else 2 * BLOCK,
        steps=2 if quick else 36,
        learning_rate=8e-5,
        warmup_steps=0 if quick else 5,
        schedule="linear",
        mean_over="sampled",
        weight_decay=0.0,
        kl=0.0,
        entropy_bonus=0.05,
        train_layers=12,
        warm_start=WarmStartSettings(
            tasks=24 if quick else 300,
            samples=24,
            rounds=1 if quick else 8,
            per_task=1,
            learning_rate=2e-4,
            batch_size=12,
        ),
        seed=seed,
        save_every=10,
    )
    held_out: dict[Split, int] = {split: 10 if quick else 80 for split in SPLITS if split != "train"}
    return DemoPlan(seed, 240 if quick else 2400, held_out, 5 if quick else 40, training)


@dataclass(frozen=True, slots=True)
class DemoProgress:
    """How far the demo is.

    Attributes:
        stage: What is being done, in a few words.
        done: Finished units.
        total: Units; 0 where they are not known.
        metrics: The newest figures of the training.
    """

    stage: str
    done: int
    total: int
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What a demo left behind.

    Attributes:
        folder: The run's folder.
        report: The page.
        model: The trained orchestrator.
        claims: What the run had to show, each with what was measured.
    """

    folder: Path
    report: Path
    model: Path
    claims: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class DemoTasks:
    """All tasks of a demo.

    Attributes:
        train: To learn from.
        held_out: By split, and ``wishes``: tasks that are asked under two wishes each.
    """

    train: tuple[Task, ...]
    held_out: Mapping[str, tuple[Task, ...]]

    @property
    def compared(self) -> tuple[Task, ...]:
        """All that systems are compared on."""
        return tuple(task for tasks in self.held_out.values() for task in tasks)

    @classmethod
    def of(cls, plan: DemoPlan) -> DemoTasks:
        """The tasks of a plan: the same for the same seed."""
        train = build_tasks("train", plan.training_tasks, seed=plan.seed, pairs=True)
        held_out: dict[str, tuple[Task, ...]] = {}
        for split, count in plan.held_out.items():
            held_out[split] = build_tasks(split, count, seed=plan.seed)
        wishes = under_both_wishes(build_tasks("test", 40 * plan.wish_tasks, seed=plan.seed + 1), plan.wish_tasks)
        return cls(train, {**held_out, "wishes": wishes})


def run_demo(
    folder: Path,
    *,
    quick: bool = False,
    seed: int = 0,
    on_progress: Callable[[DemoProgress], None] | None = None,
) -> DemoResult:
    """Run the demo, or go on with it.

    Args:
        folder: Where everything is kept.
        quick: A few minutes' worth that shows that everything works.
        seed: Other seeds give other tasks and another training.
        on_progress: Told how far it is.

    Raises:
        UserError: The weights are not installed, or the folder holds a run with other settings.
    """
    plan = demo_plan(quick=quick, seed=seed)
    tasks = DemoTasks.of(plan)
    tell = on_progress or _silent
    record = RunRecord(plan.to_json(), {"seed": seed}, dataset=tasks_hash((*tasks.train, *tasks.compared)))
    market = Market()
    try:
        with RunFolder(folder).writing(record) as run:
            write_tasks(folder / "tasks.jsonl", tasks.compared)
            model = _train(plan, tasks, market, folder / "training", tell)
            for factory, asked in systems(tasks.held_out, market, folder / "training", model, seed=plan.seed):
                _play(run, factory, asked, market, plan.concurrency, tell)
                if isinstance(factory, LazyTokens):
                    factory.release()
                    return_memory()
    finally:
        market.close()
    tell(DemoProgress("report", 0, 1))
    claims = write_findings(folder)
    tell(DemoProgress("report", 1, 1))
    return DemoResult(folder, RunFolder(folder).report_path, model, claims)


def _train(
    plan: DemoPlan, tasks: DemoTasks, market: Market, folder: Path, tell: Callable[[DemoProgress], None]
) -> Path:
    if (folder / "model").is_dir():
        return folder / "model"
    from toolorchestra.policies.tokens import DecodingSpeed, smollm2_folder
    from toolorchestra.training import TrainingJob, train

    tell(DemoProgress("start model", 0, 1))
    base = smollm2_folder()
    tell(DemoProgress("start model", 1, 1))
    job = TrainingJob(
        folder=folder,
        base=base,
        tasks=tasks.train,
        make_environment=market.environment,
        settings=plan.training,
        limits=LIMITS,
        teacher=RandomCalls(seed=plan.seed, growth=0.6),
        price=ORCHESTRATOR_PRICE,
        speed=DecodingSpeed(),
        label=lambda task, tool: roles(task).get(tool, tool),
        run_length=BLOCK,
    )
    model = train(job, lambda step: tell(DemoProgress(step.phase, step.done, step.total, step.metrics)))
    return_memory()
    return model


def _play(
    run: RunFolder,
    factory: PolicyFactory,
    tasks: Sequence[Task],
    market: Market,
    concurrency: int,
    tell: Callable[[DemoProgress], None],
) -> None:
    done = run.done()
    left = [task for task in tasks if EpisodeKey(factory.name, task.id, 0) not in done]
    finished = len(tasks) - len(left)
    stage = f"compare: {factory.name}"
    tell(DemoProgress(stage, finished, len(tasks)))

    def keep(trajectory: Trajectory) -> None:
        nonlocal finished
        run.append(without_tokens(trajectory))  # tokens are for training; what is compared needs none
        finished += 1
        tell(DemoProgress(stage, finished, len(tasks)))

    asyncio.run(
        run_episodes(
            group_requests(left, 1),
            factory=factory,
            make_environment=market.environment,
            limits=LIMITS,
            concurrency=concurrency,
            on_done=keep,
        )
    )


def _silent(progress: DemoProgress) -> None:
    """Report to nobody."""
