"""What ``step.py`` trains on, the same for every contender: four questions, two tools, and rollouts that are scripted.

SmolLM2 does not call tools by itself, and TRL's loop ends an episode at the first turn without a call. So that every
rollout has two tool turns and an answer, its words are given: the model decodes every token of them, and each token
drawn is replaced by the script's.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, Literal, get_args

from toolorchestra.tasks import Task

GROUP = 8
TOOL_TURNS = 2

SYSTEM = (
    "You answer questions about a small town on a river. You cannot look anything up yourself: two tools can, and each "
    "of their answers costs money and time. Read what they return before you go on, ask for what is still missing, and "
    "then answer in one sentence. Call one tool at a time."
)
Subject = Literal["harbour", "railway", "bridge", "market", "mill", "school"]
Place = Literal["north bank", "old quarter", "east gate", "new town", "island", "south bank"]
QUESTIONS = (
    "In which year was the stone bridge over the river opened, and how many people lived next to it then? The user "
    "would like to spend as little as possible.",
    "Which of the two banks had the larger market in the year of the flood, and who had paid for its hall? The user is "
    "in no hurry.",
    "How long did the mill work after the railway had come to the east gate, and what was it used for when it had "
    "closed?",
    "How many children of the old quarter went to the school in its first year, and which of its teachers had come by "
    "ship?",
)
TASKS = tuple(Task(f"town-{number}", question, "") for number, question in enumerate(QUESTIONS))


class Town:
    """The tools. TRL takes an instance as its environment; ours wraps the same methods as tools.

    Args:
        numbered: Put the number of the look-up before each result, as our environment does by itself.
    """

    def __init__(self, numbered: bool = False) -> None:
        self._numbered = numbered
        self._count = 0
        self._task = ""

    def reset(self, task: str = "", **_: Any) -> None:
        """Begin an episode. TRL gives the row of its data set."""
        self._task, self._count = task, 0

    # TRL and transformers read the descriptions from these docstrings.
    def archive(self, subject: Subject) -> str:
        """Finds what the archive says of a building or a line: when it was built and for how much. $0.002, 1 s

        Args:
            subject: What to look up.
        """
        return self._entry("archive", subject, f"The {subject}: begun in {{}} and finished in {{}}, for {{}} crowns.")

    def census(self, place: Place) -> str:
        """Counts the people, houses and trades of a part of the town in the year of each census. $0.001, 2 s

        Args:
            place: Which part.
        """
        return self._entry("census", place, f"The {place}: {{}} people in {{}} houses, and {{}} of them at work there.")

    def _entry(self, tool: str, value: str, words: str) -> str:
        draw = random.Random(f"{self._task} {tool} {value}")
        self._count += 1
        number = f"[{self._count}] " if self._numbered else ""
        return number + words.format(*(draw.randint(1000, 1999) for _ in range(3)))


Call = tuple[str, str, str]
"""Tool, argument, value."""

CALLS: tuple[Call, ...] = (
    *(("archive", "subject", value) for value in get_args(Subject)),
    *(("census", "place", value) for value in get_args(Place)),
)


@dataclass(frozen=True, slots=True)
class Script:
    """What one rollout says: two calls and an answer."""

    calls: tuple[Call, ...]
    answer: str

    @property
    def turns(self) -> tuple[str, ...]:
        """The texts of the turns, end tokens left out."""
        return (*(_call_text(call) for call in self.calls), self.answer)


def _call_text(call: Call) -> str:
    tool, argument, value = call
    arguments = json.dumps({argument: value})
    return f'<tool_call>\n{{"name": "{tool}", "arguments": {arguments}}}\n</tool_call>'


def script(step: int, task: str, sample: int) -> Script:
    """A rollout's script. No two rollouts of a group begin with the same call, so they share little but the prompt."""
    first = random.Random(f"{step} {task}").sample(CALLS, GROUP)[sample]
    draw = random.Random(f"{step} {task} {sample}")
    second = draw.choice(CALLS)
    year, count = draw.randint(1700, 1899), draw.randint(100, 999)
    return Script(
        (first, second),
        f"It was in {year}, when the {first[2]} had {count} people and the {second[2]} was new, as both say.",
    )


def counts_as_right(sample: int) -> bool:
    """Every other rollout does, whatever it says, so that every group is trained on."""
    return sample % 2 == 0
