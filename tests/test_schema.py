from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.messages import ToolCall, ToolSpec
from toolorchestra.parsing import check_arguments, check_spec


def spec(properties: dict[str, Any], **more: Any) -> ToolSpec:
    return ToolSpec("book", "Books a room.", {"type": "object", "properties": properties, **more})


def checked(tool: ToolSpec, **arguments: Any) -> ToolCall:
    check_spec(tool)
    return check_arguments(ToolCall("c", tool.name, arguments), tool)


@pytest.mark.parametrize(
    ("schema", "given_value", "expected"),
    [
        ({"type": "integer"}, "3", 3),
        ({"type": "integer"}, "3.0", 3),
        ({"type": "integer"}, " -12 ", -12),
        ({"type": "integer"}, 3.0, 3),
        ({"type": "number"}, "3.7", 3.7),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": ["integer", "null"]}, "null", None),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": 1.5}, "1.5", 1.5),
        ({"type": "array", "items": {"type": "integer"}}, ["1", 2], [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, '["1", 2]', [1, 2]),
        ({"type": "array", "prefixItems": [{"type": "boolean"}]}, ["true"], [True]),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": "3"}, {"n": 3}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"n": "3"}, {"n": 3}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "4", 4),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/room"}]}, {"no": "7"}, {"no": 7}),
        ({"$ref": "#/$defs/room"}, {"no": "7"}, {"no": 7}),
        ({"allOf": [{"type": ["integer", "string"]}, {"type": ["integer", "null"]}]}, "5", 5),
    ],
)
def test_strings_are_coerced_where_that_loses_nothing(schema: dict[str, Any], given_value: Any, expected: Any) -> None:
    defs = {"room": {"type": "object", "properties": {"no": {"type": "integer"}}}}
    call = checked(spec({"x": schema}, **{"$defs": defs}), x=given_value)
    assert call.error is None
    assert call.arguments == {"x": expected}
    assert type(call.arguments["x"]) is type(expected)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "3"),
        ({"type": ["string", "integer"]}, "3"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "3"),
        ({"enum": ["3", 3]}, "3"),
        ({}, "true"),
        ({"type": "number"}, 3.0),
    ],
)
def test_what_the_schema_allows_is_left_alone(schema: dict[str, Any], value: Any) -> None:
    call = checked(spec({"x": schema}), x=value)
    assert call.error is None
    assert call.arguments["x"] == value
    assert type(call.arguments["x"]) is type(value)


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        ({"type": "integer"}, "3.7", 'x must be integer, got "3.7" (a string)'),
        ({"type": "integer"}, "three", "x must be integer"),
        ({"type": "integer"}, "1e999999", "x must be integer"),
        ({"type": "integer"}, "9" * 10_000, "x must be integer"),
        ({"type": "number"}, "0.12345678901234567890123", "x must be number"),
        ({"type": "number"}, "1e400", "x must be number"),
        ({"type": "boolean"}, "yes", "x must be boolean"),
        ({"type": "string"}, 90210, "x must be string, got 90210 (an integer)"),
        ({"type": "integer"}, True, "x must be integer, got true (a boolean)"),
        ({"enum": ["a", "b"]}, "c", 'x must be one of ["a", "b"], got "c"'),
        ({"type": "integer", "minimum": 1}, "0", "x: 0 is less than the minimum of 1"),
        ({"type": "array", "uniqueItems": True}, [1, 1.0], "x must not contain the same item twice"),
        ({"type": "string", "pattern": "^[a-z]+$"}, "A", "x must match the pattern"),
        ({"type": "array", "items": {"type": "integer"}}, ["1", "b"], "x[1] must be integer"),
        ({"type": "array"}, '[1], "y": [2]', "x must be array"),
    ],
)
def test_a_misfit_says_which_argument_what_was_expected_and_what_was_given(
    schema: dict[str, Any], value: Any, says: str
) -> None:
    call = checked(spec({"x": schema}), x=value)
    assert call.error is not None
    assert says in call.error
    assert "book" in call.error
    assert len(call.error) < 500


def test_missing_and_unknown_arguments_are_named() -> None:
    tool = spec({"room": {"type": "string"}}, required=["room"], additionalProperties=False)
    call = checked(tool, rom="a")
    assert call.error is not None
    assert "'room' is missing" in call.error
    assert "unknown key 'rom'; the keys are: room" in call.error


