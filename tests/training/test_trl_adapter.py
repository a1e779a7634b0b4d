"""The contract with TRL. Its seams are private and young: these tests fail loudly when a version changes them."""

from __future__ import annotations

import asyncio
import copy
import inspect
from dataclasses import replace

import pytest
import torch
import trl
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from toolorchestra.config import TrainingSettings
from toolorchestra.limits import Limits
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.policies.tokens.engine import TokenEngine
from toolorchestra.policies.tokens.format import CompactChatML
from toolorchestra.policies.tokens.grammar import CallConstraint, call_segments
from toolorchestra.policies.tokens.guidance import GuidanceMatchers
from toolorchestra.policies.tokens.policy import TokenPolicyFactory
from toolorchestra.policies.tokens.teacher import write_call
from toolorchestra.pricing import Price
from toolorchestra.rewards import RewardSettings
from toolorchestra.rollout import group_requests, run_episodes
from toolorchestra.tasks import Task
from toolorchestra.training import trl_adapter
from toolorchestra.training.collect import build_batch
from toolorchestra.training.logprobs import score_choices
from toolorchestra.training.sequences import Span, TrainingSequence, sequences_of
from toolorchestra.training.trl_adapter import OrchestraTrainer, grpo_config, pad_sequences
from toolorchestra.trajectory import Action, Observation, Outcome, Step, Trajectory

CPU = torch.device("cpu")
SETTINGS = TrainingSettings(group_size=4, tasks_per_step=2, steps=2, learning_rate=1e-3, kl=0.0, clip_low=0.2)


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """32-bit floats throughout, so that two ways to one number can be compared."""
    monkeypatch.setattr(trl_adapter, "GRPOConfig", lambda **given: GRPOConfig(**(given | {"bf16": False})))


@pytest.fixture
def sequences(make):
    return [make(f"g{seed % 2}", seed, turns=1 + seed % 3) for seed in range(6)]


def ours(model, tokenizer, sequences, folder, settings=SETTINGS, **named):
    trainer = OrchestraTrainer(model, tokenizer, settings, lambda step: sequences, folder, **named)
    trainer.current_gradient_accumulation_steps = 1
    model.train()
    return trainer


def theirs(model, tokenizer, folder, settings=SETTINGS):
    """TRL's own trainer with the same settings, which scores in its own way."""
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=trl_adapter.grpo_config(settings, folder),
        train_dataset=Dataset.from_dict({"prompt": [""] * settings.group_size}),
        processing_class=tokenizer,
    )
    trainer.current_gradient_accumulation_steps = 1
    model.train()
    return trainer


def loss_and_gradient(trainer, batch, grads):
    trainer.model.zero_grad()
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()
    return loss.item(), grads(trainer.model)


def our_loss(trainer, grads):
    return loss_and_gradient(trainer, trainer._prepare_inputs(None), grads)


def test_the_pinned_version_has_the_seams():
    assert trl.__version__.startswith("1.16."), "read the seams again, then move the pin"
    expected = {
        "_prepare_inputs": ["self", "generation_batch"],
        "_generate_and_score_completions": ["self", "inputs"],
        "_compute_loss": ["self", "model", "inputs"],
        "_get_per_token_logps_and_entropies": ["self", "model", "input_ids", "attention_mask", "logits_to_keep"],
    }
    for name, parameters in expected.items():
        found = list(inspect.signature(getattr(GRPOTrainer, name)).parameters)
        assert found[: len(parameters)] == parameters
        assert getattr(OrchestraTrainer, name) is not None
    source = inspect.getsource(GRPOTrainer._compute_loss)
    for key in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "tool_mask", "advantages"):
        assert f'"{key}"' in source
    assert 'inputs["num_items_in_batch"]' in source
    assert 'inputs["ref_per_token_logps"]' in source


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("entropy_bonus", [0.0, 0.05])
def test_the_loss_and_its_gradient_are_trls_own(learner, tokenizer, make, grads, tmp_path, temperature, entropy_bonus):
    settings = SETTINGS.model_copy(update={"temperature": temperature, "entropy_bonus": entropy_bonus})
    sequences = [make(f"g{seed % 2}", seed, turns=1 + seed % 3, temperature=temperature) for seed in range(6)]
    other = copy.deepcopy(learner)
    mine = our_loss(ours(learner, tokenizer, sequences, tmp_path, settings), grads)
    batch = pad_sequences(sequences, tokenizer.pad_token_id, CPU)
    its = loss_and_gradient(theirs(other, tokenizer, tmp_path, settings), batch, grads)
    assert mine[0] == pytest.approx(its[0], abs=1e-5)
    assert abs(mine[0]) > 1e-3
    assert float((mine[1] - its[1]).norm() / its[1].norm()) < 1e-4


