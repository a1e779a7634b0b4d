from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.messages import Message
from toolorchestra.training.sequences import sequences_of
from toolorchestra.trajectory import Action, AllowedTokens, SampledTurn, Step, Trajectory


def trajectory(*turns, **changes):
    steps = tuple(Step(Action(Message("assistant", "x"), tokens=turn), 0.0, None) for turn in turns)
    return Trajectory(task_id="t", sample=3, group="g", policy="p", steps=steps, **changes)


def turn(context, ids, *, sampled=None, logprobs=None, **changes):
    sampled = tuple(sampled) if sampled is not None else (True,) * len(ids)
    logprobs = tuple(logprobs) if logprobs is not None else tuple(-0.5 if chosen else 0.0 for chosen in sampled)
    return SampledTurn(tuple(context), tuple(ids), logprobs, sampled, (None,) * len(ids), **changes)


def test_what_was_sampled_is_trained_even_where_its_text_would_be_encoded_otherwise():
    # "a" "b" was sampled; the text "ab" is one token of its own (1). Nothing is encoded again.
    [made] = sequences_of(trajectory(turn((9,), (2, 3), logprobs=(-0.7, -1.1), continues=False)))
    assert made.ids == (9, 2, 3)
    assert made.logprobs == (0.0, -0.7, -1.1)
    assert made.loss_mask == (False, True, True)


def test_missing_ids_are_not_guessed():
    with pytest.raises(UserError, match="has no token ids"):
        sequences_of(trajectory(turn((9,), (2,), continues=False), None, turn((4,), (5,))))
    with pytest.raises(UserError, match="has no token ids"):
        sequences_of(trajectory(turn((9,), (2,), continues=False), None))


def test_a_last_turn_in_which_nothing_was_said_is_left_out():
    # The loop records it for what it cost, when a limit cuts a decision short.
    spoken = trajectory(turn((9,), (2, 3), continues=False))
    cut = Step(Action(Message("assistant"), finish_reason="length"), 1.0, None)
    [made] = sequences_of(Trajectory("t", 0, "g", "p", steps=(*spoken.steps, cut), status="limit", limit="seconds"))
    assert made.ids == (9, 2, 3)
    assert sequences_of(Trajectory("t", 0, "g", "p", steps=(cut,))) == ()
    with pytest.raises(UserError, match="no token ids"):
        sequences_of(Trajectory("t", 0, "g", "p", steps=(cut, *spoken.steps)))


def test_a_rewritten_history_gives_one_sequence_a_stretch():
    made = sequences_of(
        trajectory(
            turn((1, 2), (3,), continues=False, policy_version=4, temperature=0.8),
            turn((4,), (5,), policy_version=4, temperature=0.8),
            turn((1, 9), (6,), continues=False, policy_version=4, temperature=0.8),
        ),
        advantage=1.5,
        reward=0.25,
        reward_parts={"outcome": 0.25},
        trained=False,
    )
    assert [each.ids for each in made] == [(1, 2, 3, 4, 5), (1, 9, 6)]
    for each in made:
        assert (each.advantage, each.reward, each.trained, each.policy_version) == (1.5, 0.25, False, 4)
        assert (each.task_id, each.sample, each.group, each.temperature) == ("t", 3, "g", 0.8)
        assert each.reward_parts == {"outcome": 0.25}


tokens = st.integers(0, 50)
grammar = st.one_of(st.none(), st.builds(AllowedTokens, st.booleans(), st.tuples(tokens)))


@st.composite
def turns(draw):
    ids = draw(st.lists(tokens, min_size=1, max_size=6))
    sampled = draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)))
    return SampledTurn(
        context_ids=tuple(draw(st.lists(tokens, min_size=1, max_size=6))),
        ids=tuple(ids),
        logprobs=tuple(-draw(st.floats(0.001, 9)) if chosen else 0.0 for chosen in sampled),
        sampled=tuple(sampled),
        allowed=tuple(draw(grammar) if chosen else None for chosen in sampled),
        continues=draw(st.booleans()),
    )


@given(st.lists(turns(), min_size=1, max_size=6))
def test_masks_spans_and_ids_align(played):
    made = sequences_of(trajectory(*played))
    assert len(made) == 1 + sum(not each.continues for each in played[1:])
    found = []
    for sequence in made:
        length = len(sequence.ids)
        assert length == len(sequence.loss_mask) == len(sequence.logprobs) == len(sequence.allowed)
        assert sequence.prompt_length == sequence.turn_spans[0].start
        assert sequence.turn_spans[-1].end == length
        inside = {position for span in sequence.turn_spans for position in range(span.start, span.end)}
        assert set(sequence.choices) <= inside
        for position in set(range(length)) - inside:
            assert sequence.logprobs[position] == 0.0
            assert sequence.allowed[position] is None
        found += [(sequence, span) for span in sequence.turn_spans]
    for (sequence, span), each in zip(found, played, strict=True):
        cut = slice(span.start, span.end)
        assert sequence.ids[cut] == each.ids
        assert sequence.loss_mask[cut] == each.sampled
        assert sequence.logprobs[cut] == each.logprobs
        assert sequence.allowed[cut] == each.allowed
        assert sequence.ids[span.start - len(each.context_ids) : span.start] == each.context_ids
