from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from toolorchestra.environments.qa import NO_ANSWER, SUBMIT, QuestionEnvironment
from toolorchestra.errors import UserError
from toolorchestra.judges import Verdict, make_judge
from toolorchestra.limits import Limits
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.preferences import Preference
from toolorchestra.rollout import run_episode
from toolorchestra.tasks import Task
from toolorchestra.trajectory import Action, Charge, ToolResult, Trajectory

TASK = Task("t", "What is the capital of France?", "Paris", aliases=("Lutetia",), preference=Preference("Be quick."))


@dataclass
class Scripted:
    """A tool that returns what it is told to and remembers how it was called."""

    name: str
    result: ToolResult
    contexts: list[Any] = field(default_factory=list)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "a tool")

    async def call(self, arguments: Mapping[str, Any], context: Any) -> ToolResult:
        self.contexts.append(context)
        return self.result


def tool(name, content, *, latency_s=1.0, **changes):
    charge = Charge(name, Decimal("0.001"), latency_s)
    return Scripted(name, ToolResult(content, (charge,), latency_s, **changes))


def calls(*names_and_arguments):
    made = tuple(ToolCall(f"c{index}", name, arguments) for index, (name, arguments) in enumerate(names_and_arguments))
    return Action(Message("assistant", tool_calls=made), latency_s=0.0)


def says(content):
    return Action(Message("assistant", content), latency_s=0.0)


def submits(number):
    return calls((SUBMIT, {"result": number}))


def environment(*tools, submit=True, judge=None, **changes):
    return QuestionEnvironment(TASK, tools, judge or make_judge("exact"), submit=submit, **changes)


class Player:
    """Plays actions in order, and keeps what it was shown."""

    virtual_clock = True

    def __init__(self, *actions):
        self.actions = list(actions)
        self.offers = []

    async def act(self, history, tools):
        self.offers.append([spec.name for spec in tools])
        return self.actions.pop(0)


async def play(world, *actions):
    player = Player(*actions)
    trajectory = await run_episode(
        player, world, task=TASK, sample=0, group="g", policy_name="p", limits=Limits(turns=10)
    )
    return trajectory, player


async def test_the_first_messages_are_short_and_carry_the_wish():
    opening = await environment(tool("a", "x")).reset()
    assert [(message.role, message.content) for message in opening.messages] == [
        ("system", "Answer the question. Use the tools."),
        ("user", "What is the capital of France?\nBe quick."),
    ]
    assert [spec.name for spec in opening.tools] == ["a"]
    bare = await environment(tool("a", "x"), system_prompt="").reset()
    assert [message.role for message in bare.messages] == ["user"]


@pytest.mark.parametrize("submit", [True, False])
@pytest.mark.parametrize(("content", "solved"), [("Paris", True), ("lutetia", True), ("Rome", False)])
async def test_text_without_calls_is_the_answer_in_both_modes(submit, content, solved):
    trajectory, _ = await play(environment(tool("a", "x"), submit=submit), says(content))
    assert (trajectory.solved, trajectory.answer, trajectory.status) == (solved, content, "done")
    assert trajectory.outcome.judge == "exact"


async def test_results_are_numbered_through_the_episode_and_submitted_by_number():
    first, second = tool("a", "Rome", latency_s=2.0), tool("b", "Paris", latency_s=5.0)
    trajectory, player = await play(
        environment(first, second), calls(("a", {}), ("b", {})), calls(("a", {})), submits("2")
    )
    shown = [message.content for message in trajectory.messages if message.role == "tool"]
    assert shown == ["[1] Rome", "[2] Paris", "[3] Rome"]
    assert trajectory.solved is True
    assert trajectory.latency_s == 7.0, "calls made in parallel count once"
    assert trajectory.cost_usd == Decimal("0.003")
    assert trajectory.calls == {"a": 2, "b": 1}, "handing in is no call of a tool"
    assert player.offers == [["a", "b"], ["a", "b", SUBMIT], ["a", "b", SUBMIT]]


async def test_only_usable_results_can_be_submitted():
    broken = tool("a", "Error: down", error="down")
    world = environment(broken, tool("b", "Paris"))
    await world.reset()
    first = await world.step(calls(("a", {})))
    assert [spec.name for spec in first.tools] == ["a", "b"], "nothing usable yet"
    second = await world.step(calls(("b", {})))
    spec = second.tools[-1]
    assert spec.parameters["properties"]["result"] == {"type": "string", "enum": ["2"]}


