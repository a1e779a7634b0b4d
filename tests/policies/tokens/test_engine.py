from __future__ import annotations

import asyncio
import copy

import numpy as np
import pytest
import torch

from toolorchestra.errors import UserError
from toolorchestra.policies.tokens.constraint import FreeTurn
from toolorchestra.policies.tokens.engine import TokenEngine
from toolorchestra.policies.tokens.format import CompactChatML
from toolorchestra.policies.tokens.grammar import CallConstraint, Pick, call_segments
from toolorchestra.policies.tokens.guidance import GuidanceMatchers
from toolorchestra.trajectory import AllowedTokens

END = 2


@pytest.fixture(scope="module")
def calls(tokenizer, tools):
    """Makes call constraints."""
    chat, matchers = CompactChatML(tokenizer), GuidanceMatchers(tokenizer)
    return lambda: CallConstraint(call_segments(tools), chat.encode, matchers, chat.end)


def free(max_tokens=6):
    return FreeTurn(END, max_tokens, banned=(0, 1))


@torch.no_grad()
def plain_logprobs(model, turns):
    """What a plain forward pass over the whole sequence says of the sampled tokens; 0 elsewhere."""
    ids, marks = [], []
    for turn in turns:
        if not turn.continues:
            ids = []
        ids = [*ids, *turn.context_ids]
        start = len(ids)
        ids += turn.ids
        marks.append((start, list(ids)))
    found = []
    for turn, (start, whole) in zip(turns, marks, strict=True):
        logits = model(input_ids=torch.tensor([whole])).logits[0].double()
        for offset, (token, chosen, allowed) in enumerate(zip(turn.ids, turn.sampled, turn.allowed, strict=True)):
            if not chosen:
                found.append(0.0)
                continue
            row = logits[start + offset - 1] / (turn.temperature or 1.0)
            if allowed is not None:
                listed = torch.zeros(row.shape, dtype=torch.bool)
                listed[list(allowed.ids)] = True
                row = row.masked_fill(listed != allowed.only, -torch.inf)
            found.append(float(row.log_softmax(-1)[token]))
    return found


def kept_logprobs(turns):
    return [value for turn in turns for value in turn.logprobs]


async def play(engine, group, seed, *, constraint=free, turns=3, temperature=1.0, pauses=0, prompt=None):
    """One episode: a prompt, then turns with random observations between them."""
    rng = np.random.default_rng(seed)
    sequence = engine.open(group)
    played = []
    try:
        context = prompt or [5, 6, 7, *(int(byte) % 400 + 3 for byte in group.encode())]
        for number in range(turns):
            for _ in range(pauses * number):
                await asyncio.sleep(0)
            played.append(
                await engine.decode(
                    sequence, context, constraint(), rng=rng, temperature=temperature, continues=number > 0
                )
            )
            context = rng.integers(3, 400, size=int(rng.integers(1, 9))).tolist()
    finally:
        engine.close(sequence)
    return played


def play_all(engine, *episodes):
    async def run():
        async with asyncio.timeout(30):  # an engine that hangs is a failure, not a wait
            return await asyncio.gather(*(play(engine, *positional, **named) for positional, named in episodes))

    return asyncio.run(run())


def assert_plain(model, turns, tolerance=1e-4):
    assert kept_logprobs(turns) == pytest.approx(plain_logprobs(model, turns), abs=tolerance)


def test_logprobs_are_those_of_a_plain_pass_whatever_the_pace(llama, calls):
    engine = TokenEngine(llama)
    episodes = [
        (
            (f"group {number % 3}", number),
            {
                "constraint": calls if number % 2 else free,
                "pauses": number % 4,
                "temperature": 0.7 + 0.1 * (number % 5),
            },
        )
        for number in range(12)
    ]
    for turns in play_all(engine, *episodes):
        assert_plain(llama, turns)
    assert sum(sum(turn.sampled) for turn in turns) > 3


def test_records_have_one_entry_a_token(llama, calls):
    [turns] = play_all(TokenEngine(llama), (("g", 1), {"constraint": calls}))
    for turn in turns:
        assert len(turn.ids) == len(turn.logprobs) == len(turn.sampled) == len(turn.allowed)
        assert turn.ids[-1] == END
        for chosen, logprob, allowed in zip(turn.sampled, turn.logprobs, turn.allowed, strict=True):
            assert (logprob != 0.0) == chosen
            assert (allowed is not None) == chosen


