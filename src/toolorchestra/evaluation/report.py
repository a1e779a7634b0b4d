"""The report: one self-contained HTML page, which needs no network and runs no code but its own."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from toolorchestra.evaluation import formatting
from toolorchestra.evaluation.charts import Chart, accuracy_cost, adherence, calls_by_kind, drawable, tool_colours
from toolorchestra.evaluation.episodes import EpisodeView, episode_view
from toolorchestra.evaluation.learning import drawn_tools, learning_curves, window
from toolorchestra.evaluation.report_data import ReportData, Split
from toolorchestra.evaluation.tables import headline_rows, tiles

_MAX_EXAMPLES = 24
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class _CallsView:
    """The calls of a split: one picture for each system that the report is about."""

    split: str
    charts: Sequence[Chart]


def write_report(path: Path, data: ReportData) -> Path:
    """Write the report. The same data give the same file.

    The file is put in its place whole: a reader never sees half of one. All text from tasks and models is escaped, and
    the page's content policy forbids every script but the two that are written here.

    Returns:
        ``path``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    page = render_report(data).encode("utf-8", errors="replace")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def render_report(data: ReportData) -> str:
    """The page's text."""
    import jinja2  # the page is made once, at the end of a run

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"chart_json": _chart_json, "estimate": _estimate, "clean": formatting.safe_text}
    view = _view(data)
    scripts = _scripts() if view["has_charts"] else ()
    return environment.get_template("report.html.j2").render(
        **view,
        data=data,
        style=_raw((_TEMPLATES / "report.css").read_text(encoding="utf-8")),
        scripts=[_raw(script) for script in scripts],
        script_policy=" ".join(_fingerprint(script) for script in scripts) or "'none'",
    )


def _view(data: ReportData) -> dict[str, Any]:
    """What the template shows, with all choices made."""
    headline = data.splits[0] if data.splits else None
    learning_tools = drawn_tools(data.learning)
    colours = tool_colours(data.splits, learning_tools)
    picture = accuracy_cost(headline, data) if headline is not None and drawable(headline) else None
    curves = learning_curves(data.learning, colours)
    calls = [view for split in data.splits if (view := _calls_view(split, data, colours)).charts]
    wish = adherence(data.adherence, data) if data.adherence else None
    systems = list(dict.fromkeys(system.name for split in data.splits for system in split.systems))
    return {
        "headline": headline,
        "tiles": tiles(headline, data) if headline is not None else [],
        "rows": headline_rows(headline, data) if headline is not None else [],
        "picture": picture,
        "numbered": [system.name for system in drawable(headline)] if headline is not None else [],
        "not_drawn": _not_drawn(headline),
        "curves": curves,
        "window": window(len(data.learning)),
        "calls": calls,
        "tool_colours": colours,
        "learning_colours": {tool: colours[tool] for tool in colours if tool in learning_tools},
        "adherence": wish,
        "systems": systems,
        "with_ratio": any(system.cost_ratio for split in data.splits for system in split.systems),
        "by_split": [{system.name: system for system in split.systems} for split in data.splits],
        "examples": _examples(data),
        "examples_left_out": max(0, len(data.examples) - _MAX_EXAMPLES),
        "settings": _settings(data.settings),
        "has_charts": bool(picture or curves or calls or wish),
        "format": formatting,
    }


def _calls_view(split: Split, data: ReportData, colours: Mapping[str, str]) -> _CallsView:
    wanted = [name for name in (data.before, data.focus) if name]
    by_name = {system.name: system for system in split.systems}
    chosen = [by_name[name] for name in wanted if name in by_name] if wanted else list(split.systems)
    return _CallsView(split.name, [calls_by_kind(system, colours) for system in chosen if system.kinds])


def _not_drawn(split: Split | None) -> list[str]:
    if split is None:
        return []
    drawn = {system.name for system in drawable(split)}
    return [system.name for system in split.systems if system.name not in drawn]


def _examples(data: ReportData) -> list[EpisodeView]:
    return [episode_view(example) for example in data.examples[:_MAX_EXAMPLES]]


def _settings(settings: Mapping[str, Any]) -> str:
    text = json.dumps(dict(settings), indent=2, ensure_ascii=False, default=str) if settings else ""
    return formatting.safe_text(text, 200_000)


def _estimate(estimate: Any, form: str) -> Any:
    """A value with its interval, as the tables show it."""
    from markupsafe import Markup

    if estimate is None:
        return Markup('<span class="unknown">{}</span>').format(formatting.UNKNOWN)
    write = getattr(formatting, form)
    ends = formatting.about_dollars if form == "dollars" else write
    text = '<b>{}</b> <span class="interval">{}</span>'
    return Markup(text).format(write(estimate.value), formatting.interval(estimate, ends))


def _chart_json(chart: Chart) -> Any:
    """A picture as JSON that cannot end the element that it stands in."""
    values = {key: value for key, value in asdict(chart).items() if key in ("data", "layout")}
    text = json.dumps(values, allow_nan=False)
    return _raw(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _scripts() -> Iterable[str]:
    from plotly.offline import get_plotlyjs  # five megabytes of text, wanted here only

    return (str(get_plotlyjs()).replace("\r", ""), (_TEMPLATES / "report.js").read_text(encoding="utf-8"))


def _fingerprint(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _raw(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # our own files, or JSON without markup
