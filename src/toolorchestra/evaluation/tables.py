"""The report's figures in words: the tiles on top and the rows of the headline table."""

from __future__ import annotations

from dataclasses import dataclass

from toolorchestra.evaluation import formatting
from toolorchestra.evaluation.charts import system_colour
from toolorchestra.evaluation.report_data import ReportData, Split
from toolorchestra.evaluation.statistics import Estimate
from toolorchestra.evaluation.summary import SystemSummary


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure that a reader should take away.

    Attributes:
        label: What it is.
        value: The figure.
        detail: Its interval.
        note: What it compares with.
    """

    label: str
    value: str
    detail: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A system in the headline table.

    Attributes:
        system: Its numbers.
        colour: Its colour on the page.
        focus: Whether the report is about it.
        description: One line on it.
        remarks: What happened besides: missing rollouts, limits, malformed calls.
    """

    system: SystemSummary
    colour: str
    focus: bool
    description: str
    remarks: str


def tiles(split: Split, data: ReportData) -> list[Tile]:
    """The focus system's figures; none where the split does not have it."""
    system = next((system for system in split.systems if system.name == data.focus), None)
    if system is None:
        return []
    reference = next((other for other in split.systems if other.name == data.reference), None)
    before = next((other for other in split.systems if other.name == data.before), None)
    found = [_accuracy_tile(system, reference, data.reference)]
    if system.cost_ratio is not None:
        ratio, whole = system.cost_ratio, formatting.whole_percent
        found.append(Tile(f"of the cost of {data.reference}", whole(ratio.value), formatting.interval(ratio, whole)))
    if system.cost_usd is not None:
        cost = system.cost_usd
        note = "" if reference is None or reference.cost_usd is None else _against(reference.cost_usd, data.reference)
        found.append(
            Tile("a task", formatting.dollars(cost.value), formatting.interval(cost, formatting.about_dollars), note)
        )
    if system.reward is not None:
        note = "" if before is None or before.reward is None else f"{data.before}: {before.reward.value:.2f}"
        reward = system.reward
        found.append(Tile("mean reward", f"{reward.value:.2f}", formatting.interval(reward, "{:.2f}".format), note))
    return [tile for tile in found if tile is not None]


def headline_rows(split: Split, data: ReportData) -> list[Row]:
    """The rows of the headline table, in the split's order."""
    return [
        Row(
            system=system,
            colour=system_colour(system.name, data),
            focus=system.name == data.focus,
            description=data.descriptions.get(system.name, ""),
            remarks=remarks(system),
        )
        for system in split.systems
    ]


def _accuracy_tile(system: SystemSummary, reference: SystemSummary | None, name: str) -> Tile:
    if system.accuracy is None:
        return Tile("accuracy", formatting.UNKNOWN)
    note = ""
    if system.accuracy_difference is not None and reference is not None and reference is not system:
        gap = system.accuracy_difference
        note = f"{formatting.points(gap.value)} points {formatting.interval(gap, formatting.points)} on {name}"
    detail = formatting.interval(system.accuracy, formatting.percent)
    return Tile("of answers right", formatting.percent(system.accuracy.value), detail, note)


def _against(estimate: Estimate, name: str) -> str:
    return f"{name}: {formatting.dollars(estimate.value)}"


def remarks(system: SystemSummary) -> str:
    """What happened besides: missing rollouts, limits, malformed calls."""
    parts = [
        (system.missing, "missing"),
        (system.unjudged, "without a verdict"),
        (system.unknown_cost, "of unknown cost"),
        (system.malformed, "with a malformed call"),
        (system.forced_answers, "with a forced answer"),
        *((count, f"stopped at the limit of {limit}") for limit, count in system.limits.items()),
    ]
    return ", ".join(f"{count} {what}" for count, what in parts if count)
