"""Usage as providers report it: one convention inside, and nothing negative."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.pricing import Usage, UsageError, usage_from_anthropic, usage_from_openai

counts = st.integers(min_value=0, max_value=10**9)


class TestOpenAI:
    def test_cached_tokens_are_part_of_the_prompt(self) -> None:  # cost-01
        data = {"prompt_tokens": 5000, "completion_tokens": 512, "prompt_tokens_details": {"cached_tokens": 4096}}
        assert usage_from_openai(data) == Usage(input_tokens=904, output_tokens=512, cache_read_tokens=4096)

    def test_the_responses_form(self) -> None:
        data = {
            "input_tokens": 78,
            "input_tokens_details": {"cached_tokens": 70, "cache_write_tokens": 5},
            "output_tokens": 37,
            "output_tokens_details": {"reasoning_tokens": 22},
            "total_tokens": 115,
        }
        assert usage_from_openai(data) == Usage(3, 37, 70, 5, 0, 22)

    def test_details_may_be_null_or_absent(self) -> None:
        data = {"prompt_tokens": 3, "completion_tokens": None, "prompt_tokens_details": None}
        assert usage_from_openai(data) == Usage(3)

    def test_hits_of_a_cache_beside_the_details(self) -> None:
        data = {
            "prompt_tokens": 10,
            "completion_tokens": 1,
            "prompt_cache_hit_tokens": 8,
            "prompt_cache_miss_tokens": 2,
        }
        assert usage_from_openai(data) == Usage(2, 1, 8)

    @pytest.mark.parametrize("details", [{}, {"completion_tokens_details": {"reasoning_tokens": 300}}])
    def test_reasoning_outside_the_completion_is_billed(self, details: dict[str, Any]) -> None:
        data = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 330, **details}
        assert usage_from_openai(data) == Usage(10, 320, reasoning_tokens=300)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ({"prompt_tokens": 120, "prompt_tokens_details": {"cached_tokens": 8200}}, "include the cached"),  # cost-02
            ({"prompt_tokens": -1}, "prompt_tokens is -1"),
            ({"prompt_tokens": 1.5}, "prompt_tokens is 1.5"),
            ({"prompt_tokens": True}, "prompt_tokens is True"),
            ({"prompt_tokens": "12"}, "prompt_tokens is '12'"),
            ({"prompt_tokens": float("nan")}, "whole number"),
            ({"prompt_tokens": float("inf")}, "whole number"),
            ({}, "nothing to bill by"),
            ({"prompt_tokens": 5, "prompt_tokens_details": 3}, "must be an object"),
            ({"input_tokens": 5, "cache_read_input_tokens": 100}, "Anthropic's counters"),
            ({"prompt_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 4}}, "part of the output"),
        ],
    )
    def test_what_cannot_be_is_refused(self, data: dict[str, Any], message: str) -> None:
        with pytest.raises(UsageError, match=message) as caught:
            usage_from_openai(data)
        assert isinstance(caught.value, UserError)
        assert isinstance(caught.value, ValueError)

    @given(counts, counts, counts)
    def test_nothing_is_lost_or_counted_twice(self, fresh: int, cached: int, output: int) -> None:
        data = {
            "prompt_tokens": fresh + cached,
            "completion_tokens": output,
            "total_tokens": fresh + cached + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        usage = usage_from_openai(data)
        assert (usage.prompt_tokens, usage.output_tokens) == (fresh + cached, output)
        assert usage.total_tokens == data["total_tokens"]


class TestAnthropic:
    def test_counters_are_exclusive_and_writes_have_lifetimes(self) -> None:  # cost-02
        data = {
            "input_tokens": 120,
            "cache_read_input_tokens": 8200,
            "cache_creation_input_tokens": 2000,
            "cache_creation": {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 1500},
            "output_tokens": 350,
        }
        assert usage_from_anthropic(data) == Usage(120, 350, 8200, 500, 1500)

    @pytest.mark.parametrize(
        ("data", "short", "long"),
        [
            ({"cache_creation_input_tokens": 2000}, 2000, 0),
            ({"cache_creation_input_tokens": 2000, "cache_creation": None}, 2000, 0),
            ({"cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 7}}, 5, 7),
            ({"cache_creation_input_tokens": 20, "cache_creation": {"ephemeral_1h_input_tokens": 7}}, 13, 7),
        ],
    )
    def test_writes_without_a_breakdown_are_short_lived(self, data: dict[str, Any], short: int, long: int) -> None:
        usage = usage_from_anthropic({"input_tokens": 1, "output_tokens": 2, **data})
        assert usage == Usage(1, 2, 0, short, long)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ({"prompt_tokens": 5}, "OpenAI's counters"),
            ({"output_tokens": 5}, "nothing to bill by"),
            ({"input_tokens": 5, "cache_read_input_tokens": -8}, "cache_read_input_tokens is -8"),
            (
                {
                    "input_tokens": 5,
                    "cache_creation_input_tokens": 3,
                    "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 2},
                },
                "more than their sum",
            ),
        ],
    )
    def test_what_cannot_be_is_refused(self, data: dict[str, Any], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            usage_from_anthropic(data)


class TestUsage:
    def test_adds_by_counter(self) -> None:
        assert Usage(1, 2, 3, 4, 5, 1) + Usage(10, 20, 30, 40, 50, 10) == Usage(11, 22, 33, 44, 55, 11)
        assert Usage(1, 2, 3, 4, 5).prompt_tokens == 13
        assert Usage(1, 2, 3, 4, 5).total_tokens == 15

    def test_refuses_what_cannot_be(self) -> None:
        with pytest.raises(UsageError, match="cache_read_tokens is -1"):
            Usage(cache_read_tokens=-1)
        with pytest.raises(UsageError, match="part of the output"):
            Usage(output_tokens=1, reasoning_tokens=2)


def test_recorded_replies_of_real_providers_are_read(data_dir: Path) -> None:
    cassettes = data_dir / "llm-api-cassettes"
    if not cassettes.is_dir():
        pytest.skip(f"no recorded replies at {cassettes}")
    openai = anthropic = 0
    for text in (file.read_text(errors="ignore") for file in cassettes.rglob("*.yaml")):
        for start in (found.end() for found in re.finditer(r'"usage": ?(?=\{)', text)):
            try:
                data, _ = json.JSONDecoder().raw_decode(text[start : start + 3_000])
            except ValueError:
                continue
            if "cache_creation_input_tokens" in data and "input_tokens" in data:
                assert usage_from_anthropic(data).total_tokens >= data["input_tokens"] + data["output_tokens"]
                anthropic += 1
            elif "completion_tokens" in data and "prompt_tokens" in data:
                assert usage_from_openai(data).total_tokens >= data["prompt_tokens"] + data["completion_tokens"]
                openai += 1
    assert openai > 10
    assert anthropic > 5
