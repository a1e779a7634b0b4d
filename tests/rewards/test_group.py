from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.preferences import Preference
from toolorchestra.rewards import RewardSettings, by_group, score_group

TOOLS = ("search", "big")


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_worked_example_of_the_paper(make):
    """Case reward-01: dollars, seconds and counts on different scales."""
    preference = Preference(outcome=1, compute=0.5, latency=0.25, tools={"local_search": 1})
    rollouts = [
        make({"web_search": 2, "big_llm": 1}, usd="0.3", seconds=40.0),
        make({"local_search": 3}, usd="0.06", seconds=100.0),
        make({"web_search": 1, "local_search": 1, "big_llm": 1}, usd="0.1", seconds=20.0, solved=False),
        make({"local_search": 1, "big_llm": 1}, usd="0.18", seconds=60.0),
    ]
    tools = ("web_search", "local_search", "big_llm")
    score = score_group(rollouts, preference, tools)
    close(
        score.normalised,
        [
            [1.0, 0.0, 1.0, 1.0, 0.0, 0.75],
            [0.0, 1.0, 0.0, 1.0, 1.0, 0.0],
            [0.5, 0.333333, 1.0, 0.0, 0.833333, 1.0],
            [0.0, 0.333333, 1.0, 1.0, 0.5, 0.5],
        ],
    )
    close(score.rewards, [1.1875, 2.5, 0.0, 1.708333])
    close(score.parts.sum(axis=1), score.rewards)
    close(score.advantages, [-0.177765, 1.267293, -1.485198, 0.395671])
    sample = score_group(rollouts, preference, tools, RewardSettings(ddof=1))
    close(sample.advantages, [-0.153949, 1.097508, -1.286219, 0.342661])
    assert score.left_out == {}
    assert score.trained.all()


def test_constant_columns_do_not_divide_by_zero(make):
    """Case reward-02."""
    preference = Preference(outcome=1, compute=1, latency=0.5, tools={"web_search": 1})
    rollouts = [make({"web_search": 1}, usd=usd, seconds=10.0) for usd in ("0.02", "0.05", "0.11", "0.02")]
    score = score_group(rollouts, preference, ["web_search"])
    close(score.normalised, [[0, 0, 1, 0], [0, 0, 0.666667, 0], [0, 0, 0, 0], [0, 0, 1, 0]])
    close(score.rewards, [1.0, 0.666667, 0.0, 1.0])
    close(score.advantages, [0.816497, 0.0, -1.632993, 0.816497])
    alone = score_group(rollouts[:1], preference, ["web_search"])
    assert (alone.rewards.tolist(), alone.advantages.tolist()) == ([0.0], [0.0])
    assert alone.left_out == {"low_spread": 1}


def test_where_everybody_failed_giving_up_cheaply_is_no_merit(make):
    """Case reward-03."""
    preference = Preference(outcome=1, compute=1, latency=1)
    failures = [({"search": 4}, "0.4", 90.0), ({}, "0", 2.0), ({"search": 1, "big": 2}, "0.15", 30.0)]
    rollouts = [make(calls, usd=usd, seconds=seconds, solved=False) for calls, usd, seconds in failures]
    score = score_group(rollouts, preference, TOOLS)
    assert score.rewards.tolist() == [0.0, 0.0, 0.0]
    assert score.advantages.tolist() == [0.0, 0.0, 0.0]
    assert not score.kept
    assert score.left_out == {"low_spread": 3}


def test_three_right_answers_of_the_design(make):
    rollouts = [make(usd=usd, seconds=5.0) for usd in ("0.10", "0.30", "0.50")]
    score = score_group(rollouts, Preference(compute=1.0), [])
    close(score.normalised[:, 1], [1.0, 0.5, 0.0])


def test_a_lost_rollout_is_not_the_quickest(make):
    right = [make(usd="0.1", seconds=10.0), make(usd="0.3", seconds=20.0)]
    lost = make(usd=None, seconds=0.1, status="missing", outcome=None)
    score = score_group([right[0], lost, right[1]], Preference(compute=1.0, latency=1.0), [])
    close(score.rewards[[0, 2]], [2.0, 0.0])
    assert np.isnan(score.rewards[1])
    assert np.isnan(score.metrics[1]).all()
    assert score.advantages.tolist() == [1.0, 0.0, -1.0]
    assert score.reasons == (None, "missing", None)
    assert score.left_out == {"missing": 1}


def test_malformed_rollouts_vote_only_if_asked_to(make):
    rollouts = [make(usd="0.1"), make(usd="0.1"), make(usd="0.2"), make(usd="0.1", solved=False, malformed=1)]
    preference = Preference(compute=1.0)
    ours = score_group(rollouts, preference, [])
    close(ours.rewards[:3], [1.0, 1.0, 0.0])
    assert ours.mean == pytest.approx(2 / 3)
    published = score_group(rollouts, preference, [], RewardSettings(malformed_vote=True))
    close(published.rewards, [2.0, 2.0, 1.0, 0.0])
    assert published.mean == pytest.approx(1.25)
    assert published.advantages[3] == 0.0
    assert published.advantages[2] > ours.advantages[2]
    assert published.left_out == ours.left_out == {"malformed_call": 1}


def test_without_a_verdict_nothing_votes_whatever_the_setting(make):
    rollouts = [make(usd="0.1"), make(usd="0.2"), make(usd="9", solved=None)]
    score = score_group(rollouts, Preference(compute=1.0), [], RewardSettings(malformed_vote=True))
    close(score.rewards[:2], [1.0, 0.0])
    assert np.isnan(score.rewards[2])


