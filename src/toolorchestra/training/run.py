"""Training from end to end: traces, warm start, GRPO. Killed at any moment, the same call goes on where it stopped."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolorchestra.config import TrainingSettings, WarmStartSettings
from toolorchestra.environments.base import Environment
from toolorchestra.errors import ModelFacingError, UserError
from toolorchestra.files import JsonLines, write_atomic
from toolorchestra.limits import Limits
from toolorchestra.memory import return_memory
from toolorchestra.policies import PolicyFactory, RandomCalls
from toolorchestra.policies.tokens.copy import SamplingCopy, train_top_layers
from toolorchestra.policies.tokens.engine import TokenEngine
from toolorchestra.policies.tokens.loading import TokenModel, load_token_model
from toolorchestra.policies.tokens.policy import Decoding, DecodingSpeed, TokenPolicyFactory
from toolorchestra.policies.tokens.teacher import with_tokens
from toolorchestra.pricing import Price
from toolorchestra.records import trajectory_from_json, trajectory_to_json
from toolorchestra.rewards import RewardSettings
from toolorchestra.rollout import EpisodeRequest, group_requests, run_episodes
from toolorchestra.tasks import Task, tasks_hash
from toolorchestra.training.collect import Label, build_batch, pick_tasks, tool_as_is
from toolorchestra.training.log import StepLog
from toolorchestra.training.sequences import TrainingSequence
from toolorchestra.training.traces import best_verified
from toolorchestra.training.warm_start import verified, warm_start
from toolorchestra.trajectory import Trajectory

VISIT = "step-{:06d}"


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far training is.

    Attributes:
        phase: ``traces``, ``warm start`` or ``grpo``.
        done: Finished units of the phase.
        total: Units of the phase.
        metrics: The newest figures.
    """

    phase: str
    done: int
    total: int
    metrics: Mapping[str, Any] = field(default_factory=dict)


OnProgress = Callable[[TrainingProgress], None]


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """What is trained, on what, how and where.

    Attributes:
        folder: Where everything is kept: ``metrics.jsonl``, rollouts, checkpoints, ``warm_start/`` and ``model/``.
        base: The model folder to start from.
        tasks: What to learn from.
        make_environment: Makes an episode's environment from a task and the rollout's number.
        settings: Of the training.
        limits: Of an episode.
        teacher: Explores for the warm start's traces; by default random calls.
        decoding: What a turn may consist of.
        price: Of the orchestrator's own tokens.
        speed: Its simulated seconds; ``None`` for the real clock.
        label: Names tools in the metrics.
        run_length: Tasks that stand next to each other and stay together in a step.
        concurrency: Episodes at once.
        max_tokens: Bound on a turn's free text.
    """

    folder: Path
    base: Path
    tasks: Sequence[Task]
    make_environment: Callable[[Task, int], Environment]
    settings: TrainingSettings
    limits: Limits
    teacher: PolicyFactory | None = None
    decoding: Decoding = "calls"
    price: Price | None = None
    speed: DecodingSpeed | None = None
    label: Label = tool_as_is
    run_length: int = 1
    concurrency: int = 128
    max_tokens: int = 512


def train(job: TrainingJob, on_progress: OnProgress | None = None) -> Path:
    """Train, or go on training.

    Returns:
        The folder of the trained model.

    Raises:
        UserError: There is no task, the folder holds another training, or the start model cannot be used.
    """
    if not job.tasks:
        raise UserError("there is no task to train on; give a task file with at least one task")
    final = job.folder / "model"
    _settle(job)
    if final.is_dir():
        return final
    report = on_progress or _silent
    start = job.base
    if job.settings.warm_start is not None:
        start = _warm_start(job, report)
    _reinforce(job, start, final, report)
    return final


def _settle(job: TrainingJob) -> None:
    """Keep what the training was made with; refuse to mix two."""
    path = job.folder / "training.json"
    mine = {
        "settings": job.settings.model_dump(mode="json"),
        "tasks": tasks_hash(job.tasks),
        "base": str(job.base),
        "decoding": job.decoding,
    }
    if path.is_file():
        theirs = json.loads(path.read_text(encoding="utf-8"))
        different = sorted(key for key in mine if mine[key] != theirs.get(key))
        if different:
            raise UserError(
                f"{job.folder}: another training is here (its {different[0]} differ); continue it with the settings in "
                f"{path.name}, or train into another folder"
            )
        return
    write_atomic(path, json.dumps(mine, indent=2))


def _warm_start(job: TrainingJob, report: OnProgress) -> Path:
    folder = job.folder / "warm_start"
    settings = job.settings.warm_start
    assert settings is not None
    if folder.is_dir():
        return folder
    learner = load_token_model(job.base)
    train_top_layers(learner.model, job.settings.train_layers)
    tasks = pick_tasks(job.tasks, 0, min(settings.tasks, len(job.tasks)), job.settings.seed, run_length=job.run_length)
    found = _explore(job, job.teacher or RandomCalls(seed=job.settings.seed), tasks, settings, report)
    best = best_verified(found, {task.id: task for task in tasks}, per_task=settings.per_task)
    traces = verified([each for each in (_with_tokens(trace, learner) for trace in best) if each is not None])
    (job.folder / "warm_start.jsonl").unlink(missing_ok=True)  # of a warm start that was killed
    log = JsonLines(job.folder / "warm_start.jsonl")

    def on_step(step: int, steps: int, loss: float) -> None:
        log.append({"step": step, "loss": loss, "traces": len(traces)})
        report(TrainingProgress("warm start", step, steps, {"loss": loss, "traces": len(traces)}))

    warm_start(learner.model, traces, settings, seed=job.settings.seed, on_step=on_step)
    log.close()
    learner.save(folder)
    del learner
    return_memory()
    return folder


