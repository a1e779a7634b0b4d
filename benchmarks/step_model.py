"""What both sides of ``step.py`` share: the model, the settings, and the clock that reads their steps."""

from __future__ import annotations

import hashlib
import resource
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from step_market import GROUP, TASKS
from transformers import LlamaConfig, LlamaForCausalLM, TrainerCallback

from toolorchestra.config import TrainingSettings
from toolorchestra.policies.tokens import TokenModel, load_token_model, smollm2_folder
from toolorchestra.policies.tokens.copy import train_top_layers


@dataclass(frozen=True, slots=True)
class Job:
    """What one process measures.

    Attributes:
        steps: Measured steps; one more, the first, warms up.
        layers: The top layers that are trained; ``None`` for all.
        tiny: A random model of two narrow layers instead of SmolLM2, to see that everything runs.
        as_installed: Leave TRL as it is, prompts through its output layer and all.
    """

    steps: int
    layers: int | None
    tiny: bool
    as_installed: bool


@dataclass(slots=True)
class StepFigures:
    """One step. Seconds of the wall clock; tokens of all its rollouts together.

    Attributes:
        rollout_s: Generating and the tools; the rest of the step is scoring, loss, backward pass and update.
        step_s: From the end of the step before to the end of this one.
        head_s: What the output layer took of it, backward pass included; only TRL's is timed.
        generated_from: Tokens that were run through the model to generate, prompts and results included.
        passes: Forward passes that did so.
        trained_on: Tokens that were run through the model to train, padding left out.
        chosen: Tokens in the loss.
        turns: Turns of every rollout.
        prompt: Tokens of each prompt.
        length: Tokens of each rollout.
        digest: Of the rollouts' token ids.
    """

    rollout_s: float = 0.0
    step_s: float = 0.0
    head_s: float = 0.0
    generated_from: int = 0
    passes: int = 0
    trained_on: int = 0
    chosen: int = 0
    turns: list[int] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    digest: str = ""


def digest(rollouts: Iterable[Sequence[int]]) -> str:
    """The same for the same rollouts, in whatever order they come."""
    return hashlib.sha256(repr(sorted(map(list, rollouts))).encode()).hexdigest()[:16]


def settings_of(job: Job) -> TrainingSettings:
    """GRPO as both train: token-mean loss, clipped at 0.2 and 0.28, no reference model, no entropy bonus."""
    return TrainingSettings(
        group_size=GROUP,
        tasks_per_step=len(TASKS),
        steps=job.steps + 1,
        learning_rate=1e-5,
        kl=0.0,
        ddof=1,  # TRL's
        train_layers=job.layers,
        save_every=1_000_000,
    )


def load(job: Job) -> TokenModel:
    """The model to train, in 32-bit floats."""
    torch.manual_seed(0)
    loaded = load_token_model(smollm2_folder())
    if job.tiny:
        config = LlamaConfig(
            vocab_size=loaded.model.config.vocab_size,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=2048,
            eos_token_id=loaded.format.end,
        )
        loaded = replace(loaded, model=LlamaForCausalLM(config))
    train_top_layers(loaded.model, job.layers)
    return loaded


class Watch(Protocol):
    """Adds up seconds."""

    seconds: float


class Clock(TrainerCallback):
    """Reads the seconds of each step from end to end, and the gradient's norms.

    Args:
        steps: The last of them is the one that is running.
        head: Of the output layer.
    """

    def __init__(self, steps: list[StepFigures], head: Watch | None = None) -> None:
        self._steps = steps
        self._head = head
        self._last = time.perf_counter()
        self.grad_norms: list[float] = []

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._last = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        now = time.perf_counter()
        self._steps[-1].step_s, self._last = now - self._last, now
        if self._head is not None:
            self._steps[-1].head_s, self._head.seconds = self._head.seconds, 0.0

    def on_log(self, *_: Any, logs: dict[str, Any] | None = None, **__: Any) -> None:
        if logs and "grad_norm" in logs:
            self.grad_norms.append(float(logs["grad_norm"]))


def peak_gib() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