def test_clip_and_baseline_reach_the_advantages(make):
    rollouts = [make(usd="0.1"), make(usd="0.2"), make(usd="0.3")]
    clipped = score_group(rollouts, Preference(compute=1.0), [], RewardSettings(clip=0.5))
    close(clipped.advantages, [0.5, 0.0, -0.5])
    left_out = score_group(rollouts, Preference(compute=1.0), [], RewardSettings(baseline="leave_one_out"))
    close(left_out.advantages, [3.0, 0.0, -3.0])
    assert not score_group(rollouts, Preference(compute=1.0), [], RewardSettings(std_floor=0.5)).kept


def test_unknown_cost_stops_and_names_the_rollout(make):
    with pytest.raises(UserError, match="'t1', sample 1"):
        score_group([make(), make(usd=None, sample=1)], Preference(), [])


def test_groups_are_not_mixed(make):
    with pytest.raises(ValueError, match="g1, g2"):
        score_group([make(), make(group="g2")], Preference(), [])


def test_by_group_gathers_what_arrives_in_any_order(make):
    rollouts = [make(group=group, sample=sample) for sample in (1, 0) for group in ("b", "a")]
    groups = by_group(rollouts)
    assert {name: [t.sample for t in members] for name, members in groups.items()} == {"b": [1, 0], "a": [1, 0]}
    assert score_group((), Preference(), []).advantages.shape == (0,)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"std_floor": -0.1}, "rewards.std_floor"),
        ({"std_floor": float("nan")}, "rewards.std_floor"),
        ({"ddof": 2}, "rewards.ddof"),
        ({"clip": 0.0}, "rewards.clip"),
        ({"baseline": "median"}, "rewards.baseline"),
    ],
)
def test_settings_out_of_range_name_their_key(values, key):
    with pytest.raises(UserError, match=key):
        RewardSettings(**values)


rollouts_of_a_group = st.lists(
    st.fixed_dictionaries(
        {
            "calls": st.dictionaries(st.sampled_from(TOOLS), st.integers(0, 5)),
            "cents": st.integers(0, 200),
            "tenths": st.integers(0, 900),
            "solved": st.sampled_from([True, False, None]),
            "malformed": st.sampled_from([0, 0, 0, 1]),
            "status": st.sampled_from(["done", "done", "done", "missing", "limit"]),
        }
    ),
    min_size=1,
    max_size=10,
)
weight = st.floats(0.0, 1.0)
preferences = st.builds(
    lambda outcome, compute, latency, search, big: Preference(
        outcome=outcome, compute=compute, latency=latency, tools={"search": search, "big": big}
    ),
    weight,
    weight,
    weight,
    weight,
    weight,
)
settings = st.builds(
    RewardSettings,
    malformed_vote=st.booleans(),
    baseline=st.sampled_from(["mean", "leave_one_out"]),
    ddof=st.sampled_from([0, 1]),
)


def group_of(make, rows, unit="1"):
    return [
        make(
            row["calls"],
            usd=str(Decimal(row["cents"]) / 100 * Decimal(unit)),
            seconds=row["tenths"] / 10,
            solved=row["solved"],
            malformed=row["malformed"],
            status=row["status"],
        )
        for row in rows
    ]


@given(rollouts_of_a_group, preferences, settings)
def test_rewards_are_bounded_and_zero_for_failures(make, rows, preference, setting):
    rollouts = group_of(make, rows)
    score = score_group(rollouts, preference, TOOLS, setting)
    scored = score.rewards[~np.isnan(score.rewards)]
    assert (scored >= 0.0).all()
    assert (scored <= sum(preference.vector(TOOLS)) + 1e-12).all()
    assert np.isfinite(score.advantages).all()
    assert (score.advantages[~score.trained] == 0.0).all()
    for rollout, reward, reason in zip(rollouts, score.rewards, score.reasons, strict=True):
        assert reward == 0.0 or np.isnan(reward) or rollout.solved
        assert np.isnan(reward) or reason not in ("missing", "no_verdict")


@given(rollouts_of_a_group, preferences, settings, st.randoms(use_true_random=False))
def test_order_does_not_matter(make, rows, preference, setting, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    rollouts = group_of(make, rows)
    score = score_group(rollouts, preference, TOOLS, setting)
    shuffled = score_group([rollouts[index] for index in order], preference, TOOLS, setting)
    np.testing.assert_array_equal(shuffled.rewards, score.rewards[order])
    np.testing.assert_array_equal(shuffled.advantages, score.advantages[order])
    assert shuffled.reasons == tuple(score.reasons[index] for index in order)


@given(rollouts_of_a_group, preferences, st.sampled_from(["0.01", "149.5", "0.000001"]))
def test_the_unit_of_money_does_not_matter(make, rows, preference, unit):
    dollars = score_group(group_of(make, rows), preference, TOOLS)
    other = score_group(group_of(make, rows, unit), preference, TOOLS)
    np.testing.assert_allclose(dollars.rewards, other.rewards, atol=1e-9)


@given(rollouts_of_a_group, preferences)
def test_missing_rollouts_change_nothing_for_their_siblings(make, rows, preference):
    present = [rollout for rollout in group_of(make, rows) if rollout.status != "missing"]
    lost = [replace(rollout, status="missing", sample=99) for rollout in group_of(make, rows)]
    alone = score_group(present, preference, TOOLS)
    together = score_group([*present, *lost], preference, TOOLS)
    np.testing.assert_array_equal(together.rewards[: len(present)], alone.rewards)
    np.testing.assert_array_equal(together.advantages[: len(present)], alone.advantages)
