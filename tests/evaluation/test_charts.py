from dataclasses import asdict, replace

import plotly.graph_objects as go
import pytest

from toolorchestra.evaluation import Adherence, Estimate, ReportData, Split, summarise
from toolorchestra.evaluation.charts import accuracy_cost, adherence, calls_by_kind, drawable, tool_colours
from toolorchestra.evaluation.labels import Point, place_labels
from toolorchestra.evaluation.learning import learning_curves, window


def check(chart):
    """Plotly itself accepts every trace and setting."""
    return go.Figure(data=list(chart.data), layout=dict(chart.layout))


def test_every_picture_is_valid_plotly(report_data):
    colours = tool_colours(report_data.splits)
    check(accuracy_cost(report_data.splits[0], report_data))
    check(adherence(report_data.adherence, report_data))
    for chart in learning_curves(report_data.learning, colours):
        check(chart)
    for system in report_data.splits[0].systems:
        check(calls_by_kind(system, colours))


def test_accuracy_cost_holds_every_system_with_its_intervals(report_data):
    chart = accuracy_cost(report_data.splits[0], report_data)
    frontier, *points = chart.data
    assert [trace["name"] for trace in points] == [system.name for system in report_data.splits[0].systems]
    assert frontier["y"] == sorted(frontier["y"])
    for trace, system in zip(points, report_data.splits[0].systems, strict=True):
        assert trace["x"] == [system.cost_usd.value]
        assert trace["y"][0] + trace["error_y"]["array"][0] == pytest.approx(system.accuracy.high)
        assert trace["x"][0] - trace["error_x"]["arrayminus"][0] == pytest.approx(system.cost_usd.low)
    assert "trained: " in chart.alt


def test_free_and_unknown_systems_are_not_on_a_log_axis(make):
    systems = {"free": [make(usd="0")], "unknown": [make(usd=None)], "paid": [make(usd="0.1")]}
    split = Split("s", list(summarise(systems).values()))
    assert [system.name for system in drawable(split)] == ["paid"]
    check(accuracy_cost(split, ReportData(title="t")))


def test_calls_are_means_of_a_rollout(make):
    rollouts = [make({"a": 3}, task_id="1", kind="k"), make({"a": 1, "b": 1}, task_id="2", kind="k")]
    system = summarise({"s": rollouts})["s"]
    chart = calls_by_kind(system, {"a": "#111111", "b": "#222222", "never called": "#333333"})
    assert [(trace["name"], trace["x"]) for trace in chart.data] == [("a", [2.0]), ("b", [0.5])]


def test_learning_curves_skip_what_is_not_there():
    rows = [{"step": 2, "reward": 0.5, "accuracy": None}, {"step": 1, "reward": float("nan")}, {"reward": 1.0}]
    (chart,) = learning_curves(rows, {})
    assert chart.title == "Reward"
    assert [list(trace["x"]) for trace in chart.data] == [[2]]
    assert learning_curves([], {}) == []


def test_learning_curves_average_the_last_steps_and_keep_series_apart():
    rows = [
        {"step": step, "reward": float(step % 2), "series": name} for name in ("train", "test") for step in range(40)
    ]
    (chart,) = learning_curves(rows, {})
    lines = [trace for trace in chart.data if trace["mode"] == "lines"]
    assert [line["name"] for line in lines] == ["train", "test"]
    assert window(40) == 5
    assert lines[0]["y"][:2] == [0.0, 0.5]
    assert lines[0]["y"][-1] == pytest.approx(3 / 5)


def test_names_are_escaped_where_plotly_reads_markup(make):
    evil = '<a href="javascript:alert(1)">x</a>'
    system = summarise({evil: [make({evil: 1}, usd="0.1", kind=evil)]})[evil]
    data = ReportData(title="t", focus=evil)
    rows = [Adherence(evil, evil, Estimate(0.5, 0.4, 0.6, 3))]
    charts = [
        accuracy_cost(Split("s", [system]), data),
        calls_by_kind(system, tool_colours([Split("s", [system])])),
        adherence(rows, replace(data, adherence_of=evil)),
        *learning_curves([{"step": 1, "reward": 1.0, "series": evil, f"calls.{evil}": 1.0}], {}),
    ]
    for chart in charts:
        drawn = {key: value for key, value in asdict(chart).items() if key in ("data", "layout")}
        assert "<a" not in str(drawn)


def test_labels_avoid_each_other_and_the_edge():
    near = [Point(0.5, 0.5, "first name", (0.5, 0.5), (0.4, 0.6)), Point(0.51, 0.5, "second", (0.51, 0.51), (0.4, 0.6))]
    first, second = place_labels(near, [0.0, 1.0], [0.0, 1.0])
    assert first != second
    (edge,) = place_labels([Point(0.99, 0.99, "a long name", (0.99, 0.99), (0.99, 0.99))], [0.0, 1.0], [0.0, 1.0])
    assert edge == "bottom left"
