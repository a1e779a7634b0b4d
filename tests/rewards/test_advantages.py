import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.rewards import group_advantages


def check(result, expected, **tolerance):
    np.testing.assert_allclose(result.advantages, expected, **({"atol": 1e-6} | tolerance))


@pytest.mark.parametrize("std_floor", [0.1, 0.0])
@pytest.mark.parametrize("baseline", ["mean", "leave_one_out"])
@pytest.mark.parametrize(
    "rewards",
    [
        [0.4167, 0.4167, 0.41670001, 0.4167],  # case grpo-01: float noise
        [0.7] * 7,
        [0.1] * 3,
        [0.0, 0.0, 0.0, 0.0],  # all failed
        [0.9],  # a singleton
        [],
    ],
)
def test_groups_without_spread_are_exactly_zero(rewards, baseline, std_floor):
    result = group_advantages(rewards, [True] * len(rewards), baseline=baseline, std_floor=std_floor)
    assert result.advantages.tolist() == [0.0] * len(rewards)
    assert not result.kept


def test_what_is_not_usable_does_not_vote():
    """Case grpo-03: a crashed rollout is missing data, not reward 0."""
    rewards, usable = [0.8, 0.2, 0.5, 0.0], [1, 1, 1, 0]
    result = group_advantages(rewards, usable)
    check(result, [1.224745, -1.224745, 0.0, 0.0])
    assert result.advantages[3] == 0.0
    assert result.mean == pytest.approx(0.5)
    check(group_advantages(rewards, usable, ddof=1), [1.0, -1.0, 0.0, 0.0])


def test_the_published_vote_can_be_restored():
    result = group_advantages([0.8, 0.2, 0.5, 0.0], [1, 1, 1, 0], voting=[1, 1, 1, 1])
    check(result, [1.402136, -0.57735, 0.412393, 0.0])


def test_the_reward_of_an_unusable_rollout_is_not_read():
    check(group_advantages([1.0, 0.0, np.nan], [1, 1, 0]), [1.0, -1.0, 0.0])


def test_nobody_usable():
    result = group_advantages([np.nan, 1.0], [0, 0])
    assert result.advantages.tolist() == [0.0, 0.0]
    assert (result.kept, result.mean, result.std) == (False, None, None)


def test_a_spread_of_exactly_the_floor_is_kept():
    assert np.std([0.4, 0.6]) < 0.1  # by rounding only
    assert group_advantages([0.4, 0.6], [1, 1]).kept
    assert not group_advantages([0.4, 0.599], [1, 1]).kept


def test_clip():
    rewards = [1.0] + [0.0] * 15
    assert group_advantages(rewards, [1] * 16).advantages[0] > 3.0
    assert group_advantages(rewards, [1] * 16, clip=3.0).advantages.max() == 3.0


@pytest.mark.parametrize(("low", "high", "expected"), [(0.1, 0.7, -0.6), (0.1, 0.65, -0.55)])
def test_siblings_that_agree_do_not_divide(low, high, expected):
    """Case grpo-15: a one-pass float32 variance leaves a residue, and -2006.6 as an advantage."""
    rewards = np.array([low] + [high] * 7, dtype=np.float32)
    result = group_advantages(rewards, [1] * 8, baseline="leave_one_out")
    check(result, [expected] + [0.408248] * 7, atol=1e-3)
    assert result.kept


def test_siblings_that_nearly_agree_do_not_blow_up():
    rewards = [0.1] + [0.7] * 6 + [0.7001]
    result = group_advantages(rewards, [1] * 8, baseline="leave_one_out")
    assert abs(result.advantages[0]) < 1.0


def test_leave_one_out_of_two():
    check(group_advantages([1.0, 0.0], [1, 1], baseline="leave_one_out"), [1.0, -1.0])
    check(group_advantages([1.0, 0.0], [1, 1], baseline="leave_one_out", ddof=1), [1.0, -1.0])


def test_two_pass_does_not_cancel():
    rewards = 1e8 + np.array([0.0, 1.0] * 4) * 1000
    check(group_advantages(rewards, [1] * 8), [-1.0, 1.0] * 4)


@pytest.mark.parametrize(
    ("rewards", "usable", "voting", "message"),
    [
        ([1.0, 0.0], [1], None, "shape"),
        ([1.0, 0.0], [1, 1], [1, 0], "must vote"),
        ([1.0, np.nan], [1, 1], None, "not finite"),
        ([1.0, np.inf], [1, 0], [1, 1], "not finite"),
    ],
)
def test_impossible_input_is_refused(rewards, usable, voting, message):
    with pytest.raises(ValueError, match=message):
        group_advantages(rewards, usable, voting=voting)


groups = st.lists(st.tuples(st.floats(0.0, 3.0), st.booleans()), min_size=1, max_size=16)


@given(
    groups,
    st.sampled_from(["mean", "leave_one_out"]),
    st.sampled_from([0, 1]),
    st.sampled_from([0.0, 0.1]),
    st.randoms(use_true_random=False),
)
def test_advantages_are_finite_and_follow_their_rollouts(group, baseline, ddof, std_floor, random):
    def advantages(rows):
        rewards, usable = zip(*rows, strict=True)
        return group_advantages(rewards, usable, baseline=baseline, ddof=ddof, std_floor=std_floor)

    result = advantages(group)
    assert np.isfinite(result.advantages).all()
    assert (result.advantages[[not usable for _, usable in group]] == 0.0).all()
    order = list(range(len(group)))
    random.shuffle(order)
    shuffled = advantages([group[index] for index in order])
    assert shuffled.advantages.tolist() == result.advantages[order].tolist()
    assert shuffled.kept == result.kept
    if result.kept and baseline == "mean":
        used = result.advantages[[usable for _, usable in group]]
        assert used.mean() == pytest.approx(0.0, abs=1e-6)
        assert used.std(ddof=ddof) == pytest.approx(1.0, abs=1e-6)
