"""A preference's weights: in range, in order, and back from a file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.preferences import Preference

weights = st.floats(min_value=0, max_value=1)
names = st.text(st.characters(categories=["Ll", "Nd"]), min_size=1, max_size=8)
preferences = st.builds(
    Preference,
    text=st.text(max_size=20),
    outcome=weights,
    compute=weights,
    latency=weights,
    tools=st.dictionaries(names, weights, max_size=4),
)


def test_the_vector_follows_the_metric_vector() -> None:
    preference = Preference(outcome=1, compute=0.5, latency=0.25, tools={"local": 0.75, "gone": 0.1})
    assert preference.vector(["web", "local"]) == (0.0, 0.75, 1.0, 0.5, 0.25)


def test_the_default_wants_the_right_answer_only() -> None:
    assert Preference().vector(["a"]) == (0.0, 1.0, 0.0, 0.0)


@pytest.mark.parametrize("weight", [-0.01, 1.01, 3, float("nan"), float("inf"), "1", None, True])
@pytest.mark.parametrize("part", ["outcome", "compute", "latency", "tools"])
def test_a_weight_outside_0_to_1_names_itself_and_the_fix(part: str, weight: Any) -> None:
    values: dict[str, Any] = {"tools": {"web": weight}} if part == "tools" else {part: weight}
    name = "tools.web" if part == "tools" else part
    with pytest.raises(UserError) as caught:
        Preference(**values)
    assert f"preference.{name} is {weight!r}" in str(caught.value)
    assert "from 0" in str(caught.value)


@given(preferences)
def test_a_file_gives_back_what_was_written(preference: Preference) -> None:
    assert Preference.from_json(preference.to_json()) == preference


@given(preferences, st.lists(names, unique=True, max_size=5))
def test_the_vector_has_a_weight_in_range_for_each_metric(preference: Preference, tools: list[str]) -> None:
    vector = preference.vector(tools)
    assert len(vector) == len(tools) + 3
    assert all(isinstance(weight, float) and 0 <= weight <= 1 for weight in vector)
    assert preference.vector(tools[::-1]) == (*vector[: len(tools)][::-1], *vector[len(tools) :])


def test_an_unknown_key_of_a_file_is_named() -> None:
    with pytest.raises(UserError, match="no key 'cost'; it has compute, latency"):
        Preference.from_json({"cost": 1.0})
