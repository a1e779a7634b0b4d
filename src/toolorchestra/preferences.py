"""A preference: the words that the orchestrator reads, and the vector that the reward uses.

The vector has one weight in [0, 1] for every tool and one each for the outcome, the compute (dollars) and the
latency (seconds): arXiv 2511.21689, section 3.2. A tool that is not named has weight 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolorchestra.errors import UserError

NEUTRAL_WORDS = ""


@dataclass(frozen=True, slots=True)
class Preference:
    """What a user wants besides the right answer.

    Attributes:
        text: The wish in words, added to the instruction; empty for none.
        outcome: Weight of a right answer.
        compute: Weight of few dollars.
        latency: Weight of few seconds.
        tools: Weight of calling each tool, by name.

    Raises:
        UserError: A weight is not a number in [0, 1].
    """

    text: str = NEUTRAL_WORDS
    outcome: float = 1.0
    compute: float = 0.0
    latency: float = 0.0
    tools: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        weights = {"outcome": self.outcome, "compute": self.compute, "latency": self.latency}
        weights |= {f"tools.{name}": weight for name, weight in self.tools.items()}
        for name, weight in weights.items():
            number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
            if not number or not 0.0 <= weight <= 1.0:
                raise UserError(
                    f"preference.{name} is {weight!r}: every weight is a number from 0 (does not matter) to 1 "
                    "(matters most); divide all weights by the largest"
                )

    def vector(self, tool_names: Sequence[str]) -> tuple[float, ...]:
        """The weights in the order of the metric vector: the tools as given, then outcome, compute, latency."""
        tools = (float(self.tools.get(name, 0.0)) for name in tool_names)
        return (*tools, float(self.outcome), float(self.compute), float(self.latency))

    def to_json(self) -> dict[str, Any]:
        """A plain object for files."""
        return {
            "text": self.text,
            "outcome": self.outcome,
            "compute": self.compute,
            "latency": self.latency,
            "tools": dict(self.tools),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Preference:
        """Read :meth:`to_json`'s form.

        Raises:
            UserError: A key is unknown or a weight is out of range.
        """
        known = {"text", "outcome", "compute", "latency", "tools"}
        unknown = sorted(set(value) - known)
        if unknown:
            raise UserError(f"a preference has no key {unknown[0]!r}; it has {', '.join(sorted(known))}")
        return cls(**value)
