"""The report's pictures, as plotly figures in plain JSON. The page sets the colours of text and grid."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolorchestra.evaluation.formatting import dollars, percent, safe_text
from toolorchestra.evaluation.labels import Point, place_labels
from toolorchestra.evaluation.report_data import Adherence, ReportData, Split
from toolorchestra.evaluation.statistics import Estimate
from toolorchestra.evaluation.summary import SystemSummary

FOCUS, BEFORE, REFERENCE, OTHER = "#2f7de1", "#c2569b", "#e0701b", "#84909c"
# Paul Tol's and Okabe and Ito's palettes, picked for contrast on white and on near-black, for every kind of sight.
PALETTE = ("#2f7de1", "#e0701b", "#1f9d74", "#c2569b", "#d0a215", "#5bb7e5", "#8b6fd0", "#8a6642", "#84909c", "#d14b4b")


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture.

    Attributes:
        title: The heading.
        alt: What the picture says, for who cannot see it.
        data: Plotly's traces.
        layout: Plotly's layout, without colours.
        height: In pixels.
    """

    title: str
    alt: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    height: int


def label(text: str) -> str:
    """Untrusted text for a picture: plotly reads markup in every text that it draws."""
    return html.escape(safe_text(text, 60))


def system_colour(name: str, data: ReportData) -> str:
    """The colour of a system, the same on the whole page."""
    return {data.reference: REFERENCE, data.before: BEFORE, data.focus: FOCUS}.get(name, OTHER) if name else OTHER


def tool_colours(splits: Sequence[Split], others: Sequence[str] = ()) -> dict[str, str]:
    """A colour for every tool that was called and for ``others``, the same on the whole page, most called first."""
    totals = dict.fromkeys(others, 0)
    for system in (system for split in splits for system in split.systems):
        for tool, count in system.calls.items():
            totals[tool] = totals.get(tool, 0) + count
    ranked = sorted(totals, key=lambda tool: (-totals[tool], tool))
    return {tool: PALETTE[index % len(PALETTE)] for index, tool in enumerate(ranked)}


def drawable(split: Split) -> list[SystemSummary]:
    """The systems that the accuracy-cost picture can show: with an accuracy and a cost above 0 (the axis is a log)."""
    return [s for s in split.systems if s.accuracy is not None and s.cost_usd is not None and s.cost_usd.value > 0.0]


def accuracy_cost(split: Split, data: ReportData) -> Chart:
    """Accuracy over mean cost (log scale), every system with its 95% intervals and the frontier of the best."""
    systems = drawable(split)
    accuracies = [_known(system.accuracy) for system in systems]
    costs = [_known(system.cost_usd) for system in systems]
    x_range, y_range = _log_range(costs), _share_range(accuracies)
    points = [
        Point(math.log10(cost.value), accuracy.value, system.name, _log_ends(cost), _ends(accuracy))
        for system, accuracy, cost in zip(systems, accuracies, costs, strict=True)
    ]
    positions = place_labels(points, x_range, y_range)
    traces = [_frontier(accuracies, costs, x_range)]
    for number, (system, accuracy, cost, position) in enumerate(
        zip(systems, accuracies, costs, positions, strict=True), start=1
    ):
        colour, special = system_colour(system.name, data), system.name == data.focus
        traces.append(
            {
                "type": "scatter",
                "x": [cost.value],
                "y": [accuracy.value],
                "mode": "markers+text",
                "name": label(system.name),
                "text": [f"<b>{label(system.name)}</b>" if special else label(system.name)],
                "textposition": position,
                "textfont": {"size": 13},
                "meta": {"number": str(number)},
                "marker": {"color": colour, "size": 16 if special else 11, "symbol": "star" if special else "circle"},
                "error_x": _error_bar(cost, colour),
                "error_y": _error_bar(accuracy, colour),
                "hovertemplate": f"{label(system.name)}<br>{percent(accuracy.value)} right"
                f"<br>{dollars(cost.value)} a task<extra></extra>",
            }
        )
    layout = {
        "xaxis": {"type": "log", "title": {"text": "mean cost of a task (USD, log scale)"}, "range": x_range}
        | _dollar_ticks(x_range),
        "yaxis": {"title": {"text": "accuracy"}, "tickformat": ".0%", "range": y_range},
        "margin": {"l": 64, "r": 16, "t": 12, "b": 56},
        "showlegend": False,
    }
    alt = "; ".join(
        f"{system.name}: {percent(accuracy.value)} right at {dollars(cost.value)} a task"
        for system, accuracy, cost in zip(systems, accuracies, costs, strict=True)
    )
    return Chart("Accuracy and cost", alt, traces, layout, 480)


