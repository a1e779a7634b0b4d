from __future__ import annotations

import gzip
import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolorchestra.messages import ToolSpec, message_from_wire
from toolorchestra.parsing import (
    MAX_CALLS,
    AllWasReasoning,
    CallArguments,
    CallEnd,
    CallStart,
    ContentDelta,
    ParsedOutput,
    StreamEvent,
    StreamParser,
    collect,
    parse_output,
)
from toolorchestra.parsing.call_json import MAX_DEPTH

DATA = Path(os.environ.get("TOOLORCHESTRA_DATA", Path(__file__).parents[2] / "shared" / "data"))

SEARCH = ToolSpec(
    "search",
    "Finds pages.",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}, "top": {"type": "integer"}},
        "required": ["query"],
        "additionalProperties": False,
    },
)
CLOCKS = ToolSpec("list_clocks", "Lists clocks.")
TOOLS = (SEARCH, CLOCKS)


def call_text(name: str, arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def streamed(
    pieces: list[str], tools: tuple[ToolSpec, ...] = (), *, finish: str = "stop", thinking: bool = False
) -> tuple[ParsedOutput, list[StreamEvent], tuple[str, ...]]:
    parser = StreamParser(tools, thinking=thinking)
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.finish(finish)
    return collect(events), events, parser.warnings


def assert_same_for_every_cut(
    text: str, tools: tuple[ToolSpec, ...] = (), *, finish: str = "stop", thinking: bool = False
) -> ParsedOutput:
    """The whole parse equals the parse of every 1-cut and of single characters, down to the argument deltas."""
    whole = parse_output(text, tools, finish_reason=finish, thinking=thinking)
    cuts = [[text[:cut], text[cut:]] for cut in range(len(text) + 1)]
    for pieces in [*cuts, list(text), [text]]:
        assert_same(whole, pieces, tools, finish=finish, thinking=thinking)
    return whole


def assert_same(
    whole: ParsedOutput, pieces: list[str], tools: tuple[ToolSpec, ...], *, finish: str, thinking: bool
) -> None:
    parsed, events, warnings = streamed(pieces, tools, finish=finish, thinking=thinking)
    assert (parsed.reasoning, parsed.content, parsed.calls) == (whole.reasoning, whole.content, whole.calls), pieces
    assert warnings == whole.warnings
    pieces_by_call: dict[int, str] = {}
    for event in events:
        if isinstance(event, CallStart):
            pieces_by_call[event.index] = ""
        elif isinstance(event, CallArguments):
            pieces_by_call[event.index] += event.text
        elif isinstance(event, CallEnd):
            assert json.loads(pieces_by_call[event.index]) == event.call.arguments
            assert event.call.id == f"call_{event.index}"


# Cases seen in other parsers


def test_parser_01_a_call_without_arguments_streams_an_empty_object() -> None:
    text = '<tool_call>\n{"name": "list_clocks", "arguments": {}}\n</tool_call>'
    parsed = assert_same_for_every_cut(text, TOOLS)
    assert [(call.name, call.arguments, call.error) for call in parsed.calls] == [("list_clocks", {}, None)]
    assert parsed.content == ""
    assert parsed.finish_reason == "tool_calls"
    chunks = ['<tool_call>\n{"name": "list_clo', 'cks", "argum', 'ents": {', "}}\n", "</tool_call>"]
    _, events, _ = streamed(chunks, TOOLS)
    assert events == [CallStart(0, "call_0", "list_clocks"), CallArguments(0, "{}"), CallEnd(0, parsed.calls[0])]


def test_parser_02_inner_braces_are_not_the_outer_one() -> None:
    text = '<tool_call>{"name":"book_room","arguments":{"room":{"wing":"B","no":7},"nights":2}}</tool_call>'
    parsed = assert_same_for_every_cut(text)
    assert parsed.calls[0].arguments == {"room": {"wing": "B", "no": 7}, "nights": 2}


def test_parser_03_a_closing_tag_inside_a_string_ends_nothing() -> None:
    query = "what does </tool_call> mean in a Qwen prompt"
    text = call_text("web_search", {"query": query}) + "\n" + call_text("local_search", {"query": "hermes tags"})
    parsed = assert_same_for_every_cut(text)
    assert [call.name for call in parsed.calls] == ["web_search", "local_search"]
    assert parsed.calls[0].arguments == {"query": query}
    assert all(call.error is None for call in parsed.calls)
    assert parsed.content == ""


def test_parser_08_arguments_written_as_a_string_are_decoded_once() -> None:
    parsed = assert_same_for_every_cut(call_text("get_weather", json.dumps({"city": "Oslo"})))
    assert parsed.calls[0].arguments == {"city": "Oslo"}
    twice = parse_output(call_text("get_weather", json.dumps(json.dumps({"city": "Oslo"})))).calls[0]
    assert twice.error is not None
    assert "string" in twice.error


def test_parser_09_surrogate_pairs_survive_every_cut() -> None:
    text = '<tool_call>{"name":"post_note","arguments":{"text":"done \\ud83d\\ude00 \\u00e9"}}</tool_call>'
    parsed = assert_same_for_every_cut(text)
    assert parsed.calls[0].arguments == {"text": "done 😀 é"}


def test_parser_10_what_looks_like_a_tag_is_flushed_at_the_end() -> None:
    for text in ("The marker is <tool_", "a <", "a </tool_call", "<think", "x <tool_call"):
        parsed = assert_same_for_every_cut(text)
        assert (parsed.content, parsed.calls, parsed.finish_reason) == (text, (), "stop")


# Thinking


def test_thinking_is_kept_apart() -> None:
    text = "<think>\nLook it up.\n</think>\n\nI will search.\n" + call_text("search", {"query": "q"})
    parsed = assert_same_for_every_cut(text, TOOLS)
    assert parsed.reasoning == "Look it up."
    assert parsed.content == "I will search."
    message = parsed.message()
    assert (message.role, message.reasoning, message.content) == ("assistant", parsed.reasoning, parsed.content)
    assert message.tool_calls == parsed.calls


def test_thinking_whose_opening_tag_was_in_the_prompt() -> None:
    text = 'Maybe <tool_call>{"name": "search"}</tool_call>?\n</think>\nThe answer\'s 4'
    for thinking in (True, False):
        parsed = assert_same_for_every_cut(text, TOOLS, thinking=thinking)
        assert parsed.reasoning == text.partition("\n</think>")[0]
        assert parsed.content == "The answer's 4"
        assert parsed.calls == ()


def test_only_a_caller_that_does_not_know_its_prompt_sees_a_retraction() -> None:
    _, events, _ = streamed(["a</think>b"])
    assert events == [ContentDelta("a"), AllWasReasoning("a"), ContentDelta("b")]
    _, events, _ = streamed(["a</think>b"], thinking=True)
    assert not any(isinstance(event, AllWasReasoning) for event in events)


def test_a_repeated_opening_tag_after_a_prefilled_one_is_dropped() -> None:
    parsed = assert_same_for_every_cut("\n<think>\nhm</think>4", thinking=True)
    assert (parsed.reasoning, parsed.content) == ("hm", "4")


def test_tags_that_are_only_mentioned_are_content() -> None:
    text = "<think>x</think>Qwen writes <think> and </think>."
    assert assert_same_for_every_cut(text).content == "Qwen writes <think> and </think>."


def test_a_last_call_in_unclosed_thinking_counts_if_the_end_was_normal() -> None:
    thought = "<think>First " + call_text("list_clocks", {}) + " no, rather\n"
    text = thought + call_text("search", {"query": "a"}) + "\n" + call_text("search", {"query": "b"}) + "\n"
    parsed = assert_same_for_every_cut(text, TOOLS)
    assert [call.arguments for call in parsed.calls] == [{"query": "a"}, {"query": "b"}]
    assert parsed.reasoning == thought.removeprefix("<think>").strip()
    assert any("thinking" in warning for warning in parsed.warnings)
    for finish, tail in (("length", ""), ("stop", "or not")):
        other = assert_same_for_every_cut(text + tail, TOOLS, finish=finish)
        assert other.calls == ()
        assert other.reasoning == (text + tail).removeprefix("<think>").strip()


def test_a_broken_call_inside_thinking_is_only_a_thought() -> None:
    text = "<think>use <tool_call> for it: <tool_call>{oops}</tool_call></think>ok"
    parsed = assert_same_for_every_cut(text)
    assert parsed.reasoning == "use <tool_call> for it: <tool_call>{oops}</tool_call>"
    assert (parsed.content, parsed.calls) == ("ok", ())


# Malformed calls


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('{"name": "search", "arguments": {"query": "say "hi" now"}}', "not valid|Expecting"),
        ('{"name": "search", "arguments": {"query": "open}}', "a quote or a closing brace missing"),
        ('{"name": "search", "arguments": {"query": "x"}', "a quote or a closing brace missing"),
        ('{"name": "search", "arguments": {"query": NaN}}', "NaN"),
        ('{"name": "search", "arguments": {"query": -Infinity}}', "Infinity"),
        ('{"name": "search", "arguments": {"query": 1e999}}', "too large"),
        ('{"name": "search", "arguments": {"query": ' + "9" * 5000 + "}}", "too long"),
        ('{"name": "search", "arguments": {"query": "a", "query": "b"}}', "twice"),
        ('{"name": "search", "arguments": ["a"]}', "an array"),
        ('{"name": "search", "arguments": "[1]"}', "string"),
        ('{"name": "search", "query": "a"}', "outside"),
        ('{"arguments": {"query": "a"}}', "name"),
        ('{"name": 3, "arguments": {}}', "name"),
        ("search(query='x')", "object"),
        ('["search"]', "object"),
        ("", "empty"),
        ('{"name": "search", "arguments": ' + "[" * 100 + "]" * 100 + "}", "deeper"),
        ('{"name": "search", "arguments": {"query": 5}}', "query must be string, got 5"),
        ('{"name": "search", "arguments": {}}', "query"),
        ('{"name": "serch", "arguments": {"query": "a"}}', "search"),
    ],
)
def test_a_malformed_call_is_readable_and_the_others_still_run(body: str, says: str) -> None:
    text = f"Hi <tool_call>{body}</tool_call>\n" + call_text("search", {"query": "fine"})
    parsed = assert_same_for_every_cut(text, TOOLS) if len(text) < 400 else parse_output(text, TOOLS)
    bad, good = parsed.calls
    assert bad.error is not None
    assert any(part in bad.error for part in says.split("|"))
    assert len(bad.error) < 600
    assert (good.error, good.arguments) == (None, {"query": "fine"})
    assert parsed.content == "Hi"
    assert parsed.finish_reason == "tool_calls"
    if not bad.arguments and body and body.startswith("search("):
        assert bad.raw == body


