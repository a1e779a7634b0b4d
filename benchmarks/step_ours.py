"""Our side of ``step.py``: the one loop, the token policy, and TRL's loss through our adapter."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from step_market import GROUP, SYSTEM, TASKS, TOOL_TURNS, Town, counts_as_right, script
from step_model import Clock, Job, StepFigures, digest, load, peak_gib, settings_of
from transformers.utils.chat_template_utils import get_json_schema

from toolorchestra.config import TrainingSettings
from toolorchestra.environments import QuestionEnvironment
from toolorchestra.environments.qa import SUBMIT
from toolorchestra.files import JsonLines
from toolorchestra.judges import ExactJudge
from toolorchestra.messages import ToolSpec
from toolorchestra.policies.tokens import TokenModel, TokenPolicy, TokenPolicyFactory
from toolorchestra.policies.tokens.copy import SamplingCopy
from toolorchestra.policies.tokens.engine import TokenEngine
from toolorchestra.policies.tokens.tree import ROOT, TokenTree
from toolorchestra.pricing import Price
from toolorchestra.records import trajectory_to_json
from toolorchestra.rewards import RewardSettings
from toolorchestra.rollout import Limits, group_requests, run_episodes
from toolorchestra.tasks import Task
from toolorchestra.tools import CallContext
from toolorchestra.training import TrainingSequence
from toolorchestra.training.collect import build_batch
from toolorchestra.training.trl_adapter import OrchestraTrainer
from toolorchestra.trajectory import Action, Observation, Outcome, ToolResult, Trajectory

PRICE = Price(input=Decimal("0.05"), output=Decimal("0.20"))


@dataclass(slots=True)
class TownTool:
    """One of the town's look-ups as a tool."""

    spec: ToolSpec
    look_up: Any

    @classmethod
    def of(cls, look_up: Any) -> TownTool:
        """With the name, description and schema that TRL reads from the same method."""
        function = get_json_schema(look_up)["function"]
        return cls(ToolSpec(function["name"], function["description"], function["parameters"]), look_up)

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Look up."""
        return ToolResult(self.look_up(**arguments))


class TwoTurns:
    """The question environment with two turns of tools, no more and no fewer.

    In submit mode only the tools are on offer for two turns, and then only the submission of a result.
    """

    def __init__(self, task: Task, sample: int, *, submit: bool) -> None:
        self.time_left_s: float | None = None
        town = Town()
        town.reset(task.id)
        tools = [TownTool.of(town.archive), TownTool.of(town.census)]
        self._inner = QuestionEnvironment(task, tools, ExactJudge(), system_prompt=SYSTEM, submit=submit)
        self._submit = submit
        self._sample = sample
        self._turns = 0

    async def reset(self) -> Observation:
        """The question."""
        return await self._inner.reset()

    async def step(self, action: Action) -> Observation:
        """A look-up, or the end."""
        self._turns += 1
        observation = await self._inner.step(action)
        if not self._submit:
            return observation
        last = self._turns >= TOOL_TURNS
        return replace(observation, tools=tuple(tool for tool in observation.tools if (tool.name == SUBMIT) == last))

    async def score(self, trajectory: Trajectory) -> Outcome:
        """Every other rollout is right; the judge is run all the same."""
        judged = await self._inner.score(trajectory)
        return replace(judged, solved=counts_as_right(self._sample))


class ScriptedDraws:
    """A random stream that also knows the tokens to use instead of what is drawn."""

    def __init__(self, seed: Sequence[int], ids: Iterator[int]) -> None:
        self._rng = np.random.default_rng(seed)
        self._ids = ids

    def random(self) -> float:
        """A draw."""
        return float(self._rng.random())

    def token(self) -> int:
        """The script's next token."""
        return next(self._ids)


class _Replaced:
    """A turn whose drawn token is replaced by the script's, with the script's log-probability."""

    def __init__(self, turn: Any, distributions: dict[Any, Any]) -> None:
        self._turn = turn
        self._distributions = distributions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._turn, name)

    def choose(self, token: int, logprob: float) -> None:
        """Ignore both."""
        turn = self._turn
        told = turn.rng.token()
        key = (turn.sequence.row.index, turn.sequence.leaf, turn.temperature, turn.choice)
        turn.choose(told, float(self._distributions[key].logs[told]))


