"""Fixed rules by name."""

from __future__ import annotations

import pytest

from toolorchestra.assembly.rules import baselines, make_rule
from toolorchestra.errors import UserError

TOOLS = ("notes", "small", "large")
MODELS = ("small", "large")


def names(wanted: str, models: tuple[str, ...] = MODELS) -> list[str]:
    return [rule.name for rule in baselines(wanted, cheapest_first=models, tools=TOOLS)]


def test_all_of_them() -> None:
    assert names("all") == ["always small", "always large", "random", "cheapest first", "agreement"]


def test_one_model_makes_no_cascade() -> None:
    assert names("all", ("small",)) == ["always small", "random"]


def test_none_of_them() -> None:
    assert names("none") == []


def test_some_of_them_each_once() -> None:
    assert names("random, always:notes,random") == ["random", "always notes"]


@pytest.mark.parametrize(
    ("wanted", "models", "words"),
    [
        ("agrement", MODELS, "there is no rule 'agrement'; did you mean agreement?"),
        ("agreement", ("small",), "the rule 'agreement' needs two tools of the kind model"),
        ("cheapest-first", (), "the rule 'cheapest-first' needs a tool of the kind model"),
        (" , ", MODELS, "no baselines are named"),
    ],
)
def test_what_cannot_be_named(wanted: str, models: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError) as caught:
        names(wanted, models)
    assert words in str(caught.value)


def test_the_prefix_is_optional() -> None:
    assert make_rule("rule:agreement", cheapest_first=MODELS, tools=TOOLS).name == "agreement"
