from __future__ import annotations

import json
from typing import Any

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.messages import ROLES, Message, ToolCall, ToolSpec, message_from_wire, messages_from_wire

HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "4 C"},
]
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}"
    '<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>'
    "{% endfor %}\n{% endfor %}"
)


def test_parser_08_a_template_gets_the_arguments_as_an_object() -> None:
    messages = [message.for_template() for message in messages_from_wire(HISTORY)]
    rendered = jinja2.Environment(autoescape=False).from_string(TEMPLATE).render(messages=messages)
    assert '"arguments": {"city": "Oslo"}' in rendered
    assert '\\"city\\"' not in rendered


def test_the_wire_form_comes_back_as_it_was() -> None:
    assert [message.to_wire() for message in messages_from_wire(HISTORY)] == HISTORY


names = st.text(st.characters(categories=["Ll"]), min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
calls = st.builds(ToolCall, id=names, name=names, arguments=st.dictionaries(names, values, max_size=3))
messages = st.builds(
    Message,
    role=st.sampled_from(ROLES),
    content=st.text(),
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    tool_call_id=st.none() | names,
    name=st.none() | names,
)


@settings(max_examples=150, deadline=None)
@given(messages)
def test_every_message_survives_the_wire(message: Message) -> None:
    wire = json.loads(json.dumps(message.to_wire()))
    assert message_from_wire(wire) == message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [("{", "not valid JSON"), ("[1]", "not list"), ('"x"', "not str"), ([1], "not list"), ("[" * 100_000, "JSON")],
)
def test_arguments_that_are_no_object_are_an_error_for_the_model(arguments: Any, says: str) -> None:
    wire = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "t", "arguments": arguments}}]}
    call = message_from_wire(wire).tool_calls[0]
    assert call.error is not None
    assert says in call.error
    assert call.arguments == {}
    assert call.raw == (arguments if isinstance(arguments, str) else "")


def test_what_cannot_be_read_goes_back_as_written_and_the_rest_as_json() -> None:
    unreadable = ToolCall("c", "t", error="not JSON", raw="{oops")
    misfit = ToolCall("c", "t", {"n": 3}, error="does not fit")
    assert unreadable.to_wire()["function"]["arguments"] == "{oops"
    assert misfit.to_wire()["function"]["arguments"] == '{"n": 3}'
    assert misfit.for_template()["function"]["arguments"] == {"n": 3}


@pytest.mark.parametrize("arguments", ["", "  ", None, {}])
def test_no_arguments_are_an_empty_object(arguments: Any) -> None:
    wire = {"role": "assistant", "tool_calls": [{"function": {"name": "t", "arguments": arguments}}]}
    assert message_from_wire(wire).tool_calls == (ToolCall("call_0", "t", {}),)


def test_reasoning_is_read_and_kept_from_the_wire() -> None:
    message = message_from_wire({"role": "assistant", "content": "4", "reasoning_content": "2+2"})
    assert message.reasoning == "2+2"
    assert message.to_wire() == {"role": "assistant", "content": "4"}
    assert message.for_template()["reasoning_content"] == "2+2"


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert message_from_wire({"role": "user", "content": parts}).content == "ab"


@pytest.mark.parametrize(
    ("wire", "says"),
    [
        ({"role": "robot", "content": ""}, "system, user, assistant, tool"),
        ({"content": ""}, "role None"),
        ({"role": "user", "content": 3}, "content"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "content"),
    ],
)
def test_a_message_that_a_user_wrote_wrong_is_an_error(wire: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        message_from_wire(wire)


def test_a_spec_in_the_wire_form() -> None:
    assert ToolSpec("t", "does").to_wire() == {
        "type": "function",
        "function": {"name": "t", "description": "does", "parameters": {"type": "object", "properties": {}}},
    }
