from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from toolorchestra.training import logprobs
from toolorchestra.training.logprobs import score_choices
from toolorchestra.trajectory import AllowedTokens


@pytest.fixture(scope="module")
def sequences(make):
    """Three groups, interleaved, free and constrained, each with its own temperature."""
    return [
        make(f"g{seed % 3}", seed, constrained=seed % 4 != 0, temperature=(1.0, 0.6, 1.4)[seed % 3], turns=1 + seed % 3)
        for seed in range(9)
    ]


def test_scores_are_those_of_a_plain_pass(llama, sequences, plain):
    with torch.no_grad():
        scores = score_choices(llama, sequences)
        for number, sequence in enumerate(sequences):
            mine = scores.sequence == number
            logps, entropies = plain(llama, sequence)
            assert scores.position[mine].tolist() == sequence.choices
            assert torch.allclose(scores.logps[mine], logps, atol=1e-4)
            assert torch.allclose(scores.entropies[mine], entropies, atol=1e-3)
    assert len(scores.logps) == sum(len(sequence.choices) for sequence in sequences)


@pytest.mark.parametrize("tokens_per_pass", [4096, 40])
def test_the_gradient_is_the_plain_one(learner, sequences, plain, grads, tokens_per_pass):
    weights = torch.linspace(-1, 1, sum(len(sequence.choices) for sequence in sequences))
    scores = score_choices(learner, sequences, tokens_per_pass=tokens_per_pass)
    (scores.logps @ weights + 0.3 * scores.entropies.sum()).backward()
    shared = grads(learner)
    learner.zero_grad()
    logps, entropies = zip(*(plain(learner, sequence) for sequence in sequences), strict=True)
    (torch.cat(logps) @ weights + 0.3 * torch.cat(entropies).sum()).backward()
    own = grads(learner)
    assert float((shared - own).norm() / own.norm()) < 1e-4


def test_small_passes_are_recomputed_and_give_the_same(learner, sequences, grads, monkeypatch):
    calls = []
    real = logprobs.checkpoint

    def spy(*arguments, **named):
        calls.append(1)
        return real(*arguments, **named)

    monkeypatch.setattr(logprobs, "checkpoint", spy)
    found = []
    for bound in (100_000, 40):
        learner.zero_grad()
        scores = score_choices(learner, sequences, tokens_per_pass=bound, tokens_held=bound)
        scores.logps.sum().backward()
        found.append((scores.logps.detach(), grads(learner)))
    assert len(calls) == 3, "one pass for each group of the small bound, none where one pass does"
    assert torch.allclose(found[0][0], found[1][0], atol=1e-5)
    assert torch.allclose(found[0][1], found[1][1], atol=1e-4)


def test_the_order_of_the_sequences_does_not_matter(llama, sequences):
    order = [4, 0, 8, 2, 6, 1, 3, 7, 5]
    with torch.no_grad():
        straight, mixed = score_choices(llama, sequences), score_choices(llama, [sequences[number] for number in order])
    for place, number in enumerate(order):
        mine, its = mixed.sequence == place, straight.sequence == number
        assert torch.allclose(mixed.logps[mine], straight.logps[its], atol=1e-5)
        assert mixed.position[mine].tolist() == straight.position[its].tolist()


def test_nothing_after_the_last_choice_matters(llama, sequences):
    [first, *_] = sequences
    last = first.choices[-1]
    longer = replace(
        first,
        ids=(*first.ids[: last + 1], *[7] * 30),
        loss_mask=(*first.loss_mask[: last + 1], *[False] * 30),
        allowed=(*first.allowed[: last + 1], *[None] * 30),
    )
    with torch.no_grad():
        assert torch.equal(score_choices(llama, [first]).logps, score_choices(llama, [longer]).logps)


def test_a_single_possibility_is_certain(llama, make):
    sequence = make("g", 1)
    [position, *_] = sequence.choices
    allowed = list(sequence.allowed)
    allowed[position] = AllowedTokens(True, (sequence.ids[position],))
    with torch.no_grad():
        scores = score_choices(llama, [replace(sequence, allowed=tuple(allowed))])
    assert scores.logps[0].item() == 0.0
    assert scores.entropies[0].item() == 0.0


def test_without_choices_there_are_no_scores(llama, make):
    sequence = make("g", 1)
    silent = replace(sequence, loss_mask=(False,) * len(sequence.ids))
    for given in ([], [silent]):
        scores = score_choices(llama, given)
        assert len(scores.logps) == len(scores.entropies) == len(scores.sequence) == len(scores.position) == 0


def test_a_choice_that_was_not_allowed_is_a_damaged_record(llama, make):
    sequence = make("g", 1)
    [position, *_] = sequence.choices
    for ids in ((1, 2), (450,), (sequence.ids[position] - 1, sequence.ids[position] + 1)):
        allowed = list(sequence.allowed)
        allowed[position] = AllowedTokens(True, ids)
        with pytest.raises(ValueError, match="did not allow"):
            score_choices(llama, [replace(sequence, allowed=tuple(allowed))])
