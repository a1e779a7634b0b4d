"""Who is compared in the demo: the trained orchestrator, its warm start, and fixed rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from toolorchestra.demo.market import Market, price_per_call, roles, unsure
from toolorchestra.demo.plans import LazyOracle
from toolorchestra.demo.strategies import STRATEGIES, StrategyFactory
from toolorchestra.limits import Limits
from toolorchestra.policies import Agreement, CheapestFirst, PolicyFactory, RandomCalls
from toolorchestra.pricing import Price
from toolorchestra.tasks import Task

TRAINED = "orchestrator"
WARM = "warm start"
DEAREST = "always dearest"
MODEL_ROLES = ("small", "thinker", "dear")

ORCHESTRATOR_PRICE = Price(Decimal("0.02"), Decimal("0.02"), source="simulated: a model of 0.1B parameters")
LIMITS = Limits(turns=4)


def systems(
    tasks: Mapping[str, Sequence[Task]], market: Market, training: Path, model: Path, *, seed: int
) -> list[tuple[PolicyFactory, Sequence[Task]]]:
    """Who is compared, and on what.

    Args:
        tasks: Held-out tasks, by split.
        market: Plays the oracle's plans.
        training: The training's folder, which holds the warm start.
        model: The trained orchestrator's folder.
        seed: Of the random policy.
    """
    compared = [task for split in tasks.values() for task in split]
    scripted: list[PolicyFactory] = [
        *(StrategyFactory(name, strategy) for name, strategy in STRATEGIES.items()),
        RandomCalls(seed=seed),
        CheapestFirst(models_by_price, unsure=unsure),
        Agreement(models_by_price, unsure=unsure),
        LazyOracle(market),
    ]
    every: list[tuple[PolicyFactory, Sequence[Task]]] = [(factory, compared) for factory in scripted]
    every.append((LazyTokens(WARM, training / "warm_start"), compared))
    every.append((LazyTokens(TRAINED, model), compared))
    return every


class LazyTokens:
    """A trained policy that is only loaded when an episode of it is really run."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._factory: PolicyFactory | None = None

    def episode(self, task: Task, sample: int) -> Any:
        """A greedy episode."""
        if self._factory is None:
            from toolorchestra.policies.tokens import DecodingSpeed, load_policy

            self._factory = load_policy(self._folder, name=self.name, price=ORCHESTRATOR_PRICE, speed=DecodingSpeed())
        return self._factory.episode(task, sample)

    def release(self) -> None:
        """Let the model and its cache go; another episode would load it again."""
        self._factory = None


def models_by_price(task: Task) -> list[str]:
    """The models on offer in a task, cheapest first."""
    prices, parts = price_per_call(task), roles(task)
    return sorted((name for name, role in parts.items() if role in MODEL_ROLES), key=lambda name: prices[name])
