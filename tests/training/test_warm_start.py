from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from toolorchestra.config import WarmStartSettings
from toolorchestra.errors import UserError
from toolorchestra.messages import Message, ToolCall
from toolorchestra.policies.tokens.copy import SamplingCopy, train_top_layers
from toolorchestra.training.warm_start import verified, warm_start
from toolorchestra.trajectory import Action, Outcome, SampledTurn, Step, Trajectory

SETTINGS = WarmStartSettings(epochs=6, learning_rate=3e-3, batch_size=4)


@pytest.fixture
def traces(make):
    return [make(f"g{seed}", seed, constrained=True) for seed in range(8)]


def test_the_loss_goes_down(learner, traces):
    told = []
    losses = warm_start(learner, traces, SETTINGS, on_step=lambda *row: told.append(row))
    assert len(losses) == 12
    assert sum(losses[-2:]) < 0.6 * sum(losses[:2])
    assert told == [(number, 12, loss) for number, loss in enumerate(losses, start=1)]
    assert not learner.training


def test_the_order_is_the_seeds(tokenizer, traces, learner):
    start = {name: value.clone() for name, value in learner.state_dict().items()}
    found = []
    for seed in (0, 0, 1):
        learner.load_state_dict(start)
        found.append(warm_start(learner, traces, SETTINGS, seed=seed))
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_a_group_stays_in_one_batch(learner, make, monkeypatch):
    from toolorchestra.training import warm_start as module

    seen = []
    real = module.score_choices
    monkeypatch.setattr(
        module, "score_choices", lambda model, batch, **named: seen.append(batch) or real(model, batch, **named)
    )
    traces = [make(f"g{seed % 3}", seed) for seed in range(9)]
    warm_start(learner, traces, SETTINGS.model_copy(update={"epochs": 1, "batch_size": 3}))
    assert [len({trace.group for trace in batch}) for batch in seen] == [1, 1, 1]
    assert sum(map(len, seen)) == 9


def test_what_was_forced_is_not_trained(learner, make):
    trace = make("g", 1)
    silent = replace(make("h", 2), loss_mask=(False,) * len(make("h", 2).ids))
    losses = warm_start(learner, [trace, silent], SETTINGS.model_copy(update={"batch_size": 1, "epochs": 2}))
    assert len(losses) == 2, "the trace without a choice takes no step"
    assert all(loss == loss for loss in losses)


def test_without_traces_the_user_must_act(learner, make):
    silent = replace(make("h", 2), loss_mask=(False,) * len(make("h", 2).ids))
    for traces in ([], [silent]):
        with pytest.raises(UserError, match="no verified trace"):
            warm_start(learner, traces, SETTINGS)


def test_only_rollouts_that_solved_their_task_cleanly_are_traces():
    turn = SampledTurn((5,), (7,), (-0.5,), (True,), (None,), continues=False)

    def rollout(solved=True, status="done", error=None):
        message = Message("assistant", tool_calls=(ToolCall("c", "f", error=error),))
        step = Step(Action(message, tokens=turn), 0.0, None)
        return Trajectory("t", 0, "g", "p", steps=(step,), status=status, outcome=Outcome(solved, "x"))

    every = [rollout(), rollout(False), rollout(None), rollout(status="limit"), rollout(error="malformed")]
    assert len(verified(every)) == 1


def test_only_the_top_layers_move(learner, traces):
    count = train_top_layers(learner, 1)
    assert count == sum(each.numel() for each in learner.model.layers[1].parameters())
    before = {name: value.clone() for name, value in learner.named_parameters()}
    warm_start(learner, traces, SETTINGS.model_copy(update={"epochs": 1}))
    moved = {name for name, value in learner.named_parameters() if not torch.equal(value, before[name])}
    assert moved
    assert all(name.startswith("model.layers.1.") for name in moved)
    assert train_top_layers(learner, None) == sum(each.numel() for each in learner.parameters())


def test_the_sampling_copy_follows_what_is_trained(learner, traces):
    train_top_layers(learner, 1)
    mirror = SamplingCopy(learner)
    warm_start(learner, traces, SETTINGS.model_copy(update={"epochs": 1}))
    pairs = list(zip(mirror.model.parameters(), learner.parameters(), strict=True))
    assert any(not torch.equal(mine, its.bfloat16()) for mine, its in pairs)
    mirror.refresh()
    assert all(torch.equal(mine, its.bfloat16()) for mine, its in pairs)
    assert not any(mine.requires_grad for mine, _ in pairs)
