"""Training an orchestrator: warm start on verified traces, then GRPO on its own rollouts.

The names that need torch and TRL load them on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolorchestra.training.sequences import Span, TrainingSequence, sequences_of

if TYPE_CHECKING:
    from toolorchestra.training.run import TrainingJob, TrainingProgress, train

__all__ = ["Span", "TrainingJob", "TrainingProgress", "TrainingSequence", "sequences_of", "train"]


def __getattr__(name: str) -> Any:
    if name in ("TrainingJob", "TrainingProgress", "train"):
        from toolorchestra.training import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
