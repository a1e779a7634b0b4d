from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from toolorchestra.environments.qa import SUBMIT, QuestionEnvironment
from toolorchestra.errors import UserError
from toolorchestra.judges import make_judge
from toolorchestra.limits import Limits
from toolorchestra.messages import Message, ToolSpec
from toolorchestra.policies.tokens import grammar
from toolorchestra.policies.tokens.engine import TokenEngine
from toolorchestra.policies.tokens.format import CompactChatML, TemplateFormat
from toolorchestra.policies.tokens.guidance import GuidanceMatchers
from toolorchestra.policies.tokens.policy import DecodingSpeed, TokenPolicyFactory
from toolorchestra.pricing import Price
from toolorchestra.rollout import group_requests, run_episodes
from toolorchestra.tasks import Task
from toolorchestra.trajectory import ToolResult

TASKS = (Task("capital", "What is the capital of France?", "Paris"), Task("river", "Which river?", "Seine"))


@dataclass
class Simple:
    """A tool that always says the same, and remembers its arguments."""

    spec: ToolSpec
    says: str
    seen: list[Any] = field(default_factory=list)

    async def call(self, arguments: Mapping[str, Any], context: Any) -> ToolResult:
        self.seen.append(dict(arguments))
        return ToolResult(self.says, latency_s=0.5)


def make_tools():
    strings = {"type": "string", "maxLength": 6}
    ask = {"model": {"enum": ["small", "large"]}, "words": strings}
    look = {"topic": strings, "n": {"type": "integer", "minimum": 1, "maximum": 40}}
    return (
        Simple(ToolSpec("ask", "asks", {"type": "object", "properties": ask, "required": ["model"]}), "Paris"),
        Simple(ToolSpec("ask_more", "asks more", {"type": "object", "properties": look}), "Seine"),
    )


def world(tools, *, submit=True):
    def make(task, sample):
        return QuestionEnvironment(task, tools, make_judge("exact"), submit=submit, sample=sample)

    return make


def make_llama(vocabulary):
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=vocabulary, hidden_size=32, intermediate_size=32, num_hidden_layers=1)
    config.num_attention_heads = config.num_key_value_heads = 4
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def parts(llama, tokenizer):
    return TokenEngine(llama), CompactChatML(tokenizer), GuidanceMatchers(tokenizer)


async def run(factory, *, tools=None, submit=True, samples=6, turns=5, **limits):
    return await run_episodes(
        group_requests(TASKS, samples),
        factory=factory,
        make_environment=world(tools or make_tools(), submit=submit),
        limits=Limits(turns=turns, **limits),
        concurrency=5,
    )


async def test_under_a_grammar_no_call_of_an_episode_is_malformed(parts):
    tools = make_tools()
    trajectories = await run(TokenPolicyFactory(*parts), tools=tools)
    assert {trajectory.status for trajectory in trajectories} <= {"done", "limit"}
    assert sum(trajectory.malformed_calls for trajectory in trajectories) == 0
    names = {call.name for each in trajectories for step in each.steps for call in step.action.message.tool_calls}
    assert names == {"ask", "ask_more", SUBMIT}
    assert sum(len(tool.seen) for tool in tools) == sum(each.calls.total() for each in trajectories)
    assert any(trajectory.solved is not None for trajectory in trajectories)
    for trajectory in trajectories:
        for number, step in enumerate(trajectory.steps):
            assert len(step.action.message.tool_calls) == 1
            assert step.action.finish_reason == "tool_calls"
            assert step.action.tokens.continues is (number > 0)
    assert not parts[0]._rows, "every episode gave its place back"


async def test_rows_of_the_head_that_no_token_has_are_never_chosen(tokenizer):
    # Embeddings are often padded to a round number.
    model = make_llama(len(tokenizer) + 67)
    matchers = GuidanceMatchers(tokenizer, vocabulary=len(tokenizer) + 67)
    factory = TokenPolicyFactory(TokenEngine(model), CompactChatML(tokenizer), matchers, temperature=2.0)
    trajectories = await run(factory)
    turns = [step.action.tokens for each in trajectories for step in each.steps]
    assert max(token for turn in turns for token in turn.ids) < len(tokenizer)
    assert sum(trajectory.malformed_calls for trajectory in trajectories) == 0


