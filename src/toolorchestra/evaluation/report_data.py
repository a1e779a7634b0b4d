"""What a report is made of. Every part may be missing; the page then leaves it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolorchestra.evaluation.statistics import Estimate
from toolorchestra.evaluation.summary import SystemSummary
from toolorchestra.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Split:
    """One set of tasks with what every system did on it.

    Attributes:
        name: Such as ``held-out tools``.
        systems: The summaries, in the order of the tables.
        description: What sets these tasks apart, in a sentence.
    """

    name: str
    systems: Sequence[SystemSummary]
    description: str = ""


@dataclass(frozen=True, slots=True)
class Adherence:
    """How a wish in the preference changes what a system does.

    Attributes:
        system: The system.
        wish: The preference, in a few words.
        share: The share that is watched, such as that of calls to the dear model.
    """

    system: str
    wish: str
    share: Estimate


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that the run had to show.

    Attributes:
        text: The claim.
        measured: What was measured, with its interval.
        target: What was asked for.
        met: Whether it holds; ``None`` where it could not be measured.
    """

    text: str
    measured: str
    target: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Example:
    """One episode, shown turn by turn.

    Attributes:
        trajectory: The episode.
        title: A heading; the task's kind and id by default.
        expected: The right answer.
        note: Why it is shown.
    """

    trajectory: Trajectory
    title: str = ""
    expected: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything that a report shows.

    Attributes:
        title: The heading.
        summary: What this is, in a few sentences.
        notice: A warning that nobody may miss, such as that the market is simulated.
        focus: The system that the report is about; it is highlighted.
        before: The same system before training, shown beside it.
        reference: The system that costs are set in relation to.
        descriptions: One line on each system, by name.
        splits: Sets of tasks; the first is the headline.
        learning: One row a training step. The key ``step`` counts; ``reward``, ``accuracy``, ``cost_usd``,
            ``latency_s``, ``entropy``, ``kept_groups`` and ``calls.<tool>`` are drawn where they are present. Rows with
            different values of ``series`` are drawn as different lines.
        adherence: What the preference changes.
        adherence_of: What the shares in ``adherence`` are shares of, such as ``calls to the dear model``.
        claims: What the run had to show.
        examples: A few episodes.
        settings: Settings, versions and seeds, to reproduce the run. Any plain object; never secrets.
        command: The command that makes this report.
        created: When it was made, in words.
    """

    title: str
    summary: str = ""
    notice: str = ""
    focus: str = ""
    before: str = ""
    reference: str = ""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    splits: Sequence[Split] = ()
    learning: Sequence[Mapping[str, Any]] = ()
    adherence: Sequence[Adherence] = ()
    adherence_of: str = "calls"
    claims: Sequence[Claim] = ()
    examples: Sequence[Example] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    created: str = ""