def test_a_name_is_read_from_a_call_that_is_not_json() -> None:
    bad = parse_output('<tool_call>{"name": "search", "arguments": {oops}}</tool_call>', TOOLS).calls[0]
    assert bad.name == "search"
    assert bad.raw == '{"name": "search", "arguments": {oops}}'


def test_an_unknown_tool_is_told_the_nearest_names_and_all_names() -> None:
    error = parse_output(call_text("list_clock", {}), TOOLS).calls[0].error
    assert error == "there is no tool 'list_clock'; did you mean list_clocks? The tools are: search, list_clocks"


def test_calls_beyond_the_bound_are_malformed() -> None:
    parsed = parse_output(call_text("list_clocks", {}) * (MAX_CALLS + 2), TOOLS)
    assert [call.error is None for call in parsed.calls] == [True] * MAX_CALLS + [False] * 2


# Endings


def test_a_missing_closing_tag_at_a_normal_end_is_forgiven() -> None:
    text = '<tool_call>{"name": "search", "arguments": {"query": "a"}}'
    for tail in ("", "\n", "\n</tool"):
        parsed = assert_same_for_every_cut(text + tail, TOOLS)
        assert [call.error for call in parsed.calls] == [None]
        assert (parsed.content, len(parsed.warnings)) == ("", 1)
        cut = assert_same_for_every_cut(text + tail, TOOLS, finish="length")
        assert cut.calls[0].error is not None
        assert "cut off" in cut.calls[0].error
        assert cut.finish_reason == "length"