def test_the_clip_of_an_old_policy_is_trls_own(learner, tokenizer, sequences, grads, tmp_path):
    # With older log-probabilities the ratio is not 1, and some of it is clipped.
    other = copy.deepcopy(learner)
    trainer, plain = ours(learner, tokenizer, sequences, tmp_path), theirs(other, tokenizer, tmp_path)
    batch = trainer._prepare_inputs(None)
    with torch.no_grad():
        now, _ = trainer._scored(learner, batch["completion_ids"].shape)
    batch["old_per_token_logps"] = now + torch.linspace(-0.5, 0.5, now.numel()).reshape(now.shape)
    mine, its = loss_and_gradient(trainer, batch, grads), loss_and_gradient(plain, batch, grads)
    assert mine[0] == pytest.approx(its[0], abs=1e-5)
    assert float((mine[1] - its[1]).norm() / its[1].norm()) < 1e-4
    assert trainer._metrics["train"]["clip_ratio/region_mean"][0] > 0


def test_under_a_grammar_the_loss_is_that_of_the_restricted_distribution(
    learner, tokenizer, make, plain, grads, tmp_path
):
    sequences = [make(f"g{seed % 2}", seed, constrained=True) for seed in range(5)]
    other = copy.deepcopy(learner)
    mine = our_loss(ours(learner, tokenizer, sequences, tmp_path), grads)
    count = sum(len(sequence.choices) for sequence in sequences)
    total = 0.0
    for sequence in sequences:
        logps, _ = plain(other, sequence)
        total = total - sequence.advantage * (logps - logps.detach()).exp().sum() / count
    total.backward()
    assert mine[0] == pytest.approx(total.item(), abs=1e-5)
    assert float((mine[1] - grads(other)).norm() / grads(other).norm()) < 1e-4


def test_what_is_not_trained_on_has_no_influence(learner, tokenizer, sequences, make, grads, tmp_path):
    left_out = [make("g0", 50, trained=False, advantage=99.0), make("g9", 51, trained=False, turns=6)]
    alone = our_loss(ours(learner, tokenizer, sequences, tmp_path), grads)
    mixed = our_loss(ours(learner, tokenizer, [left_out[0], *sequences, left_out[1]], tmp_path), grads)
    assert mixed[0] == pytest.approx(alone[0], abs=1e-6)
    assert torch.allclose(mixed[1], alone[1], atol=1e-6)


def test_tokens_that_were_not_chosen_have_no_gradient_of_their_own(learner, tokenizer, sequences, grads, tmp_path):
    # Neither the sampler's record at a forced token nor what stands behind the last choice reaches the loss.
    changed = [
        replace(
            each,
            logprobs=tuple(
                value if chosen else -7.0 for value, chosen in zip(each.logprobs, each.loss_mask, strict=True)
            ),
            ids=(*each.ids[: each.choices[-1] + 1], *[9] * (len(each.ids) - each.choices[-1] - 1)),
        )
        for each in sequences
    ]
    first = our_loss(ours(learner, tokenizer, sequences, tmp_path), grads)
    second = our_loss(ours(learner, tokenizer, changed, tmp_path), grads)
    assert first[0] == second[0]
    assert torch.equal(first[1], second[1])


