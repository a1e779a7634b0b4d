"""Tiny models for training, from the folder of the token policy's tests, and sequences as the sampler records them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from toolorchestra.training.sequences import Span, TrainingSequence
from toolorchestra.trajectory import AllowedTokens


def _tiny() -> ModuleType:
    path = Path(__file__).parents[1] / "policies" / "tokens" / "conftest.py"
    found = importlib.util.spec_from_file_location("tiny_models", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


tiny = _tiny()


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """ChatML; its padding token is another than its end token."""
    return tiny.make_tokenizer()


@pytest.fixture(scope="session")
def llama(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """For reading only."""
    return tiny.make_llama(len(tokenizer))


@pytest.fixture
def learner(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A fresh copy of the same model, to be trained."""
    return tiny.make_llama(len(tokenizer))


@pytest.fixture(scope="session")
def tools() -> Any:
    """As in the policy's tests."""
    return tiny.make_tools()


def make_sequence(
    group: str, seed: int, *, constrained: bool = False, turns: int = 2, temperature: float = 1.0, **changes: Any
) -> TrainingSequence:
    """A sequence of random tokens; those of one group begin alike."""
    shared, own = np.random.default_rng([1, *group.encode()]), np.random.default_rng(seed)
    ids: list[int] = shared.integers(3, 400, size=int(shared.integers(4, 20))).tolist()
    mask, allowed, spans = [False] * len(ids), [None] * len(ids), []
    for _ in range(turns):
        size = int(own.integers(2, 7))
        spans.append(Span(len(ids), len(ids) + size))
        for _ in range(size):
            token, chosen = int(own.integers(3, 400)), bool(own.random() < 0.7)
            ids.append(token)
            mask.append(chosen)
            others = own.integers(3, 400, size=3).tolist()
            limited = constrained and chosen and own.random() < 0.8
            only = bool(own.random() < 0.7)
            listed = sorted({token, *others}) if only else sorted({*others} - {token})
            allowed.append(AllowedTokens(only, tuple(listed)) if limited else None)
        observation = own.integers(3, 400, size=int(own.integers(1, 5))).tolist()
        ids += observation
        mask += [False] * len(observation)
        allowed += [None] * len(observation)
    values: dict[str, Any] = {
        "task_id": group,
        "sample": seed,
        "group": group,
        "ids": tuple(ids),
        "loss_mask": tuple(mask),
        "logprobs": tuple(-float(own.random()) if chosen else 0.0 for chosen in mask),
        "allowed": tuple(allowed),
        "turn_spans": tuple(spans),
        "advantage": float(own.normal()),
        "temperature": temperature,
    }
    return TrainingSequence(**(values | changes))


def plain_scores(model: Any, sequence: TrainingSequence) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies of a sequence's choices by a plain forward pass, with gradient."""
    logits = model(input_ids=torch.tensor([sequence.ids])).logits[0].float() / sequence.temperature
    logps, entropies = [], []
    for position in sequence.choices:
        row, allowed = logits[position - 1], sequence.allowed[position]
        if allowed is not None:
            listed = torch.zeros(row.shape, dtype=torch.bool)
            listed[list(allowed.ids)] = True
            row = row.masked_fill(listed != allowed.only, -1e9)
        logs = row.log_softmax(-1)
        logps.append(logs[sequence.ids[position]])
        entropies.append(-(logs.exp() * logs).sum())
    return torch.stack(logps), torch.stack(entropies)


def gradients(model: Any) -> torch.Tensor:
    """All gradients of a model in one vector."""
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


@pytest.fixture(scope="session")
def make() -> Any:
    """Makes sequences: :func:`make_sequence`."""
    return make_sequence


@pytest.fixture(scope="session")
def plain() -> Any:
    """Scores plainly: :func:`plain_scores`."""
    return plain_scores


@pytest.fixture(scope="session")
def grads() -> Any:
    """Collects gradients: :func:`gradients`."""
    return gradients
