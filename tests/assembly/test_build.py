"""Settings become live objects, or an error before any work starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.assembly import build
from toolorchestra.config import Settings, load_settings
from toolorchestra.errors import UserError
from toolorchestra.messages import ToolCall, ToolSpec
from toolorchestra.policies import ChatPolicy, CheapestFirst, Scripted
from toolorchestra.preferences import Preference
from toolorchestra.pricing import UnpricedModelError
from toolorchestra.rollout import run_episode
from toolorchestra.tasks import Task
from toolorchestra.testing import MockChatServer, MockReply
from toolorchestra.tools import CallContext
from toolorchestra.trajectory import ToolResult, Trajectory

Configure = Callable[..., Path]
EASY = Task("easy", "What is the capital of Peru?", "Lima", kind="easy")
HARD = Task("hard", "Who proved it?", "Noether", kind="hard")


@dataclass(frozen=True)
class OwnTool:
    """A tool that a user brings along."""

    parameters: Mapping[str, Any]
    name: str = "own"

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "A tool of one's own.", self.parameters)

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        return ToolResult("done", latency_s=0.0)


async def play(settings: Settings, task: Task, *moves: Any, sample: int = 0) -> Trajectory:
    async with build(settings) as assembly:
        policy = Scripted(moves) if moves else assembly.policy_factory()
        return await run_episode(
            policy.episode(task, sample),
            assembly.make_environment(task, sample),
            task=task,
            sample=sample,
            group=task.id,
            policy_name=policy.name,
            limits=assembly.limits,
        )


class TestTools:
    def test_models_tell_their_price_and_seconds(self, market: Settings) -> None:
        tool = build(market).tools["ask_small"].make(EASY, 0)
        # 300 prompt tokens at $0.1 and 100 generated ones at $0.4 a million: $0.00007 a call
        assert tool.spec.description == "Knows simple things. $0.07 per 1k calls, ~0.5 s."

    def test_what_runs_here_says_that_it_is_free(self, market: Settings) -> None:
        assert build(market).tools["notes"].make(EASY, 0).spec.description.endswith("Free.")

    def test_a_fee_is_told_and_charged(self, configure: Configure) -> None:
        text = "orchestrator: {model: 'rule:random'}\ntools: {notes: {kind: search, folder: notes, %s}}\n"
        settings = load_settings(configure(text % "price: {per_call_usd: 0.002}"))
        assert "$2 per 1k calls" in build(settings).tools["notes"].make(EASY, 0).spec.description

    async def test_a_search_with_a_fee_costs_it(self, configure: Configure) -> None:
        text = (
            "orchestrator: {model: 'rule:always:notes'}\n"
            "tools: {notes: {kind: search, folder: notes, price: {per_call_usd: 0.002}}}\n"
        )
        trajectory = await play(load_settings(configure(text)), replace(EASY, question="When does the ferry cross?"))
        assert trajectory.cost_usd == Decimal("0.002")
        assert "crosses at seven" in trajectory.messages[-2].content

    def test_models_by_price(self, market: Settings) -> None:
        assert build(market).models_by_price == ("ask_small", "ask_large")

    def test_the_code_interpreter_runs_in_a_sandbox(self, configure: Configure) -> None:
        settings = load_settings(
            configure("orchestrator: {model: 'rule:random'}\ntools: {py: {kind: code, seconds: 3, memory_mb: 64}}")
        )
        assembly = build(settings)
        tool = assembly.tools["py"].make(EASY, 0)
        assembly.close()
        assert (tool.limits.wall_s, tool.limits.memory_mb) == (3.0, 64)  # type: ignore[attr-defined]
        assert tool.spec.description.endswith("Free.")

    def test_an_orchestrator_that_only_chooses_words_nothing(self, market: Settings) -> None:
        chooser = market.orchestrator.model_copy(update={"constrained": True})
        assembly = build(market.model_copy(update={"orchestrator": chooser}))
        assert assembly.submits
        for offer in assembly.tools.values():
            assert offer.make(EASY, 0).spec.parameters["properties"] == {}

    def test_own_tools_are_offered_too(self, market: Settings) -> None:
        own = OwnTool({"type": "object", "properties": {}})
        assert [*build(market, tools=[own]).tools] == ["ask_large", "ask_small", "notes", "own"]

    @pytest.mark.parametrize(
        ("tool", "words"),
        [
            (OwnTool({"type": "thing"}), "tool 'own': its parameters must be a JSON Schema of an object"),
            (OwnTool({"type": "object", "properties": {"n": {"type": "whole"}}}), "parameters.properties.n"),
            (OwnTool({"type": "object"}, "notes"), "two tools are called 'notes'; rename one"),
            (OwnTool({"type": "object"}, "submit_answer"), "tools.submit_answer: this name is taken"),
            (OwnTool({"type": "object"}, "two words"), "tool 'two words': a tool's name is"),
        ],
    )
    def test_a_tool_that_cannot_be_offered_is_refused(self, market: Settings, tool: OwnTool, words: str) -> None:
        with pytest.raises(UserError) as caught:
            build(market, tools=[tool])
        assert words in str(caught.value)


class TestModels:
    async def test_simulated_models_know_the_task(self, market: Settings) -> None:
        trajectory = await play(market, EASY)
        assert (trajectory.solved, trajectory.answer) == (True, "Lima")
        # the description's price is that of 300 prompt tokens; this prompt is shorter
        assert 0 < float(trajectory.cost_usd or 0) < 0.00007
        assert trajectory.latency_s == 0.5

    async def test_wrong_answers_are_right_elsewhere(self, market: Settings) -> None:
        others = (HARD, replace(HARD, id="other", question="Who wrote it?", answer="Euler"))
        async with build(market, tasks=others) as assembly:
            tool = assembly.tools["ask_small"].make(HARD, 0)
            replies = [await assembly.tools["ask_small"].make(HARD, n).call({}, _context(HARD, n)) for n in range(3)]
        assert tool.spec.parameters["properties"] == {}  # it could not understand other words
        assert all("Euler" in reply.content for reply in replies)

    async def test_nobody_knows_a_question_of_no_task(self, market: Settings) -> None:
        async with build(market) as assembly:
            task = assembly.question("Why?")
            reply = await assembly.tools["ask_small"].make(task, 0).call({}, _context(task))
        assert reply.content == "I do not know."

    async def test_a_question_of_a_known_task_is_known(self, market: Settings) -> None:
        async with build(market, tasks=[EASY]) as assembly:
            task = assembly.question(EASY.question)
            reply = await assembly.tools["ask_small"].make(task, 0).call({}, _context(task))
        assert "Lima" in reply.content

    async def test_recorded_models_answer_from_their_table(self, configure: Configure, tmp_path: Path) -> None:
        rows = [{"question": EASY.question, "answer": "Lima", "cost_usd": 0.004, "latency_s": 2, "sample": 0}]
        rows += [rows[0] | {"answer": "Quito", "cost_usd": 0.002, "latency_s": 4, "sample": 1}]
        (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        settings = load_settings(configure(RECORDED))
        assert "$3 per 1k calls, ~3 s" in build(settings).tools["ask"].make(EASY, 0).spec.description
        first, second = await play(settings, EASY), await play(settings, EASY, sample=1)
        assert (first.answer, first.cost_usd, first.latency_s) == ("Lima", Decimal("0.004"), 2.0)
        assert (second.answer, second.solved) == ("Quito", False)

    async def test_a_chat_model_is_called_with_its_settings(self, configure: Configure) -> None:
        async with MockChatServer([MockReply("Lima", usage={"prompt_tokens": 100, "completion_tokens": 10})]) as server:
            settings = load_settings(configure(chat_model(server.base_url)))
            trajectory = await play(settings, EASY, ToolCall("1", "ask", {"question": "Capital of Peru?"}), "Lima")
        sent = server.requests[0].json
        assert (sent["model"], sent["temperature"], sent["max_tokens"]) == ("big", 0.5, 64)
        assert sent["messages"][-1]["content"] == "Capital of Peru?"
        assert trajectory.cost_usd == Decimal("0.00012")  # 100 × $1 + 10 × $2 a million

    def test_openai_itself_is_told_of_max_completion_tokens(self, configure: Configure) -> None:
        from toolorchestra.assembly.models import _max_tokens_key

        assert _max_tokens_key("https://api.openai.com/v1") == "max_completion_tokens"
        assert _max_tokens_key("http://localhost:8000/v1") == "max_tokens"


class TestOrchestrator:
    def test_a_rule(self, market: Settings) -> None:
        factory = build(market).policy_factory()
        assert isinstance(factory, CheapestFirst)
        assert factory.order(EASY) == ("ask_small", "ask_large")

    async def test_a_chat_endpoint(self, configure: Configure) -> None:
        async with MockChatServer([MockReply("Lima")]) as server:
            settings = load_settings(
                configure(f'orchestrator: {{model: m, base_url: "{server.base_url}", price: {{input: 1, output: 2}}}}')
            )
            trajectory = await play(settings, EASY)
        assert isinstance(build(settings).policy_factory(), ChatPolicy)
        assert (trajectory.policy, trajectory.solved) == ("orchestrator", True)
        assert {charge.source for charge in trajectory.charges} == {"orchestrator"}

    def test_a_key_that_is_not_set(self, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SOME_KEY", raising=False)
        text = "orchestrator: {model: m, base_url: 'http://x/v1', price: {free: true}, api_key_env: SOME_KEY}"
        with pytest.raises(UserError, match="SOME_KEY is not set"):
            build(load_settings(configure(text)))

    @pytest.mark.parametrize(
        ("rule", "words"),
        [
            ("rule:cheapest", "there is no rule 'cheapest'; did you mean cheapest-first?"),
            ("rule:always:ask", "no tool 'ask' to always call; the tools are ask_large, ask_small, notes"),
            ("rule:oracle!", "there is no rule 'oracle!'; the rules are cheapest-first"),
        ],
    )
    def test_an_unknown_rule(self, market: Settings, rule: str, words: str) -> None:
        orchestrator = market.orchestrator.model_copy(update={"model": rule})
        with pytest.raises(UserError) as caught:
            build(market.model_copy(update={"orchestrator": orchestrator})).policy_factory()
        assert words in str(caught.value)


class TestTasks:
    def test_the_settings_preference_is_for_tasks_without_one(self, configure: Configure) -> None:
        settings = load_settings(
            configure('orchestrator: {model: "rule:random"}\npreference: {text: cheap, compute: 1}')
        )
        own = replace(HARD, preference=Preference(text="quick", latency=1.0))
        easy, hard = build(settings).prepare([EASY, own])
        assert (easy.preference.text, easy.preference.compute) == ("cheap", 1.0)
        assert hard == own

    def test_words_of_the_moment_replace_those_of_the_settings(self, configure: Configure) -> None:
        settings = load_settings(
            configure('orchestrator: {model: "rule:random"}\npreference: {text: cheap, compute: 1}')
        )
        task = build(settings).question(" Why? ", "use the search")
        assert (task.question, task.preference.text, task.preference.compute) == ("Why?", "use the search", 1.0)

    def test_an_empty_question(self, market: Settings) -> None:
        with pytest.raises(UserError, match="the question is empty"):
            build(market).question("  ")

    @pytest.mark.parametrize(
        ("task", "words"),
        [
            (
                replace(EASY, tools=("ask_smal",)),
                "task 'easy': no tool 'ask_smal' under tools (did you mean 'ask_small'?)",
            ),
            (replace(EASY, judge="exactly"), "task 'easy': there is no judge 'exactly' (did you mean 'exact'?)"),
            (replace(EASY, judge="model"), "judge.model is missing"),
        ],
    )
    def test_a_task_that_cannot_be_asked(self, market: Settings, task: Task, words: str) -> None:
        with pytest.raises(UserError) as caught:
            build(market).prepare([HARD, task])
        assert words in str(caught.value)

    def test_a_task_without_a_recorded_answer(self, configure: Configure, tmp_path: Path) -> None:
        row = {"question": EASY.question, "answer": "Lima", "cost_usd": 0.004}
        (tmp_path / "answers.jsonl").write_text(json.dumps(row), encoding="utf-8")
        assembly = build(load_settings(configure(RECORDED)))
        assert assembly.prepare([EASY])
        with pytest.raises(
            UserError, match=r"models.old: no recorded answer to 1 of the tasks \('hard'\); record them"
        ):
            assembly.prepare([EASY, HARD])

    async def test_the_tools_of_a_task(self, market: Settings) -> None:
        environment = build(market).make_environment(replace(EASY, tools=("notes",)), 0)
        assert [tool.name for tool in (await environment.reset()).tools] == ["notes"]

    async def test_a_question_without_an_answer_is_not_judged(self, market: Settings) -> None:
        async with build(market) as assembly:
            task = assembly.question("What now?")
        trajectory = await play(market, task, "This one")
        assert (trajectory.solved, trajectory.answer) == (None, "This one")

    async def test_the_settings_judge_replaces_the_tasks(self, configure: Configure) -> None:
        settings = load_settings(configure('orchestrator: {model: "rule:random"}\njudge: {kind: number}'))
        trajectory = await play(settings, replace(EASY, answer="1000"), "It is 1,000 in all")
        assert (trajectory.solved, trajectory.outcome and trajectory.outcome.judge) == (True, "number")

    async def test_a_model_judges(self, configure: Configure) -> None:
        async with MockChatServer([MockReply("correct: yes\nconfidence: 100%")]) as server:
            settings = load_settings(configure(chat_model(server.base_url) + "judge: {kind: model, model: big}\n"))
            trajectory = await play(settings, EASY, "the capital, Lima")
        assert trajectory.solved is True
        assert trajectory.cost_usd == 0  # judging is reported apart


class TestPrices:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (
                'orchestrator: {model: m-1, base_url: "http://x/v1"}\nprices: {base: null}\n',
                "orchestrator: no price is known for the model 'm-1'",
            ),
            (
                'orchestrator: {model: "rule:random"}\nprices: {base: null}\n'
                'models: {a: {base_url: "http://x/v1", model: m-1}}\ntools: {ask: {kind: model, model: a}}\n',
                "models.a: no price is known for the model 'm-1'",
            ),
            ("orchestrator: {model: smollm2}\n", "orchestrator: no price is stated for the model smollm2"),
        ],
    )
    def test_an_unpriced_model_is_refused(self, configure: Configure, text: str, words: str) -> None:
        with pytest.raises(UnpricedModelError) as caught:
            build(load_settings(configure(text)))
        assert words in str(caught.value)
        assert "free: true" in str(caught.value)
        assert caught.value.exit_code == 2

    def test_a_recorded_model_without_dollars_needs_a_price(self, configure: Configure, tmp_path: Path) -> None:
        row = {"question": EASY.question, "answer": "Lima", "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
        (tmp_path / "answers.jsonl").write_text(json.dumps(row), encoding="utf-8")
        with pytest.raises(UnpricedModelError, match=r"models\.old: no price is known for the model 'old'"):
            build(load_settings(configure(RECORDED)))

    def test_a_model_may_be_free_if_it_says_so(self, configure: Configure) -> None:
        settings = load_settings(
            configure("orchestrator: {model: smollm2, price: {free: true}}\nprices: {base: null}\n")
        )
        assert build(settings).prices.orchestrator.is_free

    def test_the_table_knows_public_models(self, configure: Configure) -> None:
        text = 'orchestrator: {model: mini, base_url: "http://x/v1", price_name: "openai:gpt-4o-mini"}'
        assert build(load_settings(configure(text))).prices.orchestrator.input == Decimal("0.15")

    def test_the_file_of_prices_wins_over_the_table(self, configure: Configure, tmp_path: Path) -> None:
        (tmp_path / "prices.yaml").write_text("gpt-4o-mini: {input: 7, output: 9}\n", encoding="utf-8")
        text = 'orchestrator: {model: gpt-4o-mini, base_url: "http://x/v1"}\nprices: {override: prices.yaml}\n'
        assert build(load_settings(configure(text))).prices.orchestrator.input == 7

    def test_the_record_holds_amounts_and_no_days(self, market: Settings) -> None:
        record = build(market).prices.to_json()
        assert record["small"] == {"input": Decimal("0.1"), "output": Decimal("0.4")}
        assert record["orchestrator"] == record["notes"] == {}


async def test_closing_leaves_no_connection_open(configure: Configure) -> None:
    async with MockChatServer([MockReply("Lima")] * 2) as server:
        async with build(load_settings(configure(chat_model(server.base_url)))) as assembly:
            await assembly.tools["ask"].make(EASY, 0).call({}, _context(EASY))
            connections = assembly._models["big"].connections
            assert connections is not None
            async with connections.slot() as session:
                assert not session.closed
        assert session.closed


RECORDED = """\
orchestrator: {model: "rule:always:ask"}
models: {old: {provider: recorded, path: answers.jsonl}}
tools: {ask: {kind: model, model: old}}
prices: {base: null}
"""


def chat_model(base_url: str) -> str:
    return (
        'orchestrator: {model: "rule:always:ask"}\n'
        "models:\n"
        f'  big: {{base_url: "{base_url}", price: {{input: 1, output: 2}}, temperature: 0.5, max_tokens: 64}}\n'
        "tools: {ask: {kind: model, model: big}}\n"
    )


def _context(task: Task, sample: int = 0) -> CallContext:
    return CallContext(task.question, sample=sample)