def test_an_incomplete_object_is_malformed_at_any_end() -> None:
    for finish in ("stop", "length"):
        parsed = assert_same_for_every_cut('<tool_call>{"name": "search", "arguments": {"que', TOOLS, finish=finish)
        assert [call.name for call in parsed.calls] == ["search"]
        assert parsed.calls[0].error is not None


def test_an_unclosed_string_does_not_swallow_later_calls() -> None:
    broken = '<tool_call>{"name": "search", "arguments": {"query": "a}}</tool_call>\n'
    parsed = assert_same_for_every_cut(broken + call_text("list_clocks", {}) + "bye", TOOLS)
    assert [call.error is None for call in parsed.calls] == [False, True]
    assert parsed.content == "bye"


def test_sloppy_tags_of_real_models_are_forgiven() -> None:
    clocks = '{"name": "list_clocks", "arguments": {}}'
    for text in (
        f"<tool_call>\n{clocks}\n<tool_call>\n{clocks}\n</tool_call>",
        f"<tool_call>\n{clocks}\n<tool_call>\n<tool_call>\n{clocks}</tool_call>",
        f"<tool_call>\n{clocks}\n{clocks}\n</tool_call>",
        f"<tool_call>\n{clocks}}}\n</tool_call><tool_call>{clocks}\n<tool_call>\n",
    ):
        parsed = assert_same_for_every_cut(text, TOOLS)
        assert [(call.name, call.error) for call in parsed.calls] == [("list_clocks", None)] * 2, text
        assert parsed.content == ""
        assert parsed.warnings


