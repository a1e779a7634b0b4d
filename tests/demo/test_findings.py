"""The demo's comparison and report, on fixed rules in the place of trained models: nothing here needs torch."""

import asyncio
import json

import pytest

from toolorchestra.demo import Market, Setting, StrategyFactory, build_tasks
from toolorchestra.demo.build import under_both_wishes
from toolorchestra.demo.findings import write_findings
from toolorchestra.demo.pipeline import DemoTasks, demo_plan
from toolorchestra.demo.strategies import STRATEGIES
from toolorchestra.demo.systems import DEAREST, LIMITS, TRAINED, WARM, models_by_price
from toolorchestra.errors import UserError
from toolorchestra.policies import RandomCalls
from toolorchestra.rollout import group_requests, run_episodes
from toolorchestra.runs import RunFolder, RunRecord
from toolorchestra.tasks import write_tasks


class Renamed(RandomCalls):
    """Random calls under the warm start's name."""

    name = WARM


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in which a hand-written rule plays the trained orchestrator."""
    folder = tmp_path_factory.mktemp("demo")
    tasks = DemoTasks.of(demo_plan(quick=True, seed=3))
    market = Market()
    try:
        with RunFolder(folder).writing(RunRecord({"seed": 3})) as run:
            write_tasks(folder / "tasks.jsonl", tasks.compared)
            systems = [
                StrategyFactory(TRAINED, STRATEGIES["by need"]),
                StrategyFactory(DEAREST, STRATEGIES[DEAREST]),
                Renamed(seed=1),
            ]
            for factory in systems:
                asked = tasks.compared
                for trajectory in asyncio.run(
                    run_episodes(
                        group_requests(asked, 1),
                        factory=factory,
                        make_environment=market.environment,
                        limits=LIMITS,
                        concurrency=8,
                    )
                ):
                    run.append(trajectory)
    finally:
        market.close()
    return folder


def test_a_good_rule_meets_the_claims_and_the_report_says_that_the_market_is_simulated(run):
    claims = write_findings(run)
    assert len(claims) == 7
    by_text = {claim.text: claim for claim in claims}
    assert by_text["Cost against always calling the dearest model"].met is True
    assert by_text["Reward above the warm start's, on all held-out tasks"].met is True
    assert all(claim.met is True for claim in claims if claim.text.startswith("First call by need"))
    assert by_text["Share of tasks that call the dear model, when asked not to"].met is True
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "The market is simulated" in page


def test_the_summary_holds_every_claim_and_split(run):
    write_findings(run)
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert set(summary["splits"]) == {"test", "heldout_tools", "heldout_prices", "wishes"}
    assert len(summary["claims"]) == 7
    assert summary["first_calls"]["test"]["arithmetic"].get("interpreter", 0) > 0


def test_a_task_under_two_wishes_differs_in_the_wish_alone():
    tasks = under_both_wishes(build_tasks("test", 200, seed=5), 4)
    assert len(tasks) == 8
    for balanced, avoiding in zip(tasks[::2], tasks[1::2], strict=True):
        assert balanced.question == avoiding.question
        assert Setting.read(balanced).offers == Setting.read(avoiding).offers
        assert Setting.read(balanced).seed == Setting.read(avoiding).seed
        assert (Setting.read(balanced).wish, Setting.read(avoiding).wish) == ("balanced", "avoid-dear")


def test_too_few_tasks_for_two_wishes_is_said():
    with pytest.raises(UserError, match="asked for under two wishes"):
        under_both_wishes(build_tasks("test", 5, seed=5), 4)


def test_no_task_of_the_comparison_is_a_task_of_the_training():
    tasks = DemoTasks.of(demo_plan(seed=0))
    trained = {task.question for task in tasks.train if task.kind != "arithmetic"}
    assert not trained & {task.question for task in tasks.compared}


def test_models_are_ordered_by_their_price_in_the_task():
    task = build_tasks("test", 1, seed=0)[0]
    order = models_by_price(task)
    prices = {offer.name: offer.usd_per_call for offer in Setting.read(task).offers}
    assert [prices[name] for name in order] == sorted(prices[name] for name in order)
