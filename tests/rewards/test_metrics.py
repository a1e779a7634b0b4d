from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.rewards import metric_columns, metric_matrix, normalise


def test_matrix_has_counts_outcome_and_negated_cost_and_latency(make):
    first = make({"search": 2, "big": 1}, usd="0.30", seconds=40.0)
    second = make({"other": 1}, usd="0.06", seconds=100.0, solved=False)
    matrix = metric_matrix([first, second], ["search", "local", "big"])
    assert metric_columns(["search", "local", "big"]) == ("search", "local", "big", "outcome", "compute", "latency")
    np.testing.assert_allclose(matrix, [[2, 0, 1, 1, -0.30, -40], [0, 0, 0, 0, -0.06, -100]])
    assert matrix.dtype == np.float64


def test_no_trajectories_are_a_matrix_without_rows():
    assert metric_matrix([], ["search"]).shape == (0, 4)


def test_malformed_calls_are_not_counted(make):
    assert metric_matrix([make({"search": 1}, malformed=3)], ["search"])[0, 0] == 1


def test_unknown_cost_is_an_error_that_names_the_trajectory_and_who_has_no_price(make):
    with pytest.raises(UserError, match=r"'t7', sample 3: the cost is unknown because orchestrator has no price"):
        metric_matrix([make(usd=None, task_id="t7", sample=3)], [])


@pytest.mark.parametrize(
    ("usd", "seconds"), [("NaN", 1.0), ("Infinity", 1.0), ("1", float("nan")), ("1", float("inf"))]
)
def test_numbers_that_are_not_finite_are_refused(make, usd, seconds):
    with pytest.raises(UserError, match="not a finite number"):
        metric_matrix([make(usd=usd, seconds=seconds)], [])


def test_a_tool_named_twice_is_an_error(make):
    with pytest.raises(UserError, match="'search' is named twice"):
        metric_matrix([make()], ["search", "big", "search"])


def test_the_example_of_the_design():
    matrix = np.array([[1, -0.10, 0], [1, -0.30, 0], [1, -0.50, 0]])
    np.testing.assert_allclose(normalise(matrix), [[0, 1, 0], [0, 0.5, 0], [0, 0, 0]])


@pytest.mark.parametrize("noise", [0.0, 1e-16, 1e-12, 2.5e-8])
def test_a_column_constant_up_to_noise_becomes_zero(noise):
    # 2.5e-8 is what 0.4167 loses as a float32.
    column = np.array([[0.4167], [0.4167], [0.4167 * (1 + noise)]])
    assert normalise(column).tolist() == [[0.0], [0.0], [0.0]]


def test_small_but_real_differences_are_kept():
    np.testing.assert_allclose(normalise(np.array([[-1e-9], [-3e-9], [-5e-9]])), [[1], [0.5], [0]])


def test_one_row_and_no_rows_are_zero():
    assert normalise(np.array([[3.0, -0.5]])).tolist() == [[0.0, 0.0]]
    assert normalise(np.zeros((0, 4))).shape == (0, 4)


def test_input_is_left_alone():
    matrix = np.array([[1.0], [2.0]])
    normalise(matrix)
    assert matrix.tolist() == [[1.0], [2.0]]


cents = st.lists(st.integers(0, 10_000), min_size=1, max_size=12)


@given(cents, st.sampled_from(["1", "0.01", "149.5", "1e-6", "1e6"]))
def test_the_unit_of_money_does_not_matter(amounts, unit):
    dollars = np.array([[-float(Decimal(amount))] for amount in amounts])
    other = np.array([[-float(Decimal(amount) * Decimal(unit))] for amount in amounts])
    np.testing.assert_allclose(normalise(dollars), normalise(other), atol=1e-9)


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=12))
def test_normalised_values_are_in_the_unit_interval_and_keep_the_order(values):
    result = normalise(np.array([values]).T)[:, 0]
    assert np.isfinite(result).all()
    assert result.min() >= 0.0
    assert result.max() <= 1.0
    order = np.argsort(values)
    assert (np.diff(result[order]) >= 0.0).all()
