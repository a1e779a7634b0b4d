"""How YAML is read: the schema decides what a scalar is, and no file can hang or crash the reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from toolorchestra.config import Section, Settings, explain, parse_yaml
from toolorchestra.errors import UserError

ORCHESTRATOR = 'orchestrator: {model: m, base_url: "http://localhost:8000/v1"}\n'


def settings_of(text: str) -> Settings:
    return Settings.model_validate(parse_yaml(ORCHESTRATOR + text, name="f").values)


class TestGrammar:
    def test_the_schema_decides_not_the_files_grammar(self) -> None:  # config-01
        class Optimiser(Section):
            lr: float
            """L."""
            clip: float
            """C."""
            name: str
            """N."""

        read = Optimiser.model_validate(parse_yaml("lr: 1e-6\nclip: 2e-1\nname: 1e-6b\n", name="f").values)
        assert read.model_dump() == {"lr": 1e-06, "clip": 0.2, "name": "1e-6b"}

    @pytest.mark.parametrize("text", ["no", "off", "yes", "1e-6", "1_000", "0o17", "012", "1:30", "2026-01-31", "1.10"])
    def test_text_stays_as_written(self, text: str) -> None:
        settings = settings_of(f"preference: {text}\n")
        assert settings.preference.text == text

    @pytest.mark.parametrize(
        ("text", "value"), [("1e-6", 1e-6), ("1E-6", 1e-6), (".5", 0.5), ("'0.5'", 0.5), ("1", 1.0)]
    )
    def test_a_number_may_be_written_in_any_way(self, text: str, value: float) -> None:
        read = settings_of(f"training: {{learning_rate: {text}}}\n").training.learning_rate
        assert read == value
        assert isinstance(read, float)

    @given(st.floats(min_value=1e-300, max_value=1.0))
    def test_any_float_survives(self, number: float) -> None:
        values = parse_yaml(f"{ORCHESTRATOR}training: {{learning_rate: {number!r}}}", name="f").values
        assert Settings.model_validate(values).training.learning_rate == number

    @given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1, max_size=4))
    def test_any_quoted_text_survives(self, mapping: dict[str, str]) -> None:
        assert parse_yaml(json.dumps(mapping), name="f").values == mapping

    @pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "a: &a {<<: *a}", "[" * 60 + "]" * 60])
    def test_a_loop_or_a_tower_ends(self, text: str) -> None:
        with pytest.raises(UserError, match=r"f: line 1: (too many or too deeply|'<<' merges)"):
            parse_yaml(text, name="f")

    def test_aliases_cannot_explode(self) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
        with pytest.raises(UserError, match="too many"):
            parse_yaml("\n".join(lines), name="f")

    def test_an_absurd_depth_is_an_error_not_a_crash(self) -> None:
        with pytest.raises(UserError, match="f: "):
            parse_yaml("[" * 50_000, name="f")

    def test_half_a_character_is_refused_and_two_halves_are_one(self) -> None:
        assert parse_yaml(r'"\ud83d\ude00"', name="f").values == "😀"
        with pytest.raises(UserError, match="f: line 1: holds half a character"):
            parse_yaml(r'a: "\ud83d"', name="f")

    def test_own_keys_win_over_merged_ones(self) -> None:
        text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {y: 3, <<: [*b, *a]}"
        assert parse_yaml(text, name="f").values["c"] == {"x": "1", "y": "3", "z": "2"}
        assert parse_yaml("a: {'<<': 1}", name="f").values == {"a": {"<<": "1"}}
        with pytest.raises(UserError, match="merges sections only"):
            parse_yaml("a: {<<: 1}", name="f")


words = st.sampled_from(
    ["orchestrator", "models", "tools", "training", "limits", "a", "kind", "code", "provider", "price"]
)
trees: st.SearchStrategy[Any] = st.recursive(
    words | st.text(max_size=5) | st.none(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(words, below, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(sorted(Settings.model_fields)), trees, max_size=5))
def test_whatever_stands_there_the_answer_is_settings_or_a_message(values: dict[str, Any]) -> None:
    document = parse_yaml(json.dumps(values), name="f")
    try:
        Settings.model_validate(document.values, context={"folder": "/nowhere", "check_files": True})
    except ValidationError as error:
        for line in str(explain(error, document, tagged=("models", "tools"))).splitlines():
            assert line.startswith("f: ")
