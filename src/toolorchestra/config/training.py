"""The section of the training. The defaults are the paper's (arXiv 2511.21689) where it gives one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from toolorchestra.config._section import Section


class WarmStartSettings(Section):
    """Supervised steps on verified traces, before GRPO."""

    tasks: int = Field(default=150, ge=1)
    """Tasks that a scripted explorer tries."""
    samples: int = Field(default=48, ge=1)
    """Its tries a task."""
    per_task: int = Field(default=2, ge=1)
    """Solving tries that are kept of a task, the shortest first."""
    epochs: int = Field(default=1, ge=1)
    """Passes over the traces."""
    learning_rate: float = Field(default=1e-5, gt=0, le=1)
    """Of the supervised steps."""
    batch_size: int = Field(default=8, ge=1)
    """Traces of one optimiser step."""


class FilterSettings(Section):
    """What is not trained on."""

    malformed: bool = True
    """Mask rollouts with a malformed tool call."""
    unanswered: bool = True
    """Mask rollouts without a valid answer."""
    masked_vote: bool = False
    """Let masked rollouts vote in their group's mean all the same: the published behaviour, which feeds a collapse
    onto one tool."""


class TrainingSettings(Section):
    """GRPO."""

    group_size: int = Field(default=8, ge=2)
    """Rollouts of one task, compared with each other."""
    tasks_per_step: int = Field(default=16, ge=1)
    """Tasks of one step."""
    steps: int = Field(default=100, ge=1)
    """Steps in all."""
    learning_rate: float = Field(default=1e-6, gt=0, le=1)
    """Of AdamW, constant."""
    weight_decay: float = Field(default=0.01, ge=0, le=1)
    """Of AdamW."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradients are clipped to this norm."""
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """How far below 1 the ratio of probabilities is clipped."""
    clip_high: float = Field(default=0.28, gt=0)
    """How far above 1 the ratio of probabilities is clipped."""
    kl: float = Field(default=1e-4, ge=0)
    """Weight of the divergence from the start; 0 for none."""
    entropy_bonus: float = Field(default=0.0, ge=0)
    """Weight of the entropy of the choices; above 0 it keeps exploration alive."""
    entropy_target: float | None = Field(default=None, gt=0)
    """Let the weight adapt: it grows while the entropy (nats a choice) is below this, and shrinks above it."""
    std_floor: float = Field(default=0.1, ge=0)
    """Groups whose rewards have a smaller standard deviation are not trained on."""
    ddof: Literal[0, 1] = 0
    """Delta degrees of freedom of the standard deviation: 0 population, 1 sample."""
    temperature: float = Field(default=1.0, gt=0, le=2)
    """Of the sampling; the log-probabilities include it."""
    train_layers: int | None = Field(default=None, ge=1)
    """Train the top layers only, so many; ``null`` for all."""
    warm_start: WarmStartSettings | None = None
    """Supervised steps before; ``null`` for none."""
    filters: FilterSettings = FilterSettings()
    """What is not trained on."""
    seed: int = Field(default=0, ge=0)
    """Of tasks, sampling and order."""
    save_every: int = Field(default=10, ge=1)
    """Steps between checkpoints."""
