"""The section of the training. The defaults are the paper's (arXiv 2511.21689) where it gives one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from toolorchestra.config._section import Section


class WarmStartSettings(Section):
    """Supervised steps on verified traces, before GRPO."""

    tasks: int = Field(default=150, ge=1)
    """Tasks that a scripted explorer tries."""
    samples: int = Field(default=32, ge=1)
    """Its tries a task."""
    rounds: int = Field(default=6, ge=1)
    """How often tasks that it has not solved yet are tried again, with as many samples."""
    per_task: int = Field(default=2, ge=1)
    """Solving tries that are kept of a task, the shortest first."""
    epochs: int = Field(default=1, ge=1)
    """Passes over the traces."""
    learning_rate: float = Field(default=1e-5, gt=0, le=1)
    """Of the supervised steps."""
    batch_size: int = Field(default=8, ge=1)
    """Traces of one optimiser step."""


class TrainingSettings(Section):
    """GRPO."""

    group_size: int = Field(default=8, ge=2)
    """Rollouts of one task, compared with each other."""
    tasks_per_step: int = Field(default=16, ge=1)
    """Tasks of one step."""
    steps: int = Field(default=100, ge=1)
    """Steps in all."""
    learning_rate: float = Field(default=1e-6, gt=0, le=1)
    """Of AdamW."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate goes on: it stays, or falls to 0 over the steps."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps in which the learning rate rises from 0. AdamW's first steps are large whatever the gradient is."""
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
    mean_over: Literal["trained", "sampled"] = "trained"
    """Which tokens the loss is a mean over: those that are trained on, or all that the policy chose in the step. With
    ``sampled`` a step in which few groups are kept is a small step."""
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
    masked_vote: bool = False
    """Let rollouts that are not trained on (a malformed call, no valid answer) vote in their group's mean all the
    same: the published behaviour, which feeds a collapse onto one tool."""
    seed: int = Field(default=0, ge=0)
    """Of tasks, sampling and order."""
    save_every: int = Field(default=10, ge=1)
    """Steps between checkpoints."""
