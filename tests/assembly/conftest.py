"""Configurations for these tests, written into a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from toolorchestra.config import Settings, load_settings

MARKET = """\
orchestrator: {model: "rule:cheapest-first"}
models:
  small: {provider: simulated, price: {input: 0.1, output: 0.4}, skills: {easy: 1}, seconds: 0.5, output_tokens: 100}
  large: {provider: simulated, price: {input: 2, output: 8}, skills: {easy: 1, hard: 1}, seconds: 4}
tools:
  ask_large: {kind: model, model: large}
  ask_small: {kind: model, model: small, description: Knows simple things}
  notes: {kind: search, folder: notes, results: 2}
prices: {base: null}
"""

Configure = Callable[[str], Path]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """Write a configuration next to a folder of notes."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "ferry.md").write_text("# The ferry\n\nThe ferry crosses at seven.\n", encoding="utf-8")

    def write(text: str = MARKET) -> Path:
        path = tmp_path / "orchestra.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def market(configure: Configure) -> Settings:
    return load_settings(configure(MARKET))
