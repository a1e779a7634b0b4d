"""A configuration's training, as the trainer gets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from toolorchestra.cli import app

if TYPE_CHECKING:
    from toolorchestra.training import TrainingJob, TrainingProgress

Configure = Callable[..., Path]

CONFIG = """\
orchestrator: {model: ./base, constrained: true, price: {input: 0.02, output: 0.02}}
models: {small: {provider: simulated, price: {input: 1, output: 1}, skills: {easy: 1}}}
tools: {ask: {kind: model, model: small}}
tasks: {train: train.jsonl}
preference: {text: cheap, compute: 1}
training: {steps: 3, group_size: 2, seed: 5, warm_start: {tasks: 7}}
concurrency: 9
"""


@pytest.fixture
def config(configure: Configure, tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text("{}", encoding="utf-8")
    task = {"id": "1", "question": "What is one?", "answer": "uno", "kind": "easy"}
    (tmp_path / "train.jsonl").write_text(json.dumps(task) + "\n", encoding="utf-8")
    return configure(CONFIG)


@pytest.mark.slow
def test_the_command_hands_everything_over(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer itself has tests of its own; here it is replaced by one that writes a log and a folder."""
    from toolorchestra.files import JsonLines
    from toolorchestra.training import TrainingProgress

    jobs: list[TrainingJob] = []

    def train(job: TrainingJob, on_progress: Callable[[TrainingProgress], None]) -> Path:
        jobs.append(job)
        on_progress(TrainingProgress("grpo", 3, 3, {"reward": 0.25}))
        log = JsonLines(job.folder / "metrics.jsonl")
        log.append({"step": 1, "reward": 0.25, "groups_kept": 2, "calls": {"easy": {"ask": 1.5}, "hard": {"ask": 0.5}}})
        log.close()
        return job.folder / "model"

    monkeypatch.setattr("toolorchestra.training.run.train", train)
    shown = CliRunner().invoke(app, ["train", str(config), "--out", str(tmp_path / "run")])
    assert shown.exit_code == 0, shown.output
    assert "grpo: 3/3  reward 0.25" in shown.stderr
    assert "model:" in shown.stdout
    job = jobs[0]
    assert (job.base, job.folder, job.decoding) == (tmp_path / "base", tmp_path / "run", "calls")
    assert (job.settings.steps, job.settings.warm_start and job.settings.warm_start.tasks) == (3, 7)
    assert (job.concurrency, job.tasks[0].preference.text) == (9, "cheap")
    assert job.price is not None
    assert not job.price.is_free
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Groups kept" in report


def test_a_warm_start_needs_the_grammar(config: Path) -> None:
    config.write_text(CONFIG.replace("constrained: true, ", ""), encoding="utf-8")
    shown = CliRunner().invoke(app, ["train", str(config)])
    assert shown.exit_code == 2
    assert "set orchestrator.constrained: true" in shown.stderr
