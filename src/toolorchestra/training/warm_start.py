"""The warm start: supervised steps on verified traces, before any reinforcement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from toolorchestra.config import WarmStartSettings
from toolorchestra.errors import UserError
from toolorchestra.training.logprobs import TOKENS_PER_PASS, score_choices
from toolorchestra.training.sequences import TrainingSequence, sequences_of
from toolorchestra.trajectory import Trajectory


def verified(trajectories: Sequence[Trajectory]) -> tuple[TrainingSequence, ...]:
    """The sequences of rollouts that solved their task without a malformed call: nothing else is worth imitating."""
    good = [each for each in trajectories if each.solved and each.status == "done" and each.malformed_calls == 0]
    return tuple(sequence for trajectory in good for sequence in sequences_of(trajectory))


def warm_start(
    model: Any,
    traces: Sequence[TrainingSequence],
    settings: WarmStartSettings,
    *,
    seed: int = 0,
    tokens_per_pass: int = TOKENS_PER_PASS,
    on_step: Callable[[int, int, float], None] | None = None,
) -> list[float]:
    """Raise the log-probability of every choice in the traces; what a grammar forced is not trained.

    Args:
        model: Trained in place (the parameters that require a gradient).
        traces: Verified sequences; those of one group stay in one batch where they fit.
        settings: Epochs, learning rate, batch size.
        seed: Of the order.
        tokens_per_pass: Bound on the tokens computed at once.
        on_step: Called with the step, the number of steps and the loss.

    Returns:
        The mean negative log-probability of each step's choices, in nats.

    Raises:
        UserError: There is no trace, or none in which anything was chosen.
    """
    traces = [trace for trace in traces if trace.choices]
    if not traces:
        raise UserError("no verified trace to start from: none of the rollouts solved its task; use easier tasks")
    optimiser = torch.optim.AdamW(
        [each for each in model.parameters() if each.requires_grad], lr=settings.learning_rate, weight_decay=0.0
    )
    batches = list(_batches(traces, settings, seed))
    losses: list[float] = []
    model.train()
    for step, batch in enumerate(batches):
        on_cpu = next(model.parameters()).device.type == "cpu"
        with torch.autocast("cpu" if on_cpu else "cuda", dtype=torch.bfloat16):
            scores = score_choices(model, batch, tokens_per_pass=tokens_per_pass)
        loss = -scores.logps.mean()
        torch.autograd.backward([loss])
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        if on_step is not None:
            on_step(step + 1, len(batches), losses[-1])
    model.eval()
    return losses


def _batches(
    traces: Sequence[TrainingSequence], settings: WarmStartSettings, seed: int
) -> list[list[TrainingSequence]]:
    groups: dict[str, list[TrainingSequence]] = {}
    for trace in traces:
        groups.setdefault(trace.group, []).append(trace)
    members = list(groups.values())
    batches: list[list[TrainingSequence]] = []
    for epoch in range(settings.epochs):
        batch: list[TrainingSequence] = []
        for number in np.random.default_rng([seed, epoch]).permutation(len(members)):
            batch.extend(members[number])
            if len(batch) >= settings.batch_size:
                batches.append(batch)
                batch = []
        if batch:
            batches.append(batch)
    return batches