def _with_tokens(trajectory: Trajectory, learner: TokenModel) -> Trajectory | None:
    """The trace in the learner's tokens; ``None`` where its grammar does not allow what the explorer did."""
    try:
        return with_tokens(trajectory, learner.format, learner.matchers)
    except ModelFacingError:
        return None


def _explore(
    job: TrainingJob,
    teacher: PolicyFactory,
    tasks: Sequence[Task],
    settings: WarmStartSettings,
    report: OnProgress,
) -> list[Trajectory]:
    """Round after round of tries; only tasks that nobody has solved yet go on."""
    store = JsonLines(job.folder / "traces.jsonl")
    found: list[Trajectory] = []
    for number in range(settings.rounds):
        solved = {trajectory.task_id for trajectory in found if trajectory.solved}
        open_tasks = [task for task in tasks if task.id not in solved]
        if not open_tasks:
            break
        requests = group_requests(open_tasks, settings.samples, label="warm", first_sample=number * settings.samples)
        found += _run(job, teacher, requests, store, "traces", report)
    return found


def _reinforce(job: TrainingJob, start: Path, final: Path, report: OnProgress) -> None:
    from toolorchestra.training.trl_adapter import OrchestraTrainer, newest_checkpoint

    learner = load_token_model(start)
    train_top_layers(learner.model, job.settings.train_layers)
    log = StepLog(job.folder, on_step=lambda step, row: report(TrainingProgress("grpo", step, job.settings.steps, row)))
    collector = Collector(job, learner, log)
    trainer = OrchestraTrainer(
        learner.model, learner.tokenizer, job.settings, collector, job.folder / "checkpoints", log=log
    )
    report(TrainingProgress("grpo", 0, job.settings.steps))
    trainer.train(resume_from_checkpoint=newest_checkpoint(job.folder / "checkpoints"))
    log.close()
    learner.model.eval()
    learner.save(final)
    shutil.rmtree(job.folder / "checkpoints", ignore_errors=True)


class Collector:
    """Runs a step's rollouts with the present weights. Rollouts that are on disk already are not run again."""

    def __init__(self, job: TrainingJob, learner: TokenModel, log: StepLog) -> None:
        self._job = job
        self._log = log
        self._tasks = {task.id: task for task in job.tasks}
        self._copy = SamplingCopy(learner.model)
        self._factory = TokenPolicyFactory(
            TokenEngine(self._copy.model),
            learner.format,
            learner.matchers,
            decoding=job.decoding,
            temperature=job.settings.temperature,
            max_tokens=job.max_tokens,
            seed=job.settings.seed,
            price=job.price,
            speed=job.speed,
        )

    def __call__(self, step: int) -> tuple[TrainingSequence, ...]:
        """The sequences of a step, scored."""
        job, settings = self._job, self._job.settings
        self._copy.refresh()
        self._factory.version = step
        count = min(settings.tasks_per_step, len(job.tasks))
        tasks = pick_tasks(job.tasks, step, count, settings.seed, run_length=job.run_length)
        requests = group_requests(tasks, settings.group_size, label=VISIT.format(step))
        store = JsonLines(job.folder / "rollouts" / f"{VISIT.format(step)}.jsonl")
        trajectories = _run(job, self._factory, requests, store, "", _silent)
        rewards = RewardSettings(std_floor=settings.std_floor, ddof=settings.ddof, malformed_vote=settings.masked_vote)
        batch = build_batch(trajectories, self._tasks, rewards, job.label)
        self._log.collected(batch.metrics)
        return_memory()
        return batch.sequences


def _run(
    job: TrainingJob,
    factory: PolicyFactory,
    requests: Sequence[EpisodeRequest],
    store: JsonLines,
    phase: str,
    report: OnProgress,
) -> list[Trajectory]:
    """Run what the store does not hold yet; in the order of the requests. Missing ones are tried again."""
    store.path.parent.mkdir(parents=True, exist_ok=True)
    found: dict[tuple[str, int], Trajectory] = {}
    for number, row in enumerate(store.read(), start=1):
        trajectory = trajectory_from_json(row, where=f"{store.path}:{number}")
        if trajectory.status != "missing":
            found[trajectory.group, trajectory.sample] = trajectory

    left = [request for request in requests if (request.group, request.sample) not in found]
    done = len(requests) - len(left)

    def keep(trajectory: Trajectory) -> None:
        nonlocal done
        done += 1
        found[trajectory.group, trajectory.sample] = trajectory
        store.append(trajectory_to_json(trajectory))
        if phase:
            report(TrainingProgress(phase, done, len(requests)))

    asyncio.run(_episodes(job, factory, left, keep))
    store.close()
    return [found[request.group, request.sample] for request in requests]


async def _episodes(
    job: TrainingJob,
    factory: PolicyFactory,
    requests: Sequence[EpisodeRequest],
    on_done: Callable[[Trajectory], None] | None,
) -> list[Trajectory]:
    return await run_episodes(
        requests,
        factory=factory,
        make_environment=job.make_environment,
        limits=job.limits,
        concurrency=job.concurrency,
        on_done=on_done,
    )


def _silent(progress: TrainingProgress) -> None:
    """Report to nobody."""
