import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.evaluation import Estimate, difference, mean, proportion, ratio, share, wilson


def test_mean_of_values_by_task():
    estimate = mean({"a": [1.0, 3.0], "b": [5.0], "c": []})
    assert estimate is not None
    assert (estimate.value, estimate.n) == (3.0, 2)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < 3.0 < estimate.high


def test_nothing_and_next_to_nothing():
    assert mean({}) is None
    assert mean({"a": []}) is None
    assert mean({"a": [2.0, 4.0]}) == Estimate(3.0, None, None, 1)
    assert mean({"a": [2.0], "b": [2.0], "c": [2.0]}) == Estimate(2.0, 2.0, 2.0, 3)


def test_the_same_seed_gives_the_same_interval():
    values = {str(number): [float(number % 7)] for number in range(30)}
    assert mean(values, seed=4) == mean(values, seed=4)
    assert mean(values, seed=4) != mean(values, seed=5)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(60):
        estimate = mean({str(task): [value] for task, value in enumerate(random.normal(1.0, 1.0, 40))})
        assert estimate is not None
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 1.0 <= estimate.high
    assert 51 <= covered <= 60


def test_samples_of_one_task_are_not_independent():
    values = [float(number % 5) for number in range(20)]
    once = mean({str(task): [value] for task, value in enumerate(values)})
    eightfold = mean({str(task): [value] * 8 for task, value in enumerate(values)})
    assert once is not None
    assert eightfold is not None
    assert eightfold.low == pytest.approx(once.low)  # eight copies are no new evidence
    assert eightfold.n == 20


def test_wilson_against_published_values():
    # Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (3, 2), (-1, 2)])
def test_wilson_refuses_what_is_no_proportion(successes, n):
    with pytest.raises(ValueError, match="no proportion"):
        wilson(successes, n)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_estimate(case):
    successes, n = case
    low, high = wilson(successes, n)
    assert 0.0 <= low <= successes / n <= high <= 1.0
    assert low < high


def test_a_proportion_of_one_keeps_a_width():
    assert proportion({str(task): [True] for task in range(10)}) == Estimate(1.0, *wilson(10, 10), 10)
    repeated = proportion({str(task): [True, True] for task in range(10)})
    assert repeated == Estimate(1.0, *wilson(10, 10), 10)
    assert proportion({"a": [True]}) == Estimate(1.0, *wilson(1, 1), 1)
    assert proportion({}) is None


def test_a_proportion_of_several_samples_is_clustered():
    estimate = proportion({str(task): [task % 2 == 0] * 8 for task in range(20)})
    assert estimate is not None
    assert estimate.value == 0.5
    assert estimate.low is not None
    assert estimate.low < 0.35  # 160 independent answers would give 0.42


def test_difference_is_paired_by_task():
    hard_and_easy = {str(task): [10.0 * task] for task in range(20)}
    better = {task: [value + 1.0 + 0.1 * (int(task) % 3)] for task, (value,) in hard_and_easy.items()}
    estimate = difference({**better, "only here": [99.0]}, {**hard_and_easy, "only there": [0.0], "empty": []})
    assert estimate is not None
    assert estimate.value == pytest.approx(1.095)
    assert estimate.n == 20
    assert estimate.low is not None
    assert estimate.low > 1.0
    assert difference({"a": [1.0]}, {"b": [1.0]}) is None


def test_ratio():
    estimate = ratio({"a": [1.0], "b": [2.0, 4.0]}, {"a": [4.0, 4.0], "b": [6.0]})
    assert estimate is not None
    assert estimate.value == pytest.approx(0.4)
    assert ratio({"a": [1.0], "b": [2.0]}, {"a": [2.0], "b": [4.0]}) == Estimate(0.5, 0.5, 0.5, 2)
    assert ratio({"a": [1.0]}, {"a": [0.0]}) is None


def test_a_reference_that_is_often_free_does_not_break_the_ratio():
    estimate = ratio({"a": [1.0], "b": [1.0], "c": [0.0]}, {"a": [2.0], "b": [0.0], "c": [0.0]})
    assert estimate is not None
    assert estimate.value == 1.0


def test_share_ignores_tasks_without_anything():
    estimate = share({"a": [1.0], "b": [0.0], "c": [0.0]}, {"a": [2.0], "b": [2.0], "c": [0.0]})
    assert estimate is not None
    assert (estimate.value, estimate.n) == (0.25, 2)
    assert share({"a": [0.0]}, {"a": [0.0]}) is None