def test_a_free_choice_is_recorded_as_free(llama):
    [turns] = play_all(TokenEngine(llama), (("g", 1), {"constraint": lambda: FreeTurn(END, 3)}))
    assert all(allowed is None for turn in turns for allowed in turn.allowed)
    assert_plain(llama, turns)


def test_a_pass_of_two_says_what_a_pass_of_one_says(llama):
    # Rows of different lengths: each has its own positions, and padding changes nothing.
    short, long = [9, 8, 7], [4, 5, 6, 7, 8]
    together = play_all(
        TokenEngine(llama), (("a", 1), {"prompt": short, "turns": 1}), (("b", 2), {"prompt": long, "turns": 1})
    )
    alone = [
        play_all(TokenEngine(llama), (("a", 1), {"prompt": short, "turns": 1}))[0],
        play_all(TokenEngine(llama), (("b", 2), {"prompt": long, "turns": 1}))[0],
    ]
    for one, other in zip(together, alone, strict=True):
        assert one[0].ids == other[0].ids
        assert kept_logprobs(one) == pytest.approx(kept_logprobs(other), abs=1e-4)


def test_an_episode_is_the_same_in_any_company(llama, calls):
    crowd = [((f"g{number % 2}", number), {"constraint": calls, "pauses": number % 3}) for number in range(8)]
    for (where, how), turns in zip(crowd, play_all(TokenEngine(llama), *crowd), strict=True):
        [alone] = play_all(TokenEngine(llama), (where, how))
        assert [turn.ids for turn in alone] == [turn.ids for turn in turns]
        assert kept_logprobs(alone) == pytest.approx(kept_logprobs(turns), abs=1e-4)


def test_small_passes_change_nothing_but_their_number(llama):
    crowd = [((f"g{number}", number), {}) for number in range(6)]
    whole, pieces = TokenEngine(llama), TokenEngine(llama, tokens_per_pass=16)
    for one, other in zip(play_all(whole, *crowd), play_all(pieces, *crowd), strict=True):
        assert [turn.ids for turn in one] == [turn.ids for turn in other]
    assert pieces.passes > whole.passes
    assert pieces.computed_tokens == whole.computed_tokens


def test_what_a_group_shares_is_computed_once(llama):
    prompt = list(range(10, 70))
    same = [(("one", seed), {"prompt": prompt, "turns": 1}) for seed in range(6)]
    apart = [((f"own {seed}", seed), {"prompt": prompt, "turns": 1}) for seed in range(6)]
    shared, separate = TokenEngine(llama), TokenEngine(llama)
    for one, other in zip(play_all(shared, *same), play_all(separate, *apart), strict=True):
        assert one[0].ids == other[0].ids
    assert separate.computed_tokens - shared.computed_tokens >= 5 * len(prompt)


def test_the_count_of_computed_tokens_is_the_size_of_the_tree(llama):
    engine = TokenEngine(llama)
    turns = play_all(engine, *[(("g", seed), {"turns": 1, "prompt": [4, 5, 6, 7]}) for seed in range(5)])
    # The last token of a turn is only computed when something follows it.
    known = {
        (*each.context_ids, *each.ids)[:size]
        for [each] in turns
        for size in range(1, len(each.context_ids) + len(each.ids))
    }
    assert engine.computed_tokens == len(known)


def test_temperature_0_takes_the_likeliest(llama, calls):
    [turns] = play_all(TokenEngine(llama), (("g", 1), {"temperature": 0.0, "constraint": calls, "turns": 2}))
    assert_plain(llama, turns)  # at temperature 1
    ids = []
    for turn in turns:
        ids += turn.context_ids
        for token, allowed in zip(turn.ids, turn.allowed, strict=True):
            if allowed is not None:
                logits = llama(input_ids=torch.tensor([ids])).logits[0, -1].tolist()
                assert token == max(allowed.ids, key=logits.__getitem__)
            ids.append(token)


def test_a_rewritten_history_begins_anew(llama):
    async def run():
        engine, rng = TokenEngine(llama), np.random.default_rng(0)
        sequence = engine.open("g")
        first = await engine.decode(sequence, [5, 6, 7], free(), rng=rng, continues=False)
        second = await engine.decode(sequence, [5, 6, 9], free(), rng=rng, continues=False, policy_version=3)
        third = await engine.decode(sequence, [8], free(), rng=rng, continues=True)
        engine.close(sequence)
        return first, second, third

    turns = asyncio.run(run())
    assert_plain(llama, turns)
    assert turns[1].policy_version == 3
    assert [turn.continues for turn in turns] == [False, False, True]