# What is read leniently, without loss


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ("{\"name\": 'search', \"arguments\": {'query': 'it\\'s \"x\"', 'a': [True, None]}}", {"query": 'it\'s "x"'}),
        ('{"name": "search", "parameters": {"query": "a"}}', {"query": "a"}),
        ('{"name": "search", "arguments": {"query": "two\nlines"}}', {"query": "two\nlines"}),
        ('{"name": "search", "arguments": null}', {}),
        ('{"name": "search", "arguments": ""}', {}),
        ('{"name": "search"}', {}),
        ('{"name": "search", "arguments": {"query": "\\ud83d!"}}', {"query": "\ufffd!"}),
        ('{"name": "search", "arguments": {"query": "\\\\"}}', {"query": "\\"}),
    ],
)
def test_lenient_forms(body: str, arguments: dict[str, object]) -> None:
    call = assert_same_for_every_cut(f"<tool_call>{body}</tool_call>").calls[0]
    assert call.error is None
    assert {key: call.arguments[key] for key in arguments} == arguments
    json.dumps(dict(call.arguments), ensure_ascii=False).encode("utf-8")


def test_arguments_are_coerced_only_where_the_schema_forbids_the_string() -> None:
    call = assert_same_for_every_cut(call_text("search", {"query": "3", "top": "3"}), TOOLS).calls[0]
    assert (call.error, call.arguments) == (None, {"query": "3", "top": 3})


def test_a_wire_round_trip_of_a_misfit_call_is_not_encoded_twice() -> None:
    call = parse_output(call_text("search", {"top": 3}), TOOLS).calls[0]
    assert call.error is not None
    message = parse_output(call_text("search", {"top": 3}), TOOLS).message()
    assert message.for_template()["tool_calls"][0]["function"]["arguments"] == {"top": 3}
    assert message_from_wire(message.to_wire()).tool_calls[0].arguments == {"top": 3}


# Properties

