import json

import pytest

from toolorchestra.errors import UserError
from toolorchestra.evaluation import call_share, pooled_rewards, summarise
from toolorchestra.preferences import Preference


def test_a_system_in_numbers(make):
    trajectories = [
        make({"ask_large": 1}, usd="0.04", seconds=2.0, task_id="a", kind="hard"),
        make({"ask_small": 2}, usd="0.02", seconds=1.0, task_id="b", kind="easy", solved=False),
        make({"ask_small": 1}, task_id="c", kind="easy", solved=None),
        make(task_id="d", kind="easy", status="missing", usd=None, outcome=None),
        make(task_id="e", status="limit", limit="turns", outcome=None, malformed=1, forced_answer=True),
    ]
    summary = summarise({"system": trajectories})["system"]
    assert (summary.rollouts, summary.tasks, summary.missing, summary.unjudged) == (4, 4, 1, 1)
    assert summary.accuracy is not None
    assert (summary.accuracy.value, summary.accuracy.n) == (pytest.approx(1 / 3), 3)
    assert summary.cost_usd is not None
    assert summary.cost_usd.value == pytest.approx(0.015)
    assert summary.latency_s is not None
    assert summary.latency_s.value == pytest.approx((2.0 + 1.0 + 4 * 0.2) / 4)
    assert (summary.malformed, summary.forced_answers, summary.limits) == (1, 1, {"turns": 1})
    assert summary.calls == {"ask_large": 1, "ask_small": 3}
    assert summary.kinds["easy"].calls == {"ask_small": 3}
    assert summary.kinds["easy"].rollouts == 2
    assert summary.turns == 2.0
    assert summary.reward is None
    assert json.loads(json.dumps(summary.to_json()))["kinds"]["hard"]["calls"] == {"ask_large": 1}


def test_an_unknown_cost_is_never_zero(make):
    summary = summarise({"system": [make(usd="0.1"), make(usd=None, sample=1)]})["system"]
    assert summary.cost_usd is None
    assert summary.unknown_cost == 1


def test_against_a_reference(make):
    ours = [make(usd="0.01", task_id=f"t{n}", solved=n > 2) for n in range(20)]
    dear = [make(usd="0.04", task_id=f"t{n}", solved=n > 0) for n in range(20)]
    summaries = summarise({"ours": ours, "dear": dear}, reference="dear")
    assert summaries["ours"].cost_ratio is not None
    assert summaries["ours"].cost_ratio.value == pytest.approx(0.25)
    assert summaries["ours"].accuracy_difference is not None
    assert summaries["ours"].accuracy_difference.value == pytest.approx(-0.1)
    unknown = [make(usd=None, task_id=f"t{n}") for n in range(20)]
    assert summarise({"ours": ours, "dear": unknown}, reference="dear")["ours"].cost_ratio is None


def test_a_system_where_everything_is_missing(make):
    summary = summarise({"system": [make(status="missing", outcome=None)]})["system"]
    assert (summary.accuracy, summary.cost_usd, summary.latency_s, summary.turns) == (None, None, None, None)
    assert summary.missing == 1


def test_what_cannot_be_compared_is_named(make):
    with pytest.raises(UserError, match="'dear' is not among the systems: ours"):
        summarise({"ours": [make()]}, reference="dear")
    with pytest.raises(UserError, match="ours: task 't1' has sample 0 twice"):
        summarise({"ours": [make(), make()]})


def test_call_share(make):
    trajectories = [make({"ask_large": 1, "ask_small": 1}, task_id="a"), make({"ask_small": 2}, task_id="b"), make()]
    estimate = call_share(trajectories, "ask_large")
    assert estimate is not None
    assert (estimate.value, estimate.n) == (0.25, 2)


def test_rewards_are_pooled_over_systems(make):
    systems = {
        "cheap": [make(usd="0.1", solved=True), make(usd="0.1", task_id="t2", solved=False)],
        "dear": [make(usd="0.3", group="another"), make(usd="0.5", task_id="t2", malformed=1)],
        "lost": [make(usd=None, status="missing", outcome=None)],
    }
    rewards = pooled_rewards(systems, {"t1": Preference(compute=1.0), "t2": Preference(compute=1.0)})
    assert rewards == {
        "cheap": {("t1", 0): 1.0, ("t2", 0): 0.0},
        "dear": {("t1", 0): 0.0, ("t2", 0): 1.0},  # t1: dearest; t2: right where the other was wrong
        "lost": {("t1", 0): None},
    }
    summaries = summarise(systems, rewards=rewards)
    assert summaries["cheap"].reward is not None
    assert summaries["cheap"].reward.value == 0.5
    assert summaries["lost"].reward is None


def test_pooled_rewards_use_the_tools_on_offer(make):
    systems = {"one": [make({"local_search": 1})], "two": [make({"ask_large": 1})]}
    wish = {"t1": Preference(tools={"local_search": 1.0})}
    assert pooled_rewards(systems, wish)["one"] == {("t1", 0): 1.0}
    assert pooled_rewards(systems, wish, {"t1": ["ask_large"]})["one"] == {("t1", 0): 0.0}
    with pytest.raises(UserError, match="'t1' has trajectories but no preference"):
        pooled_rewards(systems, {})