async def test_an_episode_depends_on_its_seed_task_and_sample_alone(parts):
    def ids(trajectories):
        return {(each.task_id, each.sample): [step.action.tokens.ids for step in each.steps] for each in trajectories}

    first, again = ids(await run(TokenPolicyFactory(*parts))), ids(await run(TokenPolicyFactory(*parts), samples=3))
    assert {key: first[key] for key in again} == again
    assert len({str(turns) for turns in first.values()}) > len(first) // 2
    other = ids(await run(TokenPolicyFactory(*parts, seed=1)))
    assert other != first
    later = ids(await run(TokenPolicyFactory(*parts, version=1)))
    assert later != first


async def test_text_or_calls_gives_both_and_ends_in_text(parts):
    trajectories = await run(TokenPolicyFactory(*parts, decoding="calls_or_text", max_tokens=6), submit=False)
    assert {trajectory.status for trajectory in trajectories} == {"done"}


async def test_a_turn_without_tools_is_text_even_under_a_grammar(parts):
    # The forced last answer.
    trajectories = await run(TokenPolicyFactory(*parts, max_tokens=4), submit=False, turns=2, forced_answer=True)
    assert all(trajectory.forced_answer for trajectory in trajectories)
    assert all(not trajectory.steps[-1].action.message.tool_calls for trajectory in trajectories)
    assert {len(trajectory.steps) for trajectory in trajectories} == {3}


@pytest.fixture(scope="module")
def babbler(qwen_tokenizer):
    """A model that loves brackets and tags: free decoding of it is full of broken calls."""
    torch.manual_seed(3)
    config = Qwen3Config(
        vocab_size=len(qwen_tokenizer), hidden_size=32, intermediate_size=32, num_hidden_layers=1, head_dim=8
    )
    config.num_attention_heads = config.num_key_value_heads = 4
    model = Qwen3ForCausalLM(config).eval()
    bias = torch.zeros(len(qwen_tokenizer))
    for text, love in (
        ("<tool_call>", 6.0), ("</tool_call>", 5.0), ("<think>", 3.5), ("</think>", 3.5), ("<|im_end|>", 4.5),
        ("<|im_start|>", 3.0), ('{"', 5.0), ("name", 4.0), ('": "', 4.0), ("ask", 4.0), ("}", 4.0), ("\n", 3.0),
    ):  # fmt: skip
        for token in qwen_tokenizer.encode(text, add_special_tokens=False):
            bias[token] = love
    model.lm_head.bias = torch.nn.Parameter(bias)
    return model


@pytest.mark.parametrize("make_format", [TemplateFormat, CompactChatML])
async def test_garbage_becomes_readable_observations(babbler, qwen_tokenizer, make_format):
    chat = make_format(qwen_tokenizer)
    factory = TokenPolicyFactory(
        TokenEngine(babbler), chat, GuidanceMatchers(qwen_tokenizer), decoding="free", max_tokens=25
    )
    trajectories = await run(factory, samples=8)
    assert {trajectory.status for trajectory in trajectories} <= {"done", "limit"}, "nothing crashed"
    broken = [
        record
        for trajectory in trajectories
        for step in trajectory.steps
        for record in (step.observation.calls if step.observation else ())
        if record.call.error is not None
    ]
    assert len(broken) > 5
    for record in broken:
        assert record.result.content.startswith("Error: ")
        assert len(record.result.content) > 30, "it says what was wrong"
    told = [message for each in trajectories for message in each.messages if message.role == "tool"]
    assert any("malformed" in message.content for message in told)


