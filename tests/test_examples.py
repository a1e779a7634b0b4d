"""The examples run, as their README says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from toolorchestra.cli import app

REPO = Path(__file__).resolve().parents[1]
FIRST_STEPS = REPO / "examples" / "first-steps" / "orchestra.yaml"


@pytest.mark.parametrize(
    "words",
    [
        ["doctor", str(FIRST_STEPS)],
        ["run", "What is the capital of Australia?", "--config", str(FIRST_STEPS)],
        ["evaluate", str(FIRST_STEPS)],
    ],
    ids=lambda words: words[0],
)
def test_first_steps(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    if words[0] == "evaluate":
        summary = json.loads((tmp_path / "runs/orchestra-tasks/summary.json").read_text(encoding="utf-8"))
        assert summary["reference"] == "always ask_large"
        assert summary["systems"]["always ask_large"]["accuracy"]["value"] == 0.875


def test_the_readme_names_the_commands() -> None:
    readme = (FIRST_STEPS.parent / "README.md").read_text(encoding="utf-8")
    for command in ("doctor", "run", "evaluate"):
        assert f"toolorchestra {command} " in readme
