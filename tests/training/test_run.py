from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
import torch

from toolorchestra.config import TrainingSettings, WarmStartSettings
from toolorchestra.environments.qa import QuestionEnvironment
from toolorchestra.errors import UserError
from toolorchestra.judges import make_judge
from toolorchestra.limits import Limits
from toolorchestra.messages import ToolSpec
from toolorchestra.policies.tokens.format import CompactChatML
from toolorchestra.policies.tokens.guidance import GuidanceMatchers
from toolorchestra.policies.tokens.loading import TokenModel, load_token_model
from toolorchestra.policies.tokens.policy import DecodingSpeed
from toolorchestra.pricing import Price
from toolorchestra.tasks import Task
from toolorchestra.training import TrainingJob, train
from toolorchestra.trajectory import Charge, ToolResult

TASKS = tuple(Task(f"t{number}", "What is the capital of France?", "Paris", kind="easy") for number in range(6))


@dataclass
class Simple:
    spec: ToolSpec
    says: str

    async def call(self, arguments: Mapping[str, Any], context: Any) -> ToolResult:
        return ToolResult(self.says, (Charge(self.spec.name, Decimal("0.01"), 1.0),), 1.0)


TOOLS = (Simple(ToolSpec("knows", "knows it"), "Paris"), Simple(ToolSpec("guesses", "does not"), "Rome"))


@pytest.fixture
def base(learner, tokenizer, tmp_path):
    TokenModel(learner, tokenizer, CompactChatML(tokenizer), "compact", GuidanceMatchers(tokenizer)).save(
        tmp_path / "base"
    )
    return tmp_path / "base"


def make_job(folder, base, *, started=None, tasks=TASKS, **changes):
    started = Counter() if started is None else started

    def make_environment(task, sample):
        started[task.id, sample] += 1
        return QuestionEnvironment(task, TOOLS, make_judge("exact"), submit=True, sample=sample)

    settings = {
        "group_size": 4,
        "tasks_per_step": 2,
        "steps": 3,
        "learning_rate": 1e-3,
        "kl": 0.0,
        "save_every": 1,
        "warm_start": WarmStartSettings(tasks=3, samples=6, learning_rate=1e-3),
    }
    return TrainingJob(
        folder=folder,
        base=base,
        tasks=tasks,
        make_environment=make_environment,
        settings=TrainingSettings(**(settings | changes)),
        limits=Limits(turns=4),
        price=Price(),
        speed=DecodingSpeed(),
    )


def weights(folder):
    return torch.cat([each.detach().flatten() for each in load_token_model(folder).model.parameters()])


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Killed(BaseException):
    """Stands for a kill."""


def test_training_gives_a_model_and_a_row_a_step(base, tmp_path):
    seen = []
    folder = train(make_job(tmp_path / "run", base), seen.append)
    assert folder == tmp_path / "run" / "model"
    assert not torch.equal(weights(folder), weights(base))
    logged = rows(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in logged] == [1, 2, 3]
    for row in logged:
        assert row["rollouts"] == 8
        assert row["missing"] == 0
        assert row["accuracy"] is not None
        assert "entropy" in row
    assert {progress.phase for progress in seen} == {"traces", "warm start", "grpo"}
    assert seen[-1].done == seen[-1].total == 3
    started = Counter()
    assert train(make_job(tmp_path / "run", base, started=started)) == folder
    assert not started, "a finished training is not run again"


@pytest.mark.parametrize(("phase", "done"), [("traces", 7), ("warm start", 1), ("grpo", 0), ("grpo", 2)])
def test_a_killed_training_goes_on_as_if_nothing_had_been(base, tmp_path, phase, done):
    whole = weights(train(make_job(tmp_path / "whole", base)))

    def kill(progress):
        if (progress.phase, progress.done) == (phase, done):
            raise Killed

    first, second = Counter(), Counter()
    with pytest.raises(Killed):
        train(make_job(tmp_path / "run", base, started=first), kill)
    resumed = weights(train(make_job(tmp_path / "run", base, started=second)))
    assert torch.equal(resumed, whole)
    assert [row["step"] for row in rows(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3]


def test_two_trainings_are_not_mixed(base, tmp_path):
    train(make_job(tmp_path / "run", base, warm_start=None, steps=1))
    with pytest.raises(UserError, match=r"another training is here \(its settings differ\)"):
        train(make_job(tmp_path / "run", base, warm_start=None, steps=2))


def test_without_tasks_there_is_no_training(base, tmp_path):
    with pytest.raises(UserError, match="no task to train on"):
        train(make_job(tmp_path / "run", base, tasks=()))
