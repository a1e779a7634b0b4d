"""Fixed rules: what an orchestrator is compared with, and what may stand in for one that is not trained yet."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from toolorchestra.config import OrchestratorSettings
from toolorchestra.errors import UserError
from toolorchestra.policies import Agreement, CheapestFirst, OneModel, PolicyFactory, RandomCalls

PREFIX = "rule:"
RULES = ("cheapest-first", "agreement", "random", "always:<tool>")


def is_rule(settings: OrchestratorSettings) -> bool:
    """Whether the orchestrator is a fixed rule rather than a model."""
    return settings.base_url is None and settings.model.startswith(PREFIX)


def make_rule(name: str, *, cheapest_first: Sequence[str], tools: Sequence[str], seed: int = 0) -> PolicyFactory:
    """The rule of a name, with or without ``rule:`` before it.

    Args:
        name: One of :data:`RULES`.
        cheapest_first: The tools that are models, the cheapest first.
        tools: Every tool.
        seed: Of the random rule.

    Raises:
        UserError: There is no such rule, or it cannot work with these tools.
    """
    name = name.removeprefix(PREFIX)
    if name == "random":
        return RandomCalls(seed)
    if name.startswith("always:"):
        return OneModel(_known_tool(name.removeprefix("always:"), tools))
    order = tuple(cheapest_first)
    if name == "cheapest-first" and order:
        return CheapestFirst(lambda task: order)
    if name == "agreement" and len(order) > 1:
        return Agreement(lambda task: order)
    if name in RULES:
        needed = "a tool of the kind model" if name == "cheapest-first" else "two tools of the kind model"
        raise UserError(f"the rule {name!r} needs {needed}: add it under tools, or take another rule")
    raise UserError(f"there is no rule {name[:60]!r}; {_nearest(name)}")


def baselines(
    wanted: str, *, cheapest_first: Sequence[str], tools: Sequence[str], seed: int = 0
) -> tuple[PolicyFactory, ...]:
    """The rules to compare with.

    Args:
        wanted: ``all`` (every model alone, random calls and, with two models or more, both cascades), ``none``, or
            names with commas between them.
        cheapest_first: As in :func:`make_rule`.
        tools: As in :func:`make_rule`.
        seed: Of the random rule.

    Raises:
        UserError: There is no such rule, or it cannot work with these tools.
    """
    if wanted == "none":
        return ()
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    if wanted == "all":
        names = [f"always:{tool}" for tool in cheapest_first] + ["random"]
        names += ["cheapest-first", "agreement"] if len(cheapest_first) > 1 else []
    if not names:
        raise UserError(f"no baselines are named; write all, none, or some of {', '.join(RULES)}, with commas between")
    unique = dict.fromkeys(names)
    return tuple(make_rule(name, cheapest_first=cheapest_first, tools=tools, seed=seed) for name in unique)


def _known_tool(name: str, tools: Sequence[str]) -> str:
    if name not in tools:
        raise UserError(f"no tool {name[:60]!r} to always call; the tools are {', '.join(tools) or '(none)'}")
    return name


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name[:60], RULES, n=1)
    return f"did you mean {near[0]}?" if near else f"the rules are {', '.join(RULES)}"