FRAGMENTS = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    '{"name": "search", "arguments": {"query": "x"}}',
    '{"name": "list_clocks", "arguments": {}}',
    '{"name": "search", "arguments": {"query": "</tool_call>',
    "{'name': 'search'",
    "<tool_",
    "<",
    "}",
    "{",
    '"',
    "\\",
    " ",
    "\n",
    "\ud83d",
    "\ude00",
    "word",
]
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=12).map("".join)


@settings(max_examples=300, deadline=None)
@given(texts, st.data(), st.sampled_from(["stop", "length"]), st.booleans())
def test_the_streamed_parse_equals_the_whole_parse(text: str, data: st.DataObject, finish: str, thinking: bool) -> None:
    whole = parse_output(text, TOOLS, finish_reason=finish, thinking=thinking)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for split in (pieces, list(text)):
        assert_same(whole, split, TOOLS, finish=finish, thinking=thinking)
    for part in (whole.content, whole.reasoning, *(call.raw for call in whole.calls)):
        part.encode("utf-8")
    for call in whole.calls:
        json.dumps(dict(call.arguments), ensure_ascii=False, allow_nan=False).encode("utf-8")


leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
values = leaves | st.lists(leaves, max_size=3) | st.dictionaries(st.text(max_size=4), leaves, max_size=3)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=4), values, max_size=4), st.booleans())
def test_every_json_argument_comes_back(arguments: dict[str, object], ascii_only: bool) -> None:
    body = json.dumps({"name": "t", "arguments": arguments}, ensure_ascii=ascii_only)
    assert parse_output(f"<tool_call>{body}</tool_call>").calls[0].arguments == arguments


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"])))
def test_plain_text_is_content(text: str) -> None:
    assert parse_output(text) == ParsedOutput(content=text.strip())


# Bounds


@pytest.mark.parametrize(
    "text",
    [
        "word " * 20_000,
        "<" * 100_000,
        " " * 100_000 + "x",
        "<think>" + "a<b " * 25_000,
        call_text("search", {"query": "x" * 200_000}),
        call_text("search", {"query": '"\\' * 25_000}),
        "<tool_call>" + "{" * 200_000,
        "<tool_call>{" * 8_000,
        '<tool_call>{"' * 8_000,
        "<tool_call>{'<tool_call>{\"" * 8_000,
        ("<tool_call>{'" + '<tool_call>{"\\' * 20) * 350,
        "<tool_call>" * 9_000,
        call_text("list_clocks", {}) * 1_000,
    ],
    ids=lambda text: text[:16],
)
def test_time_is_linear_in_the_text(text: str) -> None:
    start = time.process_time()
    whole = parse_output(text, TOOLS)
    parsed, _, _ = streamed(list(text), TOOLS)
    assert time.process_time() - start < 3
    assert (parsed.reasoning, parsed.content, parsed.calls) == (whole.reasoning, whole.content, whole.calls)


def test_nesting_up_to_the_bound_is_read() -> None:
    depth = MAX_DEPTH - 2
    nested: object = 1
    for _ in range(depth):
        nested = [nested]
    assert parse_output(call_text("t", {"a": nested})).calls[0].arguments == {"a": nested}
    assert parse_output(call_text("t", {"a": [nested]})).calls[0].error is not None


# Real outputs


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, object]]:
    path = DATA / "tool-call-outputs" / "outputs.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path} is absent: set TOOLORCHESTRA_DATA to the folder of real data")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_no_recorded_output_raises_and_hermes_is_read(recorded: list[dict[str, object]]) -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for row in recorded:
        text = row["result"] if isinstance(row["result"], str) else json.dumps(row["result"])
        parsed = parse_output(text)
        if row["valid"] and row["category"] != "relevance" and text.lstrip().startswith("<tool_call>"):
            good = bool(parsed.calls) and all(call.error is None for call in parsed.calls)
            counts[str(row["model"]), good] += 1
    read = sum(number for (_, good), number in counts.items() if good)
    assert counts.total() > 2_000
    assert read / counts.total() >= 0.98, counts
