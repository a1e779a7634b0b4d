import asyncio
from statistics import fmean

import pytest

from toolorchestra.demo import Market, Setting, best_plans, build_tasks, plans, roles, value_plans
from toolorchestra.demo.table import render, strategy_rows, value_all, worth_rows

# Hard questions are taken from a larger pool: their cells, by wish and price, would hold ten tasks each otherwise.
EVERY_KIND = build_tasks("train", 600, 5)
TASKS = (
    *EVERY_KIND,
    *(task for task in build_tasks("train", 3000, 6) if task.kind == "hard"),
)


@pytest.fixture(scope="module")
def market():
    market = Market()
    yield market
    market.close()


@pytest.fixture(scope="module")
def valued(market):
    return asyncio.run(value_all(market, TASKS))


def test_plans_fit_the_task():
    for task in build_tasks("train", 100, 0):
        labels = {plan.label for plan in plans(task)}
        on_offer = set(roles(task).values())
        assert ("interpreter" in labels) is (task.kind == "arithmetic" and "interpreter" in on_offer)
        assert any(label.startswith("search+") for label in labels) is (task.kind == "lookup")
        assert ("small?dear" in labels) is ({"small", "dear"} <= on_offer)
        assert all(call.tool in task.tools for plan in plans(task) for call in plan.calls)


async def test_an_escalation_happens_only_after_a_hedge(market):
    seen = set()
    for task in build_tasks("train", 100, 0):
        for one in await value_plans(market, task):
            if one.plan.label == "small?dear":
                first = next(message for message in one.trajectory.messages if message.role == "tool")
                asked_twice = sum(one.trajectory.calls.values()) == 2
                assert asked_twice is ("not sure" in first.content)
                seen.add(asked_twice)
    assert seen == {True, False}


async def test_values_are_sorted_and_repeat_exactly(market):
    task = build_tasks("train", 1, 0)[0]
    first, second = [await value_plans(market, task) for _ in range(2)]
    assert [(one.plan, one.reward) for one in first] == [(one.plan, one.reward) for one in second]
    assert [one.reward for one in first] == sorted((one.reward for one in first), reverse=True)
    assert (await best_plans(market, [task])) == {task.id: first[0].plan}


EXPECTED = {
    ("arithmetic", "balanced"): {"interpreter"},
    ("arithmetic", "thrift"): {"interpreter"},
    ("arithmetic", "fast"): {"interpreter"},
    ("arithmetic", "avoid-dear"): {"interpreter"},
    ("lookup", "balanced"): {"search+small"},
    ("lookup", "thrift"): {"search+small"},
    ("lookup", "fast"): {"search+small"},
    ("lookup", "avoid-dear"): {"search+small"},
    ("easy", "balanced"): {"small"},
    ("easy", "thrift"): {"small"},
    ("easy", "fast"): {"small"},
    ("easy", "avoid-dear"): {"small"},
    ("medium", "balanced"): {"small", "dear"},
    ("medium", "thrift"): {"small", "thinker"},
    ("medium", "fast"): {"small", "dear"},
    ("medium", "avoid-dear"): {"small", "thinker"},
    ("hard", "balanced, thinker cheaper"): {"dear"},
    ("hard", "fast, thinker cheaper"): {"dear"},
    ("hard", "thrift, thinker cheaper"): {"thinker"},
    ("hard", "thrift, dear cheaper"): {"dear"},
    ("hard", "avoid-dear, thinker cheaper"): {"thinker"},
}


async def test_the_best_plan_is_what_common_sense_says(valued):
    rows = {(row.kind, row.wish): row for row in worth_rows(TASKS, valued)}
    for key, sensible in EXPECTED.items():
        row = rows[key]
        share = sum(row.best[label] for label in sensible) / row.tasks
        assert share > 0.6, (key, row)


async def test_what_to_do_with_a_hard_question_flips_with_wish_and_price_in_the_mean_too(valued):
    rewards = {(row.kind, row.wish): row.rewards for row in worth_rows(TASKS, valued)}
    for wish, better, worse in (
        ("balanced, thinker cheaper", "dear", "thinker"),
        ("fast, thinker cheaper", "dear", "thinker"),
        ("thrift, thinker cheaper", "thinker", "dear"),
        ("avoid-dear, thinker cheaper", "thinker", "dear"),
    ):
        found = rewards["hard", wish]
        assert found[better] > found[worse] + 0.1, wish


async def test_there_is_much_to_gain_over_always_calling_the_dearest_model(market, valued):
    tasks, valued = EVERY_KIND, {task.id: valued[task.id] for task in EVERY_KIND}
    rows = {row.name: row for row in await strategy_rows(market, tasks, valued)}
    dear, need, oracle = rows["always dear"], rows["by need"], rows["oracle"]
    assert 0.68 < dear.accuracy < 0.8
    assert need.accuracy > 0.93
    assert oracle.accuracy > 0.97
    assert need.usd_per_1k < 0.36 * dear.usd_per_1k
    assert oracle.usd_per_1k < 0.33 * dear.usd_per_1k
    text = render(list(rows.values()), worth_rows(tasks, valued))
    assert "by need" in text
    assert "hard        thrift, thinker cheaper" in text


async def test_the_models_are_as_able_as_their_profiles_say(valued):
    tasks = TASKS
    for kind, label, low, high in (
        ("hard", "dear", 0.9, 1.0),
        ("hard", "thinker", 0.75, 0.93),
        ("hard", "small", 0.0, 0.12),
        ("medium", "small", 0.5, 0.75),
        ("easy", "small", 0.87, 0.99),
        ("lookup", "dear", 0.0, 0.1),
        ("lookup", "search+small", 0.9, 1.0),
        ("arithmetic", "interpreter", 1.0, 1.0),
        ("arithmetic", "dear", 0.65, 0.85),
    ):
        solved = [
            one.trajectory.solved
            for task in tasks
            if task.kind == kind and Setting.read(task).offers
            for one in valued[task.id]
            if one.plan.label == label
        ]
        assert low <= fmean(solved) <= high, (kind, label)