async def test_an_argument_without_end_is_a_malformed_call_and_the_others_go_on(parts, monkeypatch):
    monkeypatch.setattr(grammar, "MAX_FREE_TOKENS", 3)
    strings = {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]}
    tools = (Simple(ToolSpec("ask", "", strings), "Paris"), make_tools()[1])
    trajectories = await run(TokenPolicyFactory(*parts), tools=tools)
    assert {trajectory.status for trajectory in trajectories} <= {"done", "limit"}
    cut = [step for each in trajectories for step in each.steps if step.action.message.tool_calls[0].error]
    assert cut
    for step in cut:
        assert step.action.tokens.ids[-1] != parts[1].end
        assert step.action.message.tool_calls[0].error
    followers = [
        later.action.tokens
        for each in trajectories
        for step, later in zip(each.steps, each.steps[1:], strict=False)
        if step in cut
    ]
    assert all(turn.context_ids[0] == parts[1].end for turn in followers), "the end that was not sampled is put there"


async def test_a_schema_beyond_the_grammar_stops_the_run(parts):
    strange = {"type": "object", "properties": {"x": {"not": {"type": "string"}}}, "required": ["x"]}
    with pytest.raises(UserError, match="cannot be decoded under a grammar"):
        await run(TokenPolicyFactory(*parts), tools=(Simple(ToolSpec("odd", "", strange), "x"),))


async def test_what_deciding_costs(parts):
    price = Price(input=Decimal(1), output=Decimal(10), cache_read=Decimal("0.1"), source="list")
    speed = DecodingSpeed(prefill_s=0.001, decode_s=0.1)
    [trajectory, *_] = await run(TokenPolicyFactory(*parts, price=price, speed=speed), samples=1)
    length = 0
    for step in trajectory.steps:
        turn, [charge] = step.action.tokens, step.action.charges
        assert charge.usage.input_tokens == len(turn.context_ids)
        assert charge.usage.output_tokens == len(turn.ids)
        assert charge.usage.cache_read_tokens == length
        millionths = len(turn.context_ids) + 10 * len(turn.ids) + Decimal("0.1") * length
        assert charge.usd == millionths / 1_000_000
        assert charge.price == "list"
        length += len(turn.context_ids) + len(turn.ids)
        chosen = sum(turn.sampled)
        seconds = 0.1 * chosen + 0.001 * (len(turn.context_ids) + len(turn.ids) - chosen)
        assert step.action.latency_s == pytest.approx(seconds)


async def test_without_a_price_the_cost_is_unknown_and_without_a_speed_the_clock_counts(parts):
    [trajectory, *_] = await run(TokenPolicyFactory(*parts), samples=1)
    assert trajectory.cost_usd is None
    assert all(step.action.latency_s is None and step.action_latency_s > 0 for step in trajectory.steps)


async def test_simulated_seconds_are_limited_as_such(parts):
    # Ten simulated seconds a token: real time must not cut it, the limit on simulated time must.
    factory = TokenPolicyFactory(*parts, speed=DecodingSpeed(decode_s=10.0), price=Price())
    assert factory.episode(TASKS[0], 0).virtual_clock
    trajectories = await run(factory, seconds=30.0, turns=50)
    assert {trajectory.limit for trajectory in trajectories} <= {"seconds", None}
    assert any(trajectory.limit == "seconds" for trajectory in trajectories)
    assert not TokenPolicyFactory(*parts).episode(TASKS[0], 0).virtual_clock


async def test_a_turn_is_told_apart_by_its_calls_ids(parts):
    [trajectory, *_] = await run(TokenPolicyFactory(*parts), samples=1, turns=5)
    ids = [call.id for step in trajectory.steps for call in step.action.message.tool_calls]
    assert len(set(ids)) == len(ids) > 0


async def test_closing_twice_is_closing_once(llama, parts):
    engine = TokenEngine(llama)
    factory = TokenPolicyFactory(engine, *parts[1:])
    one, other = (factory.episode(TASKS[0], sample) for sample in range(2))
    await one.aclose()
    await one.aclose()
    assert engine._rows, "the other one of the group is still there"
    action = await other.act((Message("user", "hi"),), [make_tools()[0].spec])
    assert action.message.tool_calls
    await other.aclose()
    assert not engine._rows