@pytest.mark.parametrize("number", ["1", "3", "0", "x", None])
async def test_a_number_without_a_usable_result_is_answered_in_words(number):
    world = environment(tool("a", "Error: down", error="down"), tool("b", "Paris"))
    trajectory, _ = await play(world, calls(("a", {}), ("b", {})), submits(number), submits("2"))
    refusal = [message.content for message in trajectory.messages if message.role == "tool"][-1]
    assert refusal == "[3] Error: result must be one of 2"
    assert trajectory.solved is True


async def test_submitting_before_there_is_anything_is_answered_in_words():
    trajectory, _ = await play(environment(tool("a", "x")), submits("1"), says("Paris"))
    assert "there is no result to submit yet" in trajectory.messages[-2].content
    assert trajectory.solved is True


async def test_a_turn_that_submits_ends_the_episode_and_carries_nothing_else_out():
    other = tool("b", "Rome")
    trajectory, _ = await play(
        environment(tool("a", "Paris"), other), calls(("a", {})), calls(("b", {}), (SUBMIT, {"result": "1"}))
    )
    assert trajectory.solved is True
    assert other.contexts == []


async def test_the_answer_of_a_result_is_its_data_then_its_content_read_by_the_reader():
    spoken = tool("a", "I think it is Paris!", data={"answer": "Paris, probably"})
    world = environment(spoken, read_answer=lambda text: text.split(",")[0])
    trajectory, _ = await play(world, calls(("a", {})), submits("1"))
    assert trajectory.answer == "Paris"


async def test_without_submit_mode_the_tool_does_not_exist():
    trajectory, player = await play(
        environment(tool("a", "x"), submit=False), calls(("a", {})), submits("1"), says("Paris")
    )
    assert player.offers == [["a"]] * 3
    assert "there is no tool 'submit_answer'" in trajectory.messages[-2].content


async def test_tools_know_the_question_the_sample_and_what_came_before():
    second = tool("b", "x")
    await play(environment(tool("a", "Paris"), second, sample=3), calls(("a", {})), calls(("b", {})), says("Paris"))
    (context,) = second.contexts
    assert (context.question, context.sample) == (TASK.question, 3)
    assert [message.content for message in context.history if message.role == "tool"] == ["[1] Paris"]


@pytest.mark.parametrize("content", ["", "  \n"])
async def test_an_empty_answer_is_wrong_and_says_so(content):
    world = environment(tool("a", "x"))
    await world.reset()
    assert (await world.step(says(content))).done
    outcome = await world.score(Trajectory("t", 0, "g", "p"))
    assert (outcome.solved, outcome.reason, outcome.answer) == (False, NO_ANSWER, None)


async def test_an_episode_that_a_limit_ended_without_an_answer_is_unsolved():
    player = Player(*[calls(("a", {}))] * 3)
    trajectory = await run_episode(
        player, environment(tool("a", "x")), task=TASK, sample=0, group="g", policy_name="p", limits=Limits(turns=2)
    )
    assert (trajectory.status, trajectory.solved, trajectory.outcome.reason) == ("limit", False, NO_ANSWER)


class Abstainer:
    name = "abstainer"

    async def judge(self, question, answer, gold):
        assert gold == ("Paris", "Lutetia")
        return Verdict(None, "cannot say", (Charge("judge", Decimal("0.1")),))


async def test_where_the_judge_abstains_nobody_says_right_or_wrong():
    trajectory, _ = await play(environment(tool("a", "x"), judge=Abstainer()), says("Paris"))
    assert trajectory.solved is None
    assert (trajectory.outcome.judge, trajectory.outcome.reason) == ("abstainer", "cannot say")
    assert trajectory.cost_usd == 0, "judging is not part of the trajectory's cost"


async def test_an_environment_can_be_reset():
    world = environment(tool("a", "Paris"))
    await world.reset()
    await world.step(calls(("a", {})))
    assert [spec.name for spec in (await world.reset()).tools] == ["a"]
    assert (await world.step(calls(("a", {})))).messages[0].content == "[1] Paris"


def test_names_that_clash_are_named():
    with pytest.raises(UserError, match="two tools have the same name"):
        environment(tool("a", "x"), tool("a", "y"))
    with pytest.raises(UserError, match="a tool is called 'submit_answer'"):
        environment(tool(SUBMIT, "x"))
    environment(tool(SUBMIT, "x"), submit=False)
