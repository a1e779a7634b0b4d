"""Log-probabilities of what was chosen, with gradient: every token that rollouts of a group share is computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from toolorchestra.policies.tokens.forward import allowed_index, base_model, hidden_states, log_distribution
from toolorchestra.policies.tokens.tree import ROOT, TokenTree
from toolorchestra.training.sequences import TrainingSequence
from toolorchestra.trajectory import AllowedTokens

TOKENS_PER_PASS = 2048
TOKENS_HELD = 4096


@dataclass(frozen=True, slots=True)
class ChoiceScores:
    """One entry a choice, in the order of the sequences and of the positions within each.

    Attributes:
        logps: Log-probabilities of what was chosen, of the distribution over what was allowed; with gradient.
        entropies: Entropies of those distributions, in nats; with gradient.
        sequence: Index of the choice's sequence.
        position: The chosen token's position in its sequence.
    """

    logps: torch.Tensor
    entropies: torch.Tensor
    sequence: torch.Tensor
    position: torch.Tensor


@dataclass(slots=True)
class _Group:
    """The tree of one group: where each choice was made, cut off behind the last one."""

    tree: TokenTree
    choices: list[tuple[int, int, int]]  # sequence, position, slot of the token before the choice


def score_choices(
    model: Any,
    sequences: Sequence[TrainingSequence],
    *,
    tokens_per_pass: int = TOKENS_PER_PASS,
    tokens_held: int = TOKENS_HELD,
) -> ChoiceScores:
    """Score every choice of the sequences under the model's present weights.

    Args:
        model: A causal language model with a plain linear head.
        sequences: In any order; those of one group share what they have in common, exactly.
        tokens_per_pass: Bound on the padded tokens that are computed at once; groups of like size share a pass.
        tokens_held: Beyond so many padded tokens in all, the passes are recomputed in the backward pass, so that the
            memory of only one of them is held.

    Raises:
        ValueError: A chosen token is not among those that were allowed: the record is damaged.
    """
    base, head = base_model(model), cast(torch.nn.Linear, model.get_output_embeddings())
    device = next(model.parameters()).device
    groups = _trees(sequences)
    chunks = list(_chunks([group for group in groups if group.choices], tokens_per_pass))
    hidden: list[torch.Tensor] = []
    places: list[tuple[int, int]] = []
    padded = sum(len(chunk) * max(len(group.tree) for group in chunk) for chunk in chunks)
    for chunk in chunks:
        states = _states(base, chunk, device, recompute=padded > tokens_held and torch.is_grad_enabled())
        hidden.append(states)
        places.extend((sequence, position) for group in chunk for sequence, position, _ in group.choices)
    if not places:
        nothing = torch.zeros(0, device=device)
        return ChoiceScores(nothing, nothing, nothing.long(), nothing.long())
    logps, entropies = _restricted(head, torch.cat(hidden), [_Choice.of(sequences[s], p) for s, p in places])
    order = sorted(range(len(places)), key=places.__getitem__)
    index = torch.tensor(order, device=device)
    ordered = torch.tensor([places[number] for number in order], device=device)
    return ChoiceScores(logps[index], entropies[index], ordered[:, 0], ordered[:, 1])


def _trees(sequences: Sequence[TrainingSequence]) -> list[_Group]:
    groups: dict[str, _Group] = {}
    for number, sequence in enumerate(sequences):
        group = groups.setdefault(sequence.group, _Group(TokenTree(), []))
        leaf, done = ROOT, 0
        for position in sequence.choices:  # what follows the last choice is not computed
            leaf = group.tree.extend(leaf, sequence.ids[done:position])
            group.choices.append((number, position, leaf))
            done = position
    return list(groups.values())


def _chunks(groups: list[_Group], tokens_per_pass: int) -> Iterator[list[_Group]]:
    chunk: list[_Group] = []
    for group in sorted(groups, key=lambda each: len(each.tree)):
        if chunk and (len(chunk) + 1) * len(group.tree) > tokens_per_pass:
            yield chunk
            chunk = []
        chunk.append(group)
    if chunk:
        yield chunk


def _states(base: torch.nn.Module, groups: list[_Group], device: torch.device, *, recompute: bool) -> torch.Tensor:
    """Hidden states before each choice of the groups: shape (choices, hidden size)."""
    length = max(len(group.tree) for group in groups)
    ids = torch.zeros((len(groups), length), dtype=torch.long)
    positions = torch.zeros((len(groups), length), dtype=torch.long)
    visible = np.zeros((len(groups), length, length), dtype=np.bool_)
    visible[:, :, 0] = True  # padding sees something, or its softmax would be 0/0; nothing reads the result
    rows: list[int] = []
    slots: list[int] = []
    for number, group in enumerate(groups):
        size = len(group.tree)
        ids[number, :size] = torch.tensor(group.tree.ids)
        positions[number, :size] = torch.tensor(group.tree.depths)
        visible[number, :size, :] = False
        visible[number, :size, :size] = group.tree.visible()
        rows.extend([number] * len(group.choices))
        slots.extend(slot for _, _, slot in group.choices)
    arguments = (ids.to(device), positions.to(device), torch.from_numpy(visible).to(device))
    where = (torch.tensor(rows, device=device), torch.tensor(slots, device=device))

    def run(ids: torch.Tensor, positions: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        return hidden_states(base, ids, positions, visible)[where]

    if recompute:
        return cast(torch.Tensor, checkpoint(run, *arguments, use_reentrant=False))
    return run(*arguments)


@dataclass(frozen=True, slots=True)
class _Choice:
    token: int
    allowed: AllowedTokens | None
    temperature: float

    @classmethod
    def of(cls, sequence: TrainingSequence, position: int) -> _Choice:
        return cls(sequence.ids[position], sequence.allowed[position], sequence.temperature or 1.0)


def _restricted(
    head: torch.nn.Linear, hidden: torch.Tensor, choices: list[_Choice]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies, computed together for choices that allowed the same tokens."""
    alike: dict[tuple[AllowedTokens | None, float], list[int]] = {}
    for number, choice in enumerate(choices):
        alike.setdefault((choice.allowed, choice.temperature), []).append(number)
    logps: list[torch.Tensor] = []
    entropies: list[torch.Tensor] = []
    order: list[int] = []
    for (allowed, temperature), numbers in alike.items():
        index = allowed_index(allowed, head.out_features)
        logs = log_distribution(head, hidden[numbers], index, temperature)
        tokens = [choices[number].token for number in numbers]
        columns = tokens if index is None else _positions(index, tokens)
        logps.append(logs.gather(1, torch.tensor(columns, device=logs.device)[:, None]).squeeze(1))
        entropies.append(-(logs.exp() * logs).sum(-1))
        order += numbers
    back = torch.empty(len(order), dtype=torch.long)
    back[torch.tensor(order)] = torch.arange(len(order))
    back = back.to(hidden.device)
    return torch.cat(logps)[back], torch.cat(entropies)[back]


def _positions(index: list[int], tokens: list[int]) -> list[int]:
    listed = np.asarray(index)
    found = np.searchsorted(listed, tokens).clip(max=len(index) - 1)
    wrong = np.flatnonzero(listed[found] != tokens)
    if wrong.size:
        raise ValueError(f"the token {tokens[wrong[0]]} was chosen, but its grammar did not allow it")
    return [int(place) for place in found]
