"""A model as a tool: what it sees and what comes back."""

from collections.abc import Sequence
from decimal import Decimal

import pytest

from toolorchestra.errors import RetryableError, UserError
from toolorchestra.messages import Message, ToolCall, ToolSpec
from toolorchestra.models.base import Completion, Sampling
from toolorchestra.tools import CallContext, ModelTool
from toolorchestra.trajectory import Charge

CHARGE = Charge("expert", Decimal("0.01"), 1.5)
HISTORY = (
    Message("user", "What is the capital of the country where X was born?"),
    Message("assistant", "let me look", "secret thoughts", (ToolCall("c1", "search", {"query": "X"}),)),
    Message("tool", "X was born in Peru.", tool_call_id="c1"),
    Message("tool", "42", tool_call_id="c2", name="code"),
    Message("tool", "  ", tool_call_id="c3", name="empty"),
)
CONTEXT = CallContext(question="the task", history=HISTORY)


class Scripted:
    """A model that replies from a list and keeps what it was asked."""

    name = "expert"

    def __init__(self, *replies: Completion | Exception) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[list[Message], Sequence[ToolSpec], Sampling]] = []

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec] = (), sampling: Sampling = Sampling()
    ) -> Completion:
        self.asked.append((list(messages), tools, sampling))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def reply(text: str, finish_reason: str = "stop") -> Completion:
    return Completion(Message("assistant", text, "model thoughts"), (CHARGE,), 1.5, finish_reason, "expert-1")


async def test_the_answer_with_its_charges_and_seconds() -> None:
    model = Scripted(reply(" Lima \n"))
    sampling = Sampling(temperature=0.5)
    result = await ModelTool("ask", model, "Knows.", sampling=sampling).call({"question": "Capital?"}, CONTEXT)
    assert (result.content, result.charges, result.latency_s, result.error) == ("Lima", (CHARGE,), 1.5, None)
    assert result.data == {"answer": "Lima", "model": "expert-1"}
    _, tools, used = model.asked[0]
    assert (tools, used) == ((), sampling)


async def test_it_sees_question_and_results_but_no_thoughts() -> None:
    model = Scripted(reply("x"))
    await ModelTool("ask", model, "Knows.", prompt="Be brief.").call({"question": "Capital?"}, CONTEXT)
    system, user = model.asked[0][0]
    assert (system.role, system.content) == ("system", "Be brief.")
    assert user.content.endswith("\n\n[search]\nX was born in Peru.\n\n[code]\n42\n\nQuestion: Capital?")
    assert "secret" not in user.content
    assert "let me look" not in user.content


async def test_without_results_the_message_is_the_question() -> None:
    model = Scripted(reply("x"), reply("x"))
    await ModelTool("ask", model, "Knows.", share_results=False, prompt="").call({"question": "Capital?"}, CONTEXT)
    await ModelTool("ask", model, "Knows.").call({"question": "Capital?"}, CallContext())
    assert [message.content for message in model.asked[0][0]] == ["Capital?"]
    assert model.asked[1][0][-1].content == "Capital?"


@pytest.mark.parametrize("arguments", [{}, {"question": "  "}])
async def test_a_question_that_is_left_out_is_the_tasks(arguments: dict[str, str]) -> None:
    model = Scripted(reply("x"))
    await ModelTool("ask", model, "Knows.", share_results=False).call(arguments, CONTEXT)
    assert model.asked[0][0][-1].content == "the task"


async def test_a_tool_without_question_passes_the_tasks() -> None:
    model = Scripted(reply("x"))
    tool = ModelTool("ask", model, "Knows.", takes_question=False, share_results=False)
    assert tool.spec.parameters["properties"] == {}
    await tool.call({"question": "another"}, CONTEXT)
    assert model.asked[0][0][-1].content == "the task"


async def test_no_question_at_all_is_an_error_and_costs_nothing() -> None:
    model = Scripted()
    result = await ModelTool("ask", model, "Knows.").call({}, CallContext())
    assert (result.error, result.charges, model.asked) == ("no question", (), [])


@pytest.mark.parametrize("room", [1, 10, 25, 30, 1_000])
async def test_results_are_bounded_and_the_newest_kept(room: int) -> None:
    history = tuple(Message("tool", letter * 10, name=letter) for letter in "abc")
    model = Scripted(reply("x"))
    tool = ModelTool("ask", model, "Knows.", results_chars=room)
    await tool.call({"question": "?"}, CallContext(history=history))
    content = model.asked[0][0][-1].content
    kept = {letter: content.count(letter * 5) for letter in "abc"}
    letters = content.partition("wrong.")[2].rpartition("Question")[0]
    assert sum(letters.count(letter) for letter in "abc") <= room + 3
    assert kept["c"] == (2 if room >= 10 else 0)
    assert ("[a]" in content) == (room > 20)


async def test_an_empty_reply_is_an_error_that_was_paid() -> None:
    model = Scripted(reply(" \n"), reply("", finish_reason="length"))
    tool = ModelTool("ask", model, "Knows.")
    first, second = [await tool.call({}, CONTEXT) for _ in range(2)]
    assert (first.error, first.charges, first.latency_s) == ("empty reply", (CHARGE,), 1.5)
    assert second.error == "empty reply (it was cut at its token limit)"
    assert "no answer" in first.content


async def test_a_lost_connection_leaves_as_missing_data() -> None:
    with pytest.raises(RetryableError, match="overloaded"):
        await ModelTool("ask", Scripted(RetryableError("overloaded")), "Knows.").call({}, CONTEXT)


def test_price_and_seconds_are_described() -> None:
    tool = ModelTool("ask", Scripted(), "Knows much.", usd_per_call=Decimal("0.002"), latency_s=4)
    assert tool.spec.description == "Knows much. $2 per 1k calls, ~4 s."
    assert tool.spec.parameters["required"] == []


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UserError, match="tool name"):
        ModelTool("ask me", Scripted(), "x")
    with pytest.raises(UserError, match="results_chars"):
        ModelTool("ask", Scripted(), "x", results_chars=0)