def test_a_step_in_which_all_is_filtered_leaves_the_weights_alone(learner, tokenizer, sequences, tmp_path):
    # Not even momentum and weight decay move them.
    settings = SETTINGS.model_copy(update={"steps": 3, "weight_decay": 0.1})
    seen = []

    def collect(step):
        seen.append(torch.cat([each.detach().flatten().clone() for each in learner.parameters()]))
        return sequences if step != 1 else [replace(each, trained=False) for each in sequences]

    trainer = OrchestraTrainer(learner, tokenizer, settings, collect, tmp_path)
    trainer.train()
    assert len(seen) == 3
    assert not torch.equal(seen[0], seen[1]), "the first step learned"
    assert torch.equal(seen[1], seen[2])
    after = torch.cat([each.detach().flatten() for each in learner.parameters()])
    assert not torch.equal(seen[2], after), "and the third again"
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert losses[1] == 0.0
    assert losses[0] != 0.0


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_an_empty_batch_has_a_loss_of_zero(learner, tokenizer, tmp_path, kl):
    learner.save_pretrained(tmp_path / "start")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "start")
    trainer = ours(model, tokenizer, [], tmp_path, SETTINGS.model_copy(update={"kl": kl, "entropy_bonus": 0.1}))
    loss = trainer._compute_loss(model, trainer._prepare_inputs(None))
    loss.backward()
    assert loss.item() == 0.0
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_divergence_from_the_start_is_trls_own(learner, tokenizer, make, grads, tmp_path):
    learner.save_pretrained(tmp_path / "start")
    settings = SETTINGS.model_copy(update={"kl": 0.5})
    sequences = [make(f"g{seed % 2}", seed) for seed in range(4)]
    trainers = []
    for build in (lambda model: ours(model, tokenizer, sequences, tmp_path, settings), None):
        model = AutoModelForCausalLM.from_pretrained(tmp_path / "start")
        trainer = build(model) if build else theirs(model, tokenizer, tmp_path, settings)
        trainers.append(trainer)
    mine, its = trainers
    start = our_loss(mine, grads)
    with torch.no_grad():
        for trainer in trainers:
            trainer.model.lm_head.weight.mul_(1.05)
    moved = our_loss(mine, grads)
    batch = pad_sequences(sequences, tokenizer.pad_token_id, CPU)
    ids, mask = (torch.cat([batch[f"prompt_{kind}"], batch[f"completion_{kind}"]], dim=1) for kind in ("ids", "mask"))
    with torch.no_grad():
        reference = its._get_per_token_logps_and_entropies(its.ref_model, ids, mask, batch["completion_ids"].shape[1])
    plain = loss_and_gradient(its, batch | {"ref_per_token_logps": reference[0]}, grads)
    assert moved[0] == pytest.approx(plain[0], abs=1e-5)
    assert float((moved[1] - plain[1]).norm() / plain[1].norm()) < 1e-4
    divergence = mine._metrics["train"]["kl"]
    assert divergence[0] == pytest.approx(0.0, abs=1e-6)
    assert divergence[1] > 1e-4
    assert start[0] != moved[0]


def test_drift_is_the_mean_over_what_was_chosen(learner, tokenizer, make, plain, tmp_path):
    # Off by 0, by 0.9 at a token of a tool's, by 0 and by 0.1.
    sequence = TrainingSequence(
        "t",
        0,
        "g",
        (5, 6, 7, 8, 9, 10),
        (False, False, True, False, True, True),
        (0.0,) * 6,
        (None,) * 6,
        (Span(2, 6),),
    )
    with torch.no_grad():
        logps, _ = plain(learner, sequence)
    first, second, third = logps.tolist()
    record = (0.0, 0.0, first, -0.9, second, third - 0.1)
    trainer = ours(learner, tokenizer, [replace(sequence, logprobs=record)], tmp_path)
    trainer._compute_loss(learner, trainer._prepare_inputs(None))
    assert trainer._metrics["train"]["logprob_drift"] == [pytest.approx(0.1 / 3, abs=1e-5)]


