"""Progress: a bar on a terminal, few plain lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from toolorchestra.cli.progress import ProgressDisplay, metrics_note


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


def test_plain_lines_come_at_a_modest_rate(written: io.StringIO) -> None:
    with ProgressDisplay(Console(file=written), line_every_s=60) as display:
        for done in range(101):
            display.update("grpo", done, 100, f"reward {done}")
        display.update("grpo", 100, 100, "again")
    assert written.getvalue().splitlines() == ["grpo: 0/100  reward 0", "grpo: 100/100  reward 100"]


def test_every_phase_has_its_own_rate(written: io.StringIO) -> None:
    with ProgressDisplay(Console(file=written), line_every_s=60) as display:
        display.update("traces", 1, 9)
        display.update("[bold]", 1, 9)
        display.update("traces", 2, 9)
    assert written.getvalue().splitlines() == ["traces: 1/9", "[bold]: 1/9"]


def test_without_a_rate_every_change_is_told(written: io.StringIO) -> None:
    with ProgressDisplay(Console(file=written), line_every_s=0) as display:
        for done in (0, 1, 1, 2):
            display.update("grpo", done, 3)
    assert len(written.getvalue().splitlines()) == 3


def test_a_terminal_gets_a_bar(written: io.StringIO) -> None:
    with ProgressDisplay(Console(file=written, force_terminal=True, width=100)) as display:
        display.update("grpo", 3, 9, "reward 0.5")
        display.update("grpo", 9, 9, "reward 0.7")
    assert "9/9" in written.getvalue()
    assert "reward 0.7" in written.getvalue()


def test_the_metrics_that_a_reader_follows() -> None:
    assert metrics_note({"loss": 1, "reward": 0.51234, "calls.a": 3, "accuracy": None}) == "reward 0.512  loss 1"
