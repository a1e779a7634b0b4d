from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.messages import ToolSpec
from toolorchestra.parsing import check_arguments, check_spec, parse_output
from toolorchestra.policies.tokens import grammar
from toolorchestra.policies.tokens.format import CompactChatML
from toolorchestra.policies.tokens.grammar import CallConstraint, Forced, call_segments, finite_values
from toolorchestra.policies.tokens.guidance import GuidanceMatchers


@pytest.fixture(scope="module")
def chat(tokenizer):
    return CompactChatML(tokenizer)


@pytest.fixture(scope="module")
def constrain(tokenizer, chat):
    matchers = GuidanceMatchers(tokenizer)
    return lambda tools: CallConstraint(call_segments(tools), chat.encode, matchers, chat.end)


def spec(name, properties, required=None, **more):
    needed = list(properties) if required is None else list(required)
    parameters = {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}
    return ToolSpec(name, "", {**parameters, **more})


CLOSING = ('"', "b", "]", "}", ",", "0")


def closing(options, chat):
    texts = {token: chat.decode([token]) for token in options}
    return next((token for start in CLOSING for token in options if texts[token].startswith(start)), options[0])


def walk(constraint, chat, rng, *, vocabulary, patience=12):
    """Random choices; after a while those that come to an end."""
    ids, picks = [], 0
    while (need := constraint.need()) is not None:
        if isinstance(need, Forced):
            assert need.ids, "nothing forced is no need"
            chosen = need.ids
        else:
            listed = set(need.allowed.ids)
            options = [token for token in range(vocabulary) if (token in listed) == need.allowed.only]
            assert len(options) > 1, "a choice of one is no choice"
            picks += 1
            chosen = (closing(options, chat) if picks > patience else int(rng.choice(options)),)
        ids.extend(chosen)
        constraint.commit(chosen)
    return ids


def choices_of(constrain, tools, path):
    """Replay a path of choices; the next options, or the text when the call is complete."""
    constraint, ids, left = constrain(tools), [], list(path)
    while (need := constraint.need()) is not None:
        if isinstance(need, Forced):
            chosen = need.ids
        elif left:
            chosen = (left.pop(0),)
        else:
            assert need.allowed.only
            return need.allowed.ids, ids
        ids.extend(chosen)
        constraint.commit(chosen)
    return None, ids


def every_call(constrain, chat, tools):
    """All token paths through a finite grammar, as texts."""
    found, open_paths = [], [()]
    while open_paths:
        path = open_paths.pop()
        options, ids = choices_of(constrain, tools, path)
        if options is None:
            found.append(chat.decode(ids))
        else:
            open_paths += [(*path, option) for option in options]
    return found


