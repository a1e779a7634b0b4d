"""One task's market: which tools are on offer, under which names and words, at which prices and speeds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from toolorchestra.demo.roles import MODEL_ROLES, ROLES, Role
from toolorchestra.errors import UserError

MAX_TOOLS = 6
_CALLS_SHOWN = 1000
_DROP_ONE = 0.45
_ADD_ONE = 0.3


@dataclass(frozen=True, slots=True)
class Offer:
    """One tool on offer.

    Attributes:
        name: Its name in this task.
        role: Which part it plays.
        ability: What its description says that it is good at.
        multiplier: Its price, as a multiple of the role's, as text (exact).
        latency_s: Seconds of one call.
    """

    name: str
    role: str
    ability: str
    multiplier: str
    latency_s: float

    @property
    def usd_per_call(self) -> Decimal:
        """Price of one call with a prompt of the nominal length."""
        return ROLES[self.role].usd_per_call * Decimal(self.multiplier)

    @property
    def description(self) -> str:
        """What the orchestrator reads: ability, price, seconds."""
        usd = (self.usd_per_call * _CALLS_SHOWN).normalize()
        return f"{self.ability}. ${usd:f}/1k, {self.latency_s:g}s."

    def to_json(self) -> dict[str, Any]:
        """The plain form that a task's setting holds."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any, *, where: str) -> Offer:
        """Read :meth:`to_json`'s form.

        Raises:
            UserError: A key is missing or unknown, or the role or the price is none.
        """
        try:
            offer = cls(**value)
            known = offer.role in ROLES and Decimal(offer.multiplier).is_finite()
        except (TypeError, ArithmeticError):
            known = False
        if not known:
            raise UserError(
                f"{where}: {value!r} is no tool of the demo market; it has name, role ({', '.join(ROLES)}), ability, "
                "multiplier (a number as text) and latency_s"
            )
        return offer


@dataclass(frozen=True, slots=True)
class Style:
    """Which names, words and prices are in use.

    Attributes:
        held_out_names: Whether tools carry the held-out names and descriptions.
        held_out_prices: Whether price multipliers are those outside of the training range.
    """

    held_out_names: bool = False
    held_out_prices: bool = False


def draw_offers(rng: random.Random, kind: str, style: Style) -> tuple[Offer, ...]:
    """The tools of one task, in random order: four to six, and always enough to solve its kind."""
    roles = _draw_roles(rng, kind)
    names: list[str] = []
    offers: list[Offer] = []
    for role in roles:
        name = _draw_name(rng, role, names, style)
        names.append(name)
        offers.append(_draw_offer(rng, role, name, [o for o in offers if o.role == role.name], style))
    rng.shuffle(offers)
    return tuple(offers)


def reprice(rng: random.Random, offers: Sequence[Offer], style: Style) -> tuple[Offer, ...]:
    """The same tools at newly drawn prices."""
    priced: list[Offer] = []
    for offer in offers:
        twins = [other for other in priced if other.role == offer.role]
        fresh = _draw_offer(rng, ROLES[offer.role], offer.name, twins, style)
        priced.append(Offer(offer.name, offer.role, offer.ability, fresh.multiplier, offer.latency_s))
    return tuple(priced)


def _draw_roles(rng: random.Random, kind: str) -> list[Role]:
    roles = list(ROLES.values())
    if rng.random() < _DROP_ONE:
        # Any one may be missing, but nothing else finds a document; what an interpreter does, a model can try.
        droppable = [role for role in roles if not (kind == "lookup" and role.name == "search")]
        roles.remove(rng.choice(droppable))
    twins = [role for role in roles if role.name in ("small", "dear")]
    if len(roles) < MAX_TOOLS and rng.random() < _ADD_ONE:
        roles.append(rng.choice(twins))
    return roles


def _draw_name(rng: random.Random, role: Role, taken: Sequence[str], style: Style) -> str:
    pool = role.wording.held_out_names if style.held_out_names else role.wording.names
    free = [name for name in pool if name not in taken]
    # A name's beginning is what a small model chooses by, so no two tools of a task begin alike if it can be helped.
    apart = [name for name in free if all(name[:3] != other[:3] for other in taken)]
    return rng.choice(apart or free)


def _draw_offer(rng: random.Random, role: Role, name: str, twins: Sequence[Offer], style: Style) -> Offer:
    multipliers = role.held_out_multipliers if style.held_out_prices else role.multipliers
    apart = [value for value in multipliers if value not in {twin.multiplier for twin in twins}]
    wording = role.wording
    abilities = wording.held_out_abilities if style.held_out_names else wording.abilities
    return Offer(name, role.name, rng.choice(abilities), rng.choice(apart or multipliers), rng.choice(role.latencies_s))


def by_role(offers: Sequence[Offer]) -> dict[str, tuple[str, ...]]:
    """Tool names by the role that they play."""
    return {
        role: tuple(o.name for o in offers if o.role == role) for role in ROLES if any(o.role == role for o in offers)
    }


def models(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """The offers that are language models, the cheapest first."""
    found = (offer for offer in offers if offer.role in MODEL_ROLES)
    return tuple(sorted(found, key=lambda offer: (offer.usd_per_call, offer.latency_s, offer.name)))
