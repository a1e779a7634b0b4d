"""Progress: a bar on a terminal, plain lines at a modest rate elsewhere. It goes to stderr; results go to stdout."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

LINE_EVERY_S = 10.0

_FOLLOWED = ("reward", "accuracy", "cost_usd", "latency_s", "entropy", "loss")


class ProgressDisplay:
    """Shows how far the phases of a command are. Use it in a ``with``.

    Args:
        console: Where it is shown; stderr by default.
        line_every_s: Off a terminal, the least seconds between two lines of one phase.
    """

    def __init__(self, console: Console | None = None, *, line_every_s: float = LINE_EVERY_S) -> None:
        from rich.console import Console

        self._console = console or Console(stderr=True, highlight=False)
        self._line_every_s = line_every_s
        self._bars: Progress | None = None
        self._ids: dict[str, TaskID] = {}
        self._told: dict[str, tuple[float, int]] = {}

    def update(self, phase: str, done: int, total: int, note: str = "") -> None:
        """Show that ``done`` of ``total`` parts of a phase are finished."""
        if self._bars is None:
            self._line(phase, done, total, note)
            return
        if phase not in self._ids:
            self._ids[phase] = self._bars.add_task(phase, total=total, note="")
        self._bars.update(self._ids[phase], completed=done, total=total, note=note)

    def _line(self, phase: str, done: int, total: int, note: str) -> None:
        now = time.monotonic()
        at, before = self._told.get(phase, (0.0, -1))
        due = phase not in self._told or now - at >= self._line_every_s or done >= total
        if due and done != before:
            self._told[phase] = (now, done)
            words = f"{phase}: {done}/{total}" + (f"  {note}" if note else "")
            self._console.print(words, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        """Start to draw, on a terminal."""
        if self._console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bars = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                console=self._console,
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


def metrics_note(metrics: Mapping[str, Any]) -> str:
    """The few metrics of a training step that a reader follows."""
    shown = ((key, metrics[key]) for key in _FOLLOWED if isinstance(metrics.get(key), (int, float)))
    return "  ".join(f"{key} {value:.3g}" for key, value in shown)