def call(name, **arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


names = st.sampled_from(["a", "ask", "ask_more", "n", "nu", "x-1", "ergebnis", "größe", 'q"uote', "back\\slash"])
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=6)
finite = st.one_of(
    st.lists(st.one_of(texts, st.integers(-5, 150), st.booleans(), st.none()), min_size=1, max_size=4).map(
        lambda values: {"enum": values}
    ),
    st.integers(-3, 3).map(lambda value: {"const": value}),
    st.just({"const": {"k": ["v", 1]}}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.tuples(st.integers(-12, 3), st.integers(0, 120)).map(
        lambda pair: {"type": "integer", "minimum": pair[0], "maximum": pair[0] + pair[1]}
    ),
)
free = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "maxLength": 5},
        {"type": "string", "pattern": "^[a-c]{2,4}$"},
        {"type": "string", "pattern": "b"},
        {"type": "integer"},
        {"type": "integer", "minimum": 5},
        {"type": "number", "minimum": -1000, "maximum": 1000},
        {"type": ["integer", "null"]},
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        {"type": "array", "items": {"enum": ["p", "pq"]}, "minItems": 1, "maxItems": 2},
        {"$ref": "#/$defs/point"},
    ]
)
leaves = st.one_of(finite, free)
nested = st.dictionaries(names, leaves, min_size=1, max_size=2).map(
    lambda fields: {
        "type": "object",
        "properties": fields,
        "required": list(fields)[:1],
        "additionalProperties": False,
    }
)
POINT = {"$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}}
POINT["$defs"]["point"]["additionalProperties"] = False


@st.composite
def tool_specs(draw):
    tools = []
    for name in draw(st.lists(st.sampled_from(["ask", "ask_more", "as", "find", "f"]), min_size=1, unique=True)):
        properties = draw(st.dictionaries(names, st.one_of(leaves, nested), max_size=3))
        required = [each for each in properties if draw(st.booleans())]
        tools.append(spec(name, properties, required, **POINT))
    return tools


@given(tool_specs(), st.integers(0, 2**32 - 1))
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_chosen_is_one_well_formed_call(tokenizer, chat, constrain, tools, seed):
    for tool in tools:
        check_spec(tool)
    rng = np.random.default_rng(seed)
    ids = walk(constrain(tools), chat, rng, vocabulary=len(tokenizer))
    assert ids[-1] == chat.end
    assert not set(ids[:-1]) & set(tokenizer.all_special_ids)
    parsed = parse_output(chat.decode(ids), tools)
    assert [made.error for made in parsed.calls] == [None]
    assert not parsed.content
    assert not parsed.warnings
    [made] = parsed.calls
    [tool] = [tool for tool in tools if tool.name == made.name]
    assert check_arguments(made, tool).error is None


def test_every_alternative_is_one_token_path(constrain, chat):
    # Names and values of which one begins like another, optional arguments, nothing forced among the choices.
    tools = [
        spec("ask", {"n": {"enum": [1, 12, 123]}}),
        spec("ask_more", {"deep": {"type": "boolean"}, "n": {"enum": [1, 12]}}, required=()),
        spec("as", {}),
    ]
    expected = [call("ask", n=value) for value in (1, 12, 123)]
    expected += [call("ask_more"), call("as")]
    expected += [call("ask_more", deep=value) for value in (True, False)]
    expected += [call("ask_more", n=value) for value in (1, 12)]
    expected += [call("ask_more", deep=deep, n=value) for deep in (True, False) for value in (1, 12)]
    assert sorted(every_call(constrain, chat, tools)) == sorted(expected)


def test_a_value_that_another_continues_may_be_followed_by_an_option(constrain, chat):
    tools = [spec("f", {"n": {"enum": [1, 12, 2]}, "m": {"enum": ["x", "y"]}}, required=("n",))]
    values = every_call(constrain, chat, tools)
    assert len(values) == len(set(values)) == 9
    assert call("f", n=1) in values
    assert call("f", n=12, m="y") in values


def test_a_single_way_has_no_choice_at_all(constrain, chat):
    assert every_call(constrain, chat, [spec("f", {"a": {"const": "x"}})]) == [call("f", a="x")]


def test_keys_inside_a_value_are_forced_in_their_usual_tokens(constrain, chat):
    inner = {
        "type": "object",
        "properties": {"alphabet": {"enum": ["x", "y"]}},
        "required": ["alphabet"],
        "additionalProperties": False,
    }
    tools = [spec("f", {"o": {"type": "array", "items": inner, "minItems": 1, "maxItems": 1}})]
    assert sorted(every_call(constrain, chat, tools)) == [call("f", o=[{"alphabet": value}]) for value in "xy"]


def test_the_order_is_the_schemas_and_so_is_the_spacing(constrain, chat):
    tools = [spec("f", {"b": {"enum": [1]}, "a": {"enum": [2, 3]}})]
    assert sorted(every_call(constrain, chat, tools)) == [call("f", b=1, a=2), call("f", b=1, a=3)]


@pytest.mark.parametrize(
    "parameters",
    [
        {"properties": {"a": {"enum": ["u", "v"]}, "b": {"$ref": "#/properties/a"}}, "required": ["b"]},
        {"properties": {"a": {"type": "integer"}}, "required": ["a", "elsewhere"]},
        {"properties": {"a": {"enum": [1, 2]}}, "anyOf": [{"required": ["a"]}], "additionalProperties": False},
        {"properties": {"a": True, "b": False, "c": {"enum": [1, 2]}}, "required": ["c"]},
        {"properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "title": "F", "description": "notes only"},
    ],
)
def test_schemas_that_tie_arguments_together_are_kept_too(tokenizer, chat, constrain, parameters):
    tool = ToolSpec("f", "", {"type": "object", **parameters})
    check_spec(tool)
    for seed in range(15):
        ids = walk(constrain([tool]), chat, np.random.default_rng(seed), vocabulary=len(tokenizer))
        [made] = parse_output(chat.decode(ids), [tool]).calls
        assert made.error is None or "too large" in made.error


def test_a_number_that_no_machine_holds_is_readable_all_the_same(constrain, chat):
    # JSON has no bound on exponents, so the grammar has none either.
    tools, ids = [spec("f", {"a": {"type": "number"}})], []
    constraint, wanted = constrain(tools), [*chat.encode("1"), *chat.encode("e"), *chat.encode("9") * 4]
    while (need := constraint.need()) is not None:
        if isinstance(need, Forced):
            chosen = need.ids
        else:
            chosen = (wanted.pop(0) if wanted else next(t for t in need.allowed.ids if "}" in chat.decode([t])),)
        ids.extend(chosen)
        constraint.commit(chosen)
    [made] = parse_output(chat.decode(ids), tools).calls
    assert "too large" in made.error


@pytest.mark.parametrize(
    "schema",
    [{"not": {"type": "string"}}, {"type": "string", "format": "made-up"}, {"type": "array", "uniqueItems": True}],
)
def test_a_schema_that_no_grammar_can_follow_is_the_users_to_change(constrain, schema):
    constraint = constrain([spec("f", {"a": schema})])
    opening = constraint.need()
    with pytest.raises(UserError, match="cannot be decoded under a grammar"):
        constraint.commit(opening.ids)


def test_no_tool_is_no_grammar():
    with pytest.raises(UserError, match="at least one tool"):
        call_segments([])


def test_a_value_without_end_is_cut_and_the_call_is_malformed(monkeypatch, constrain, chat):
    monkeypatch.setattr(grammar, "MAX_FREE_TOKENS", 20)
    tools = [spec("f", {"a": {"type": "string"}, "b": {"type": "string"}})]
    constraint, ids = constrain(tools), []
    [letter] = chat.encode("x")
    [quote] = chat.encode('"')
    while (need := constraint.need()) is not None:
        inside = not isinstance(need, Forced) and (letter in need.allowed.ids) == need.allowed.only
        chosen = need.ids if isinstance(need, Forced) else (letter if inside else quote,)
        ids.extend(chosen)
        constraint.commit(chosen)
        assert len(ids) < 200
    assert chat.end not in ids
    [made] = parse_output(chat.decode(ids), tools, finish_reason="length").calls
    assert made.error is not None


def test_a_token_that_is_not_allowed_is_refused(constrain, chat):
    constraint = constrain([spec("ask", {}), spec("find", {})])
    constraint.need()
    with pytest.raises(ValueError, match="not allowed"):
        constraint.commit((chat.end,))


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"enum": ["a", "a", 1]}, ('"a"', "1")),
        ({"const": None}, ("null",)),
        ({"type": "boolean"}, ("true", "false")),
        ({"type": "integer", "minimum": 1, "maximum": 3}, ("1", "2", "3")),
        ({"type": "integer", "minimum": 0, "maximum": 256}, None),
        ({"type": "integer", "minimum": 1, "maximum": 3, "multipleOf": 2}, None),
        ({"type": "integer", "minimum": 3, "maximum": 1}, None),
        ({"type": "string"}, None),
        ({}, None),
        (True, None),
    ],
)
def test_which_schemas_have_few_values(schema, values):
    assert finite_values(schema) == values