def test_masks_come_from_lengths_where_padding_is_the_end_token(make):
    def one(ids):
        size = len(ids)
        return make("g", 0, ids=(4, *ids), loss_mask=(False, *[True] * size), logprobs=(0.0, *[-1.0] * size),
                    allowed=(None,) * (size + 1), turn_spans=(Span(1, size + 1),))  # fmt: skip

    batch = pad_sequences([one((5, 2)), one((5, 6, 7, 2))], 2, CPU)
    assert batch["completion_ids"].tolist() == [[5, 2, 2, 2], [5, 6, 7, 2]]
    assert batch["tool_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert batch["completion_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert batch["num_items_in_batch"] == 6


def test_padding_keeps_every_token_in_its_place(make):
    sequences = [make("a", 1, turns=1), make("bb", 2, turns=3), make("c", 3)]
    batch = pad_sequences(sequences, 0, CPU)
    for row, sequence in enumerate(sequences):
        prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
        spoken = batch["completion_mask"][row].bool()
        assert (*prompt, *batch["completion_ids"][row][spoken].tolist()) == sequence.ids
        assert batch["tool_mask"][row][spoken].bool().tolist() == list(sequence.loss_mask[len(prompt) :])
        assert batch["sampling_per_token_logps"][row][spoken].tolist() == pytest.approx(
            sequence.logprobs[len(prompt) :], abs=1e-6
        )
        assert batch["advantages"][row].item() == pytest.approx(sequence.advantage, abs=1e-6)
        assert batch["prompt_mask"][row].tolist() == sorted(batch["prompt_mask"][row].tolist()), "padded on the left"
    assert batch["num_items_in_batch"] == sum(len(sequence.choices) for sequence in sequences)


def test_settings_reach_trl(tmp_path):
    settings = SETTINGS.model_copy(
        update={"clip_low": 0.1, "clip_high": 0.3, "kl": 0.02, "entropy_bonus": 0.03, "max_grad_norm": 0.5}
    )
    config = grpo_config(settings, tmp_path)
    assert (config.epsilon, config.epsilon_high, config.beta, config.max_grad_norm) == (0.1, 0.3, 0.02, 0.5)
    assert (config.loss_type, config.max_steps, config.temperature) == ("dapo", 2, 1.0)


RIGHT, WRONG = "right_one", "wrong_one"
TWO = tuple(ToolSpec(name, "a tool") for name in (WRONG, RIGHT))


class TwoTools:
    """A call of the right tool solves the task."""

    async def reset(self):
        return Observation((Message("user", "Which tool?"),), TWO)

    async def step(self, action: Action) -> Observation:
        return Observation(done=True)

    async def score(self, trajectory: Trajectory) -> Outcome:
        [step] = trajectory.steps
        return Outcome(step.action.message.tool_calls[0].name == RIGHT, answer="an answer")


def chance_of_right(model, chat, matchers):
    constraint = CallConstraint(call_segments(TWO), chat.encode, matchers, chat.end)
    turn = write_call(
        constraint, chat, ToolCall("c", RIGHT), chat.prompt([Message("user", "Which tool?")], TWO), continues=False
    )
    step = Step(Action(Message("assistant"), tokens=turn), 0.0, None)
    with torch.no_grad():
        return score_choices(model, sequences_of(Trajectory("t", 0, "g", "p", steps=(step,)))).logps.sum().exp().item()


def test_two_steps_raise_the_chance_of_the_right_tool(learner, tokenizer, tmp_path):
    with torch.no_grad():
        learner.lm_head.weight.mul_(0.1)  # undecided at the start
    chat, matchers = CompactChatML(tokenizer), GuidanceMatchers(tokenizer)
    factory = TokenPolicyFactory(TokenEngine(learner), chat, matchers, price=Price())
    tasks = [Task(f"t{number}", "Which tool?", "x") for number in range(4)]
    metrics = []

    def collect(step):
        factory.version = step
        trajectories = asyncio.run(
            run_episodes(
                group_requests(tasks, 8, label=str(step)),
                factory=factory,
                make_environment=lambda task, sample: TwoTools(),
                limits=Limits(turns=2),
                concurrency=32,
            )
        )
        batch = build_batch(trajectories, {task.id: task for task in tasks}, RewardSettings())
        metrics.append(batch.metrics)
        return batch.sequences

    settings = SETTINGS.model_copy(update={"learning_rate": 3e-3})
    trainer = OrchestraTrainer(learner, tokenizer, settings, collect, tmp_path)
    before = chance_of_right(learner, chat, matchers)
    trainer.train()
    after = chance_of_right(learner, chat, matchers)
    assert 0.3 < before < 0.8
    assert after > before + 0.1
    assert [each["groups"] for each in metrics] == [4, 4]
    assert metrics[0]["groups_kept"] > 0
    drifts = [row["logprob_drift"] for row in trainer.state.log_history if "logprob_drift" in row]
    assert max(drifts) < 1e-4, "the sampler and the trainer agree"
