"""Rules that pick a plan for any demo task without knowing what the models know: what a sensible person would do.

Unlike the oracle they see no outcome. They say what there is to gain over calling one model always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from toolorchestra.demo.offers import Offer, models
from toolorchestra.demo.plans import Plan, PlannedCall, PlanPolicy
from toolorchestra.demo.setting import Setting
from toolorchestra.tasks import Task

Strategy = Callable[[Task], Plan]


def always(role: str) -> Strategy:
    """One model whatever is asked: the cheapest of a role, or of the nearest role where none is on offer."""
    nearest = {"small": ("small", "thinker", "dear"), "thinker": ("thinker", "dear", "small")}
    order = nearest.get(role, ("dear", "thinker", "small"))
    return lambda task: Plan((_planned(_first_of(Setting.read(task), order)),))


def dearest(task: Task) -> Plan:
    """The model with the highest price in the task's market, whatever its role."""
    return Plan((_planned(models(Setting.read(task).offers)[-1]),))


def cascade(task: Task) -> Plan:
    """The small model, then the dear one if the small one is not sure."""
    setting = Setting.read(task)
    return _escalating(_first_of(setting, ("small", "thinker", "dear")), _first_of(setting, ("dear", "thinker")))


def by_need(task: Task) -> Plan:
    """What each kind of task needs, the way its user prefers."""
    setting = Setting.read(task)
    by_role = {offer.role: offer for offer in reversed(setting.offers)}
    expert = _expert(setting)
    cheap = _first_of(setting, ("small", "thinker", "dear"))
    if task.kind == "arithmetic":
        if "interpreter" in by_role:
            return Plan((_planned(by_role["interpreter"], expression=str(setting.expression)),))
        return Plan((_planned(expert),))
    if task.kind == "hard":
        return Plan((_planned(expert),))
    asked = _escalating(cheap, expert)
    if task.kind != "lookup":
        return asked
    return Plan((_planned(by_role["search"], collection=str(setting.collection)), *asked.calls))


STRATEGIES: Mapping[str, Strategy] = {
    "always small": always("small"),
    "always thinker": always("thinker"),
    "always dear": always("dear"),
    "always dearest": dearest,
    "small, dear if unsure": cascade,
    "by need": by_need,
}


@dataclass(frozen=True, slots=True)
class StrategyFactory:
    """The policy of a strategy."""

    name: str
    strategy: Strategy

    def episode(self, task: Task, sample: int) -> PlanPolicy:
        """Plays the strategy's plan for the task."""
        return PlanPolicy(self.strategy(task))


def _expert(setting: Setting) -> Offer:
    """Who is asked what is hard: the cheaper one to save money, the thinker to avoid the dear, else the dear."""
    if setting.wish == "thrift":
        experts = [offer for offer in models(setting.offers) if offer.role in ("thinker", "dear")]
        return experts[0]
    return _first_of(setting, ("thinker", "dear") if setting.wish == "avoid-dear" else ("dear", "thinker"))


def _first_of(setting: Setting, order: tuple[str, ...]) -> Offer:
    """The cheapest offer of the first of these roles that is on offer."""
    offers = models(setting.offers)
    return next(offer for role in order for offer in offers if offer.role == role)


def _escalating(first: Offer, then: Offer) -> Plan:
    if first.name == then.name:
        return Plan((_planned(first),))
    return Plan((_planned(first), PlannedCall(then.name, then.role, if_unsure=True)))


def _planned(offer: Offer, **arguments: str) -> PlannedCall:
    return PlannedCall(offer.name, offer.role, arguments)
