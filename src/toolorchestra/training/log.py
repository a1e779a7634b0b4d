"""What training logs: JSON Lines and TensorBoard, one row a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from toolorchestra.files import JsonLines

_FROM_TRAINER = {
    "loss": "loss",
    "policy_loss": "policy_loss",
    "entropy": "entropy",
    "kl": "kl",
    "grad_norm": "grad_norm",
    "logprob_drift": "logprob_drift",
    "clip_ratio/region_mean": "clip_ratio",
    "entropy_coef": "entropy_bonus",
}


class StepLog:
    """Joins what the rollouts of a step showed with what the trainer did with them.

    A step that is repeated after a kill is not logged twice.

    Args:
        folder: Gets ``metrics.jsonl`` and ``tensorboard/``.
        on_step: Called with the step's number (from 1) and its row.
    """

    def __init__(self, folder: Path, on_step: Callable[[int, Mapping[str, Any]], None]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._file = JsonLines(folder / "metrics.jsonl")
        self._board = SummaryWriter(str(folder / "tensorboard"))
        self._on_step = on_step
        self._last = max((int(row["step"]) for row in self._file.read()), default=0)
        self._collected: Mapping[str, Any] = {}

    def collected(self, metrics: Mapping[str, Any]) -> None:
        """Keep what the rollouts of the step to come showed."""
        self._collected = metrics

    def trained(self, step: int, logs: Mapping[str, Any]) -> None:
        """Write the row of a finished step."""
        numbers = {ours: _number(logs.get(theirs)) for theirs, ours in _FROM_TRAINER.items()}
        row = {"step": step, **self._collected, **{key: value for key, value in numbers.items() if value is not None}}
        if step > self._last:
            self._file.append(row)
            for name, value in _flat(row):
                self._board.add_scalar(name, value, step)
            self._last = step
        self._on_step(step, row)

    def close(self) -> None:
        """Let the files go."""
        self._file.close()
        self._board.close()


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield f"{prefix}{name}", float(value)
