"""Learning curves: one small picture a measure, from a training log's rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolorchestra.evaluation.charts import OTHER, PALETTE, Chart, label

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Curve:
    key: str
    title: str
    axis: Mapping[str, Any]


_CURVES = (
    _Curve("reward", "Reward", {}),
    _Curve("accuracy", "Accuracy", {"tickformat": ".0%"}),
    _Curve("cost_usd", "Cost of a task (USD)", {"tickprefix": "$", "rangemode": "tozero", "exponentformat": "none"}),
    _Curve("latency_s", "Latency of a task (s)", {"rangemode": "tozero"}),
    _Curve("entropy", "Entropy of choices (nats)", {"rangemode": "tozero"}),
    _Curve("kept_groups", "Groups kept", {"rangemode": "tozero"}),
)
_CALLS = "calls."


def learning_curves(rows: Rows, tool_colours: Mapping[str, str]) -> list[Chart]:
    """A picture of each measure that the rows hold: faint dots a step, and a line of the trailing mean."""
    ordered = sorted((row for row in rows if _number(row.get("step")) is not None), key=lambda row: row["step"])
    charts = [
        _chart(curve, ordered) for curve in _CURVES if any(_number(row.get(curve.key)) is not None for row in ordered)
    ]
    tools = drawn_tools(ordered)
    return [*charts, _calls_chart(ordered, tools, tool_colours)] if tools else charts


def drawn_tools(rows: Rows) -> list[str]:
    """The tools whose calls a step are in the rows."""
    return [
        key.removeprefix(_CALLS) for key in dict.fromkeys(key for row in rows for key in row) if key.startswith(_CALLS)
    ]


def window(steps: int) -> int:
    """How many steps the line averages over."""
    return max(1, min(10, steps // 8))


def _chart(curve: _Curve, rows: Rows) -> Chart:
    series = list(dict.fromkeys(str(row.get("series", "")) for row in rows))
    traces: list[dict[str, Any]] = []
    for index, name in enumerate(series):
        chosen = [row for row in rows if str(row.get("series", "")) == name]
        traces.extend(_traces(chosen, curve.key, name, PALETTE[index % len(PALETTE)]))
    layout = _layout(curve.axis, legend=len(series) > 1)
    return Chart(curve.title, f"{curve.title} over training steps. {_ends(traces)}", traces, layout, 230)


def _calls_chart(rows: Rows, tools: Sequence[str], colours: Mapping[str, str]) -> Chart:
    traces: list[dict[str, Any]] = []
    for tool in tools:
        lines = _traces(rows, _CALLS + tool, tool, colours.get(tool, OTHER))
        traces.extend(trace for trace in lines if trace["mode"] == "lines")
    layout = _layout({"rangemode": "tozero"}, legend=False)
    return Chart("Calls a task, by tool", f"Calls of {', '.join(tools)} over training steps.", traces, layout, 230)


def _traces(rows: Rows, key: str, name: str, colour: str) -> list[dict[str, Any]]:
    pairs = [(row["step"], value) for row in rows if (value := _number(row.get(key))) is not None]
    if not pairs:
        return []
    steps, values = [step for step, _ in pairs], [value for _, value in pairs]
    size = window(len(values))
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": steps,
        "y": values,
        "marker": {"color": colour, "size": 4, "opacity": 0.35},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": steps,
        "y": _trailing_means(values, size),
        "name": label(name),
        "line": {"color": colour, "width": 2.2},
        "hovertemplate": "step %{x}: %{y:.4~g}<extra>" + label(name) + "</extra>",
    }
    return [dots, line] if size > 1 else [line]


def _trailing_means(values: Sequence[float], size: int) -> list[float]:
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    starts = [max(0, end - size) for end in range(1, len(sums))]
    return [(sums[end] - sums[start]) / (end - start) for end, start in enumerate(starts, start=1)]


def _layout(axis: Mapping[str, Any], *, legend: bool) -> dict[str, Any]:
    return {
        "xaxis": {"title": {"text": "step"}, "nticks": 6},
        "yaxis": {"nticks": 5, "automargin": True} | dict(axis),
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 11}},
        "showlegend": legend,
        "margin": {"l": 48, "r": 8, "t": 30 if legend else 6, "b": 40},
    }


def _ends(traces: Sequence[Mapping[str, Any]]) -> str:
    lines = [trace["y"] for trace in traces if trace["mode"] == "lines"]
    return "; ".join(f"from {line[0]:.3g} to {line[-1]:.3g}" for line in lines)


def _holds(rows: Rows, key: str) -> bool:
    return any(_number(row.get(key)) is not None for row in rows)


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None
