from __future__ import annotations

import pytest

from toolorchestra.policies.tokens.constraint import CallOrText, FreeTurn
from toolorchestra.policies.tokens.format import CompactChatML
from toolorchestra.policies.tokens.grammar import CallConstraint, Forced, Pick, call_segments
from toolorchestra.policies.tokens.guidance import GuidanceMatchers


@pytest.fixture(scope="module")
def chat(tokenizer):
    return CompactChatML(tokenizer)


@pytest.fixture
def either(tokenizer, chat, tools):
    call = CallConstraint(call_segments(tools), chat.encode, GuidanceMatchers(tokenizer), chat.end)
    return CallOrText(call, FreeTurn(chat.end, 4))


def test_a_free_turn_ends_with_its_end_token():
    turn = FreeTurn(end=2, max_tokens=5)
    turn.commit((7,))
    assert isinstance(turn.need(), Pick)
    turn.commit((2,))
    assert turn.need() is None


def test_a_free_turn_ends_at_its_bound():
    turn = FreeTurn(end=2, max_tokens=2)
    turn.commit((7,))
    turn.commit((7,))
    assert turn.need() is None


def test_banned_tokens_are_no_choice():
    need = FreeTurn(end=2, max_tokens=2, banned=(1, 3)).need()
    assert not need.allowed.only
    assert need.allowed.ids == (1, 3)


def test_a_first_token_of_a_call_makes_it_one(either, chat):
    [first, *rest] = chat.encode('<tool_call>\n{"name": "')
    either.commit((first,))
    need = either.need()
    assert isinstance(need, Forced)
    assert need.ids == tuple(rest)
    either.commit(need.ids)
    assert either.need().allowed.only, "the tool's name is the next choice"


def test_any_other_first_token_makes_it_text(either, chat):
    for _ in range(4):
        assert not either.need().allowed.only
        either.commit(tuple(chat.encode("a")))
    assert either.need() is None
