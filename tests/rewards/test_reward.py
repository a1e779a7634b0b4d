import numpy as np
import pytest

from toolorchestra.errors import UserError
from toolorchestra.rewards import combine_columns, group_advantages, masked_mean, reward_parts, rewards


def test_reward_is_the_product_with_the_preference_and_zero_for_failures():
    normalised = np.array([[1.0, 0.5], [1.0, 1.0]])
    np.testing.assert_allclose(rewards(normalised, (1.0, 0.5), [True, False]), [1.25, 0.0])


def test_parts_add_up_to_the_reward():
    normalised = np.array([[1.0, 0.5, 0.25], [0.0, 1.0, 1.0]])
    parts = reward_parts(normalised, (0.2, 0.4, 1.0), [True, True])
    np.testing.assert_allclose(parts, [[0.2, 0.2, 0.25], [0.0, 0.4, 1.0]])
    np.testing.assert_allclose(parts.sum(axis=1), rewards(normalised, (0.2, 0.4, 1.0), [True, True]))


@pytest.mark.parametrize(("weights", "solved"), [((1.0,), [True]), ((1.0, 1.0), [True, False]), ((1.0, 1.0), True)])
def test_shapes_that_do_not_fit_are_refused(weights, solved):
    with pytest.raises(ValueError, match="do not fit"):
        rewards(np.array([[1.0, 0.5]]), weights, solved)


def test_abstentions_neither_poison_nor_count_as_wrong():
    """Case grpo-05: NaN propagation, and the nansum of nothing that becomes 0."""
    columns = {"outcome": [1.0, None, None, 0.0], "format": [None, 0.5, float("nan"), 1.0]}
    combined = combine_columns(columns, {"outcome": 1.0, "format": 0.4})
    assert combined.usable.tolist() == [True, True, False, True]
    np.testing.assert_allclose(combined.values, [1.0, 0.2, np.nan, 0.4])
    assert masked_mean(combined.values, combined.usable) == pytest.approx(0.533333, abs=1e-6)
    population = group_advantages(combined.values, combined.usable)
    np.testing.assert_allclose(population.advantages, [1.372813, -0.980581, 0.0, -0.392232], atol=1e-6)
    sample = group_advantages(combined.values, combined.usable, ddof=1)
    np.testing.assert_allclose(sample.advantages, [1.120897, -0.800641, 0.0, -0.320256], atol=1e-6)


def test_without_weights_every_column_counts_once():
    assert combine_columns({"a": [1.0], "b": [0.5]}).values.tolist() == [1.5]


@pytest.mark.parametrize("weights", [{"a": 1.0}, {"a": 1.0, "b": 1.0, "c": 1.0}])
def test_columns_and_weights_must_name_the_same(weights):
    with pytest.raises(UserError, match="must have both a column and a weight"):
        combine_columns({"a": [1.0], "b": [0.5]}, weights)


@pytest.mark.parametrize("columns", [{}, {"a": [1.0], "b": [1.0, 2.0]}])
def test_columns_must_be_of_one_length(columns):
    with pytest.raises(ValueError, match="one length"):
        combine_columns(columns)


def test_metrics_use_the_loss_mask():
    """Case grpo-14: a mean over tool-output tokens too would say 0.25."""
    assert masked_mean([0.0, 0.9, 0.0, 0.1], [1, 0, 1, 1]) == pytest.approx(0.033333, abs=1e-6)


def test_a_mean_over_nothing_is_unknown_and_what_is_masked_may_be_nan():
    assert masked_mean([1.0, 2.0], [0, 0]) is None
    assert masked_mean([[1.0, np.nan]], [[1, 0]]) == 1.0
    with pytest.raises(ValueError, match="shape"):
        masked_mean([1.0, 2.0], [1])