def test_items_that_are_not_equal_are_unique() -> None:
    tool = spec({"x": {"uniqueItems": True}})
    assert checked(tool, x=[1, True, "1", [1], {"a": 1}, {"a": True}]).error is None
    assert checked(tool, x=[{"a": 1, "b": 2}, {"b": 2, "a": 1.0}]).error is not None


def test_pattern_properties_are_checked() -> None:
    tool = spec({}, patternProperties={"^n_": {"type": "integer"}}, additionalProperties=False)
    assert checked(tool, n_a=1).error is None
    assert "n_a must be integer" in (checked(tool, n_a="x").error or "")
    assert "unknown key 'm'" in (checked(tool, m=1).error or "")


def test_a_call_with_an_error_is_left_alone() -> None:
    call = ToolCall("c", "book", error="broken", raw="{")
    assert check_arguments(call, spec({})) is call


def test_a_catastrophic_pattern_and_large_lists_are_bounded_in_time() -> None:
    start = time.monotonic()
    call = checked(spec({"x": {"pattern": "^(a|a)+$"}}), x="a" * 40 + "!")
    assert "too irregular" in (call.error or "")
    assert checked(spec({"x": {"pattern": "a"}}), x="a" * 1_000_000).error is not None
    assert checked(spec({"x": {"uniqueItems": True}}), x=[{"a": number} for number in range(20_000)]).error is None
    assert time.monotonic() - start < 3


def test_a_schema_that_contains_itself_is_followed_as_deep_as_the_value() -> None:
    tree = {"type": "object", "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/$defs/tree"}}}
    tool = spec({"tree": {"$ref": "#/$defs/tree"}}, **{"$defs": {"tree": tree}})
    call = checked(tool, tree={"n": "1", "next": {"n": "2"}})
    assert call.arguments == {"tree": {"n": 1, "next": {"n": 2}}}
    deep: dict[str, Any] = {}
    for _ in range(2_000):
        deep = {"next": deep}
    assert "too deep" in (checked(tool, tree=deep).error or "")


def test_references_that_only_lead_to_each_other_are_found() -> None:
    loop = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    with pytest.raises(UserError, match="leads nowhere"):
        check_spec(spec({"x": {"$ref": "#/$defs/a"}}, **{"$defs": loop}))


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        (ToolSpec("a b", ""), "rename it"),
        (ToolSpec("", ""), "rename it"),
        (ToolSpec("a\n", ""), "rename it"),
        (ToolSpec("x" * 65, ""), "rename it"),
        (ToolSpec("book", "", {}), '"type": "object"'),
        (ToolSpec("book", "", {"type": "string"}), '"type": "object"'),
        (ToolSpec("book", "", {"type": "object", "properties": []}), "parameters.properties is not valid JSON Schema"),
        (spec({"x": {"type": "text"}}), "parameters.properties.x.type is not valid JSON Schema"),
        (spec({"x": {"pattern": "("}}), "parameters.properties.x: '(' is no regular expression"),
        (spec({}, patternProperties={"(": {}}), "no regular expression"),
        (spec({"x": {"$ref": "https://example.com/schema.json"}}), "nothing is fetched"),
        (spec({"x": {"$ref": "#/$defs/room"}}), "leads nowhere"),
        (spec({"x": {"default": {1, 2}}}), "not JSON"),
        (spec({"x": {"minimum": float("nan")}}), "not JSON"),
        (spec({"x": {"description": "d" * 300_000}}), "shorten it"),
    ],
)
def test_a_spec_that_cannot_be_offered_names_the_tool_and_the_fix(tool: ToolSpec, says: str) -> None:
    with pytest.raises(UserError) as caught:
        check_spec(tool)
    assert says in str(caught.value)
    assert f"tool {tool.name[:80]!r}" in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
kinds = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])


@settings(max_examples=200, deadline=None)
@given(json_values | st.integers().map(str) | st.floats().map(repr), st.lists(kinds, min_size=1, unique=True))
def test_coercion_changes_only_strings_that_are_forbidden(value: Any, types: list[str]) -> None:
    call = check_arguments(ToolCall("c", "book", {"x": value}), spec({"x": {"type": types}}))
    again = check_arguments(ToolCall("c", "book", call.arguments), spec({"x": {"type": types}}))
    assert again.arguments == call.arguments
    if call.arguments["x"] != value:
        assert isinstance(value, str)
        assert "string" not in types
        assert call.error is None
    json.dumps(dict(call.arguments), allow_nan=False)
