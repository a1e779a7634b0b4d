"""The roles of the demo market: what each can do, what it costs, and the names and words it may appear under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from toolorchestra.pricing import Price, Usage

RoleName = Literal["interpreter", "search", "small", "thinker", "dear"]

SIMULATED = "simulated"
"""Where the prices of this market come from, for the record."""

NOMINAL_INPUT_TOKENS = 40
"""Length of the prompt that the price for a thousand calls, as shown in descriptions, is worked out for."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a simulated model is like.

    Attributes:
        skills: Probability of a right answer by kind of question.
        price: Of its tokens, before a task's multiplier.
        output_tokens: Tokens of one answer.
    """

    skills: Mapping[str, float]
    price: Price
    output_tokens: int

    @property
    def usd_per_call(self) -> Decimal:
        """Price of one call with a prompt of the nominal length."""
        return self.price.cost(Usage(NOMINAL_INPUT_TOKENS, self.output_tokens))


@dataclass(frozen=True, slots=True)
class Wording:
    """The names and descriptions that a role may appear under, for training and held out."""

    names: tuple[str, ...]
    abilities: tuple[str, ...]
    held_out_names: tuple[str, ...]
    held_out_abilities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Role:
    """One part that a tool plays in the market.

    Attributes:
        name: The part.
        wording: How it may be called and described.
        usd_per_call: Price of one call before a task's multiplier.
        latencies_s: Seconds of one call, one of these by task.
        multipliers: Price multipliers, one of these by task.
        held_out_multipliers: Multipliers of the split with held-out prices.
        profile: For a model, what it is like.
    """

    name: RoleName
    wording: Wording
    usd_per_call: Decimal
    latencies_s: tuple[float, ...]
    multipliers: tuple[str, ...] = ("1",)
    held_out_multipliers: tuple[str, ...] = ("1",)
    profile: Profile | None = field(default=None)


def _model(
    name: RoleName,
    wording: Wording,
    profile: Profile,
    *,
    latencies_s: tuple[float, ...],
    multipliers: tuple[str, ...],
    held_out_multipliers: tuple[str, ...],
) -> Role:
    price = profile.usd_per_call
    return Role(name, wording, price, latencies_s, multipliers, held_out_multipliers, profile)


INTERPRETER = Role(
    "interpreter",
    Wording(
        names=("calculator", "calculate", "calculator_tool", "calculate_sum", "calculator_app", "calculate_exactly"),
        abilities=("computes exact arithmetic", "exact sums and products", "evaluates a numeric expression"),
        held_out_names=("calculator_pro", "calculation", "calculate_value"),
        held_out_abilities=("works out numbers exactly", "solves an arithmetic formula"),
    ),
    usd_per_call=Decimal("0.00001"),
    latencies_s=(0.1,),
)

SEARCH = Role(
    "search",
    Wording(
        names=("search_docs", "search_files", "search_records", "search_archive", "search_pages", "search_notes"),
        abilities=("finds a passage about Larkhaven", "town and company records", "documents on Larkhaven and Quillon"),
        held_out_names=("search_library", "search_documents", "search_folder"),
        held_out_abilities=("looks in the files of the town", "passages on local people and things"),
    ),
    usd_per_call=Decimal("0.00005"),
    latencies_s=(0.3,),
    multipliers=("1", "2"),
    held_out_multipliers=("0.4", "4"),
)

SMALL = _model(
    "small",
    Wording(
        names=("small_model", "small_llm", "small_chat", "small_assistant", "small_helper", "small_ai"),
        abilities=("small model, common knowledge", "simple questions, reads passages", "cheap model for easy things"),
        held_out_names=("small_bot", "small_gpt", "small_talker"),
        held_out_abilities=("little model for simple things", "everyday knowledge, reads text"),
    ),
    Profile(
        skills={"arithmetic": 0.1, "lookup": 0.02, "easy": 0.93, "medium": 0.62, "hard": 0.05, "reading": 0.95},
        price=Price(Decimal("0.1"), Decimal("0.8"), source=SIMULATED),
        output_tokens=120,
    ),
    latencies_s=(0.5, 1.0, 2.0),
    multipliers=("0.5", "1", "2"),
    held_out_multipliers=("0.25", "3"),
)

THINKER = _model(
    "thinker",
    Wording(
        names=("slow_thinker", "slow_reasoner", "slow_model", "slow_llm", "slow_solver", "slow_ai"),
        abilities=("open model, thinks long, science", "reasons slowly about hard things", "expert topics, slow"),
        held_out_names=("slow_mind", "slow_thought", "slow_scholar"),
        held_out_abilities=("takes its time on difficult questions", "slow but able at science"),
    ),
    Profile(
        skills={"arithmetic": 0.8, "lookup": 0.02, "easy": 0.96, "medium": 0.85, "hard": 0.84, "reading": 0.97},
        price=Price(Decimal("0.5"), Decimal("0.5"), source=SIMULATED),
        output_tokens=2960,
    ),
    latencies_s=(15.0, 30.0, 60.0),
    multipliers=("0.5", "1", "2"),
    held_out_multipliers=("0.3", "3"),
)

DEAR = _model(
    "dear",
    Wording(
        names=("expert_model", "expert_llm", "expert_chat", "expert_assistant", "expert_helper", "expert_ai"),
        abilities=("best model, expert questions", "strongest model for hard things", "knows nearly everything"),
        held_out_names=("expert_bot", "expert_gpt", "expert_mind"),
        held_out_abilities=("most capable model, any topic", "leading model for experts"),
    ),
    Profile(
        skills={"arithmetic": 0.75, "lookup": 0.04, "easy": 0.98, "medium": 0.96, "hard": 0.96, "reading": 0.98},
        price=Price(Decimal("5"), Decimal("20"), source=SIMULATED),
        output_tokens=290,
    ),
    latencies_s=(3.0, 5.0, 8.0),
    multipliers=("0.25", "0.5", "1", "1.5"),
    held_out_multipliers=("0.1", "2.5"),
)

ROLES: Mapping[str, Role] = {role.name: role for role in (INTERPRETER, SEARCH, SMALL, THINKER, DEAR)}
MODEL_ROLES = ("small", "thinker", "dear")