def calls_by_kind(system: SystemSummary, colours: Mapping[str, str]) -> Chart:
    """Mean number of calls of each tool in a rollout, by kind of task, stacked."""
    kinds = list(system.kinds)
    names = [label(kind) for kind in kinds]
    traces = []
    for tool, colour in colours.items():
        means = [system.kinds[kind].calls.get(tool, 0) / max(1, system.kinds[kind].rollouts) for kind in kinds]
        if any(means):
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": label(tool),
                    "x": means,
                    "y": names,
                    "marker": {"color": colour},
                    "hovertemplate": f"{label(tool)}: %{{x:.2f}} calls a task<extra>%{{y}}</extra>",
                }
            )
    layout = {
        "barmode": "stack",
        "bargap": 0.35,
        "xaxis": {"title": {"text": "calls a task"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "showgrid": False, "automargin": True, "type": "category"},
        "margin": {"l": 8, "r": 12, "t": 4, "b": 44},
        "showlegend": False,
    }
    alt = "; ".join(
        f"{kind}: " + (", ".join(f"{count} {tool}" for tool, count in system.kinds[kind].calls.items()) or "no calls")
        for kind in kinds
    )
    return Chart(system.name, f"Calls of {system.name} by kind of task. {alt}", traces, layout, 76 + 36 * len(kinds))


def adherence(rows: Sequence[Adherence], data: ReportData) -> Chart:
    """The watched share by wish, one bar a system, with intervals."""
    systems, wishes = _unique(row.system for row in rows), _unique(row.wish for row in rows)
    plain = iter(PALETTE[4:])
    traces = []
    for system in systems:
        chosen = [row for row in rows if row.system == system]
        known = system_colour(system, data)
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label(system),
                "x": [row.share.value for row in chosen],
                "y": [_wrapped(row.wish) for row in chosen],
                "marker": {"color": next(plain, OTHER) if known == OTHER else known},
                "error_x": _error_bars([row.share for row in chosen]),
                "hovertemplate": f"{label(system)}: %{{x:.1%}}<extra></extra>",
            }
        )
    categories = {"type": "category", "categoryorder": "array", "categoryarray": [_wrapped(wish) for wish in wishes]}
    layout = {
        "barmode": "group",
        "bargap": 0.35,
        "xaxis": {
            "title": {"text": f"share of {label(data.adherence_of)}"},
            "tickformat": ".0%",
            "rangemode": "tozero",
        },
        "yaxis": {"autorange": "reversed", "showgrid": False, "automargin": True} | categories,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "showlegend": True,
        "margin": {"l": 8, "r": 12, "t": 36, "b": 48},
    }
    alt = "; ".join(f"{row.system}, {row.wish}: {percent(row.share.value)}" for row in rows)
    return Chart(f"Share of {data.adherence_of}", alt, traces, layout, 110 + len(wishes) * (26 + 22 * len(systems)))


def _frontier(accuracies: Sequence[Estimate], costs: Sequence[Estimate], x_range: Sequence[float]) -> dict[str, Any]:
    """The best accuracy that each cost buys, as steps to the right edge."""
    xs: list[float] = []
    ys: list[float] = []
    for cost, accuracy in sorted(
        (cost.value, -accuracy.value) for cost, accuracy in zip(costs, accuracies, strict=True)
    ):
        if not ys or -accuracy > ys[-1]:
            xs.append(cost)
            ys.append(-accuracy)
    if xs:
        xs.append(10 ** x_range[1])
        ys.append(ys[-1])
    line = {"shape": "hv", "dash": "dot", "width": 1.5, "color": OTHER}
    return {
        "type": "scatter",
        "x": xs,
        "y": ys,
        "mode": "lines",
        "line": line,
        "name": "best accuracy for the cost",
        "hoverinfo": "skip",
    }


def _cheap_then_right(point: tuple[float, float]) -> tuple[float, float]:
    return point[0], -point[1]


def _error_bar(estimate: Estimate, colour: str) -> dict[str, Any]:
    return _error_bars([estimate]) | {"color": colour, "thickness": 1.5, "width": 4}


def _error_bars(estimates: Sequence[Estimate]) -> dict[str, Any]:
    above = [0.0 if e.high is None else e.high - e.value for e in estimates]
    below = [0.0 if e.low is None else e.value - e.low for e in estimates]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.5, "width": 5} | {
        "color": OTHER
    }


def _ends(estimate: Estimate) -> tuple[float, float]:
    low = estimate.value if estimate.low is None else estimate.low
    return low, estimate.value if estimate.high is None else estimate.high


def _log_ends(cost: Estimate) -> tuple[float, float]:
    """The interval's ends on the log axis. A lower end at or below 0 has no logarithm: the bar leaves the picture."""
    low, high = _ends(cost)
    return math.log10(low) if low > 0.0 else -9.0, math.log10(high)


def _log_range(costs: Sequence[Estimate]) -> list[float]:
    """Powers of ten that hold all intervals, with room for labels."""
    ends = [math.log10(end) for cost in costs for end in (*_ends(cost), cost.value) if end > 0.0]
    low, high = min(ends), max(ends)
    room = max(0.25, 0.14 * (high - low))
    return [low - room, high + room]


def _share_range(shares: Sequence[Estimate]) -> list[float]:
    ends = [end for share in shares for end in _ends(share)]
    low, high = min(ends), max(ends)
    room = max(0.03, 0.08 * (high - low))
    return [max(-0.02, low - room), min(1.04, high + room)]


def _dollar_ticks(x_range: Sequence[float]) -> dict[str, Any]:
    """Ticks at 1, 2 and 5 of every decade, written in full: plotly would write 50μ."""
    decades = range(math.floor(x_range[0]), math.ceil(x_range[1]) + 1)
    steps = (1, 2, 5) if x_range[1] - x_range[0] < 2.5 else (1,)
    values = [step * 10.0**decade for decade in decades for step in steps]
    return {"tickvals": values, "ticktext": [_plain_dollars(value) for value in values]}


def _plain_dollars(value: float) -> str:
    return f"${value:,.0f}" if value >= 1 else f"${value:.{-math.floor(math.log10(value) + 1e-9)}f}"


def _known(estimate: Estimate | None) -> Estimate:
    if estimate is None:
        raise ValueError("only systems with an accuracy and a cost can be drawn")
    return estimate


def _wrapped(text: str) -> str:
    """A label in lines short enough to leave a phone room for the picture."""
    return "<br>".join(html.escape(line) for line in textwrap.wrap(safe_text(text, 60), 18)) or " "


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