def test_cancelled_episodes_do_not_disturb_the_others(llama):
    async def run(engine):
        episodes = [asyncio.create_task(play(engine, f"g{number % 2}", number, turns=4)) for number in range(8)]
        while engine.passes < 3:
            await asyncio.sleep(0.001)
        for episode in episodes[::3]:
            episode.cancel()
        return await asyncio.gather(*episodes, return_exceptions=True)

    engine = TokenEngine(llama)
    results = asyncio.run(run(engine))
    cancelled = [isinstance(result, asyncio.CancelledError) for result in results]
    assert cancelled == [number % 3 == 0 for number in range(8)]
    for turns in results:
        if not isinstance(turns, BaseException):
            assert len(turns) == 4
            assert_plain(llama, turns)
    [after] = play_all(engine, (("g0", 99), {}))
    assert_plain(llama, after)


def test_rows_are_used_again_and_nothing_of_their_past_shows(llama):
    engine = TokenEngine(llama)
    for number in range(6):  # longer and longer, then short again
        length = 5 if number == 5 else 20 * (number + 1)
        [turns] = play_all(engine, ((f"visit {number}", number), {"prompt": [number + 3] * length}))
        assert_plain(llama, turns)
    assert engine._row_count == 1
    assert not engine._rows


def test_an_engine_serves_one_event_loop_after_another(llama):
    engine = TokenEngine(llama)
    first = play_all(engine, (("g", 1), {}))
    second = play_all(engine, (("g", 1), {}))
    assert [turn.ids for turn in first[0]] == [turn.ids for turn in second[0]]


def test_a_loop_that_was_left_in_the_middle_does_not_block_the_next(llama):
    engine = TokenEngine(llama)

    async def leave():
        task = asyncio.ensure_future(play(engine, "left", 1, turns=50))
        while engine.passes < 2:
            await asyncio.sleep(0.001)
        return task

    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(leave())
    [turns] = play_all(engine, (("g", 2), {}))
    assert_plain(llama, turns)
    left.cancel()
    loop.run_until_complete(asyncio.gather(left, return_exceptions=True))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


class Broken:
    """Breaks when it is asked what is needed, or when it is told what was chosen."""

    def __init__(self, *, at_need):
        self.at_need = at_need

    def need(self):
        if self.at_need:
            raise ValueError("this constraint is broken")
        return Pick(AllowedTokens(True, (7, 8)))

    def commit(self, ids):
        raise ValueError("this constraint is broken")


@pytest.mark.parametrize("at_need", [True, False])
def test_a_broken_constraint_breaks_its_own_episode_only(llama, at_need):
    async def run(engine):
        bad = play(engine, "g", 1, constraint=lambda: Broken(at_need=at_need))
        return await asyncio.gather(bad, play(engine, "g", 2), play(engine, "h", 3), return_exceptions=True)

    error, *others = asyncio.run(run(TokenEngine(llama)))
    assert isinstance(error, ValueError)
    for turns in others:
        assert_plain(llama, turns)


def test_a_failing_model_reaches_every_waiting_episode_and_the_next_is_served(llama, monkeypatch):
    engine = TokenEngine(llama)
    with monkeypatch.context() as patched:
        patched.setattr(llama.model, "forward", lambda *_, **__: (_ for _ in ()).throw(MemoryError("no room")))

        async def run():
            jobs = (asyncio.wait_for(play(engine, f"g{number}", number), 5) for number in range(4))
            return await asyncio.gather(*jobs, return_exceptions=True)

        assert [type(error) for error in asyncio.run(run())] == [MemoryError] * 4
    [turns] = play_all(engine, (("g0", 1), {}))
    assert_plain(llama, turns)


def test_attention_code_that_adds_its_mask_gives_the_same(tokenizer, llama):
    eager = copy.deepcopy(llama)
    eager.set_attn_implementation("eager")
    [turns] = play_all(TokenEngine(eager), (("g", 1), {}))
    assert_plain(llama, turns)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ({"_attn_implementation_internal": "flash_attention_2"}, "takes no mask"),
    ],
)
def test_models_that_cannot_be_sampled_so_are_refused(llama, monkeypatch, change, words):
    for name, value in change.items():
        monkeypatch.setattr(llama.config, name, value, raising=False)
    with pytest.raises(UserError, match=words):
        TokenEngine(llama)


def test_qwen3_is_sampled_alike(qwen):
    for turns in play_all(TokenEngine(qwen), *((("g", seed), {}) for seed in range(3))):
        assert_plain(qwen, turns)