class ScriptedEngine(TokenEngine):
    """Decodes freely over the whole vocabulary, one pass a token, and then keeps to the script."""

    def _choose(self, turn: Any, distributions: dict[Any, Any]) -> None:
        super()._choose(_Replaced(turn, distributions), distributions)  # type: ignore[arg-type]  # all but its choice


class ScriptedFactory(TokenPolicyFactory):
    """Makes policies that keep to the script."""

    def episode(self, task: Task, sample: int) -> TokenPolicy:
        """One episode."""
        policy = super().episode(task, sample)
        policy.rng = ScriptedDraws([self.version, sample], self._ids(task, sample))  # type: ignore[assignment]
        return policy

    def _ids(self, task: Task, sample: int) -> Iterator[int]:
        for text in script(self.version, task.id, sample).turns:
            yield from self.format.encode(text)
            yield self.format.end


class Collect:
    """A step's rollouts, as ``toolorchestra.training`` collects them: run, written to disk, scored."""

    def __init__(self, loaded: TokenModel, settings: TrainingSettings, folder: Path, *, scripted: bool) -> None:
        self.steps: list[StepFigures] = []
        self._settings = settings
        self._folder = folder
        self._scripted = scripted
        self._copy = SamplingCopy(loaded.model)
        self._engine = (ScriptedEngine if scripted else TokenEngine)(self._copy.model)
        self._factory = (ScriptedFactory if scripted else TokenPolicyFactory)(
            self._engine, loaded.format, loaded.matchers, decoding="free" if scripted else "calls", price=PRICE
        )

    def __call__(self, step: int) -> tuple[TrainingSequence, ...]:
        """The sequences of a step."""
        tokens, passes = self._engine.computed_tokens, self._engine.passes
        started = time.perf_counter()
        self._copy.refresh()
        self._factory.version = step
        store = JsonLines(self._folder / f"step-{step}.jsonl")
        trajectories = asyncio.run(self._episodes(step, store))
        store.close()
        rewards = RewardSettings(std_floor=self._settings.std_floor, ddof=self._settings.ddof)
        sequences = build_batch(trajectories, {task.id: task for task in TASKS}, rewards).sequences
        figures = self._figures(sequences)
        figures.rollout_s = time.perf_counter() - started
        figures.generated_from = self._engine.computed_tokens - tokens
        figures.passes = self._engine.passes - passes
        self.steps.append(figures)
        return sequences

    async def _episodes(self, step: int, store: JsonLines) -> list[Trajectory]:
        return await run_episodes(
            group_requests(TASKS, GROUP, label=f"step-{step}"),
            factory=self._factory,
            make_environment=lambda task, sample: TwoTurns(task, sample, submit=not self._scripted),
            limits=Limits(turns=TOOL_TURNS + 1),
            concurrency=GROUP * len(TASKS),
            on_done=lambda trajectory: store.append(trajectory_to_json(trajectory)),
        )

    def _figures(self, sequences: Sequence[TrainingSequence]) -> StepFigures:
        trained = [sequence for sequence in sequences if sequence.trained]
        if len(trained) != GROUP * len(TASKS):
            raise SystemExit(f"{len(trained)} rollouts are trained on, not all {GROUP * len(TASKS)}")
        trees: dict[str, TokenTree] = {}
        for sequence in trained:
            trees.setdefault(sequence.group, TokenTree()).extend(ROOT, sequence.ids[: sequence.choices[-1]])
        return StepFigures(
            trained_on=sum(map(len, trees.values())),
            chosen=sum(len(sequence.choices) for sequence in trained),
            turns=[len(sequence.turn_spans) for sequence in trained],
            prompt=[sequence.prompt_length for sequence in trained],
            length=[len(sequence.ids) for sequence in trained],
            digest=digest(sequence.ids for sequence in trained),
        )


def run(job: Job, *, scripted: bool) -> dict[str, Any]:
    """Train, and tell what each step took."""
    loaded, settings = load(job), settings_of(job)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        collect = Collect(loaded, settings, folder, scripted=scripted)
        trainer = OrchestraTrainer(loaded.model, loaded.tokenizer, settings, collect, folder / "trainer")
        trainer.args.save_strategy = "no"
        clock = Clock(collect.steps)
        trainer.add_callback(clock)
        trainer.train()
        return {
            "steps": [asdict(step) for step in collect.steps],
            "grad_norms": clock.grad_norms,
            "peak_gib": peak_gib(),
        }
