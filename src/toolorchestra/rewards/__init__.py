"""Rewards of groups of rollouts: metric matrix, normalisation, preference product, advantages, filters.

Pure functions on arrays. :func:`score_group` does all of them in order; the others are its parts.
"""

from toolorchestra.rewards.advantages import AdvantageResult, Baseline, group_advantages
from toolorchestra.rewards.filters import (
    Reason,
    count_reasons,
    unusable_reason,
    unusable_reasons,
    verdict,
)
from toolorchestra.rewards.group import (
    GroupScore,
    RewardSettings,
    by_group,
    score_group,
)
from toolorchestra.rewards.metrics import metric_columns, metric_matrix, normalise
from toolorchestra.rewards.numbers import masked_mean
from toolorchestra.rewards.reward import (
    CombinedRewards,
    combine_columns,
    reward_parts,
    rewards,
)

__all__ = [
    "AdvantageResult",
    "Baseline",
    "CombinedRewards",
    "GroupScore",
    "Reason",
    "RewardSettings",
    "by_group",
    "combine_columns",
    "count_reasons",
    "group_advantages",
    "masked_mean",
    "metric_columns",
    "metric_matrix",
    "normalise",
    "reward_parts",
    "rewards",
    "score_group",
    "unusable_reason",
    "unusable_reasons",
    "verdict",
]
