"""What the users of the demo market want: the wish in words, and the vector that rewards heeding it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from toolorchestra.preferences import Preference

WishName = Literal["balanced", "thrift", "fast", "avoid-dear"]


@dataclass(frozen=True, slots=True)
class Wish:
    """One kind of wish.

    Attributes:
        name: For breakdowns.
        outcome: Weight of a right answer.
        compute: Weight of few dollars.
        latency: Weight of few seconds.
        roles: Weights of calling tools, by role.
        words: Ways to say it; ``{names}`` stands for the tools to be avoided.
        held_out_words: Ways that no training task uses.
    """

    name: WishName
    outcome: float
    compute: float
    latency: float
    words: tuple[str, ...]
    held_out_words: tuple[str, ...]
    roles: Mapping[str, float] = field(default_factory=dict)

    def preference(
        self, rng: random.Random, tools_by_role: Mapping[str, Sequence[str]], *, held_out: bool
    ) -> Preference:
        """The preference of one task: the words filled in, the weights on the tools that play the roles."""
        words = self.held_out_words if held_out else self.words
        names = " or ".join(tools_by_role.get("dear", ()))
        tools = {tool: weight for role, weight in self.roles.items() for tool in tools_by_role.get(role, ())}
        text = rng.choice(words).format(names=names)
        return Preference(text, outcome=self.outcome, compute=self.compute, latency=self.latency, tools=tools)


BALANCED = Wish(
    "balanced",
    outcome=1.0,
    compute=0.2,
    latency=0.7,
    words=("", "", "Balance cost and time.", "Be sensible about cost and time.", "A good answer at a fair price."),
    held_out_words=("", "Weigh price and time.", "Keep cost and time reasonable."),
)
THRIFT = Wish(
    "thrift",
    outcome=1.0,
    compute=1.0,
    latency=0.0,
    words=(
        "Keep it cheap.",
        "Spend as little as possible.",
        "Save money.",
        "Take the cheapest way.",
        "Low cost, please.",
    ),
    held_out_words=("My budget is tiny.", "Do not waste money.", "As cheap as you can."),
)
FAST = Wish(
    "fast",
    outcome=1.0,
    compute=0.1,
    latency=1.0,
    words=("I am in a hurry.", "Be quick.", "Answer fast.", "I have no time to wait.", "As fast as possible."),
    held_out_words=("Hurry up.", "I need it right now.", "Speed matters most."),
)
AVOID_DEAR = Wish(
    "avoid-dear",
    outcome=1.0,
    compute=1.0,
    latency=0.5,
    words=(
        "Do not use {names}.",
        "Avoid {names}.",
        "Please stay away from {names}.",
        "Answer without {names}.",
        "No {names}, please.",
    ),
    held_out_words=("Leave {names} out of this.", "I do not want {names}.", "Never call {names}."),
    roles={"thinker": 0.5},
)

WISHES: Mapping[str, Wish] = {wish.name: wish for wish in (BALANCED, THRIFT, FAST, AVOID_DEAR)}
