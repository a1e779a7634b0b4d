"""What the commands print. Text from models, tools and files is shown as it is: bounded, and never as markup."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolorchestra.evaluation import formatting
from toolorchestra.evaluation.tables import remarks

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolorchestra.assembly import Answered, Check, Turn
    from toolorchestra.evaluation import Claim, Estimate, Results, SystemSummary
    from toolorchestra.trajectory import CallRecord

_MAX_RESULT = 300
_MAX_ARGUMENTS = 160
_MAX_ANSWER = 20_000
_LINES = 4
_FILE_COLUMNS = 200


def print_checks(checks: Sequence[Check]) -> None:
    """One row a check, the failed ones with their fix."""
    table = Table("", "what", "found", box=box.SIMPLE, pad_edge=False)
    for check in checks:
        mark = Text("ok", "green") if check.ok else Text("FAIL", "bold red")
        table.add_row(mark, _plain(check.subject), _plain(check.detail))
    console = _console()
    console.print(table)
    failed = sum(not check.ok for check in checks)
    console.print(f"{failed} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks passed")


def print_results(results: Results) -> None:
    """One row a system: accuracy, cost and latency with their 95% intervals."""
    if not results.systems:
        return
    table = Table("system", "accuracy", "cost a task", "latency", "calls", "remarks", box=box.SIMPLE, pad_edge=False)
    for name, system in results.systems.items():
        style = "bold" if name == results.focus else ""
        table.add_row(*map(_plain, _row(system)), style=style)
    _console().print(table)


def print_claims(claims: Sequence[Claim]) -> None:
    """One row a claim that a run is held to."""
    table = Table("", "claim", "measured", "asked for", box=box.SIMPLE, pad_edge=False)
    for claim in claims:
        mark = {True: Text("met", "green"), False: Text("NOT met", "bold red"), None: Text("unknown")}[claim.met]
        table.add_row(mark, *map(_plain, (claim.text, claim.measured, claim.target)))
    _console().print(table)


def print_turn(turn: Turn) -> None:
    """A turn as it happens: what was called, what came back, the dollars and the seconds."""
    console = _console()
    spent = f"{_dollars(turn.usd)}  {formatting.seconds(turn.seconds)}"
    if turn.submitted is not None:
        number = _short(str(turn.submitted.arguments.get("result", "")), 20)
        console.print(_plain(f"{turn.number}  submits result {number}  ({spent})"))
        return
    if not turn.calls:
        console.print(_plain(f"{turn.number}  answers  ({spent})"))
    for record in turn.calls:
        console.print(_plain(f"{turn.number}  {_call(record)}  ({spent})"), style="bold")
        console.print(_plain(_indented(record.result.content)))


def print_answer(answered: Answered) -> None:
    """The answer, and what it cost in all."""
    console, trajectory = _console(), answered.trajectory
    console.print()
    if answered.answer:
        console.print(_plain(formatting.safe_text(answered.answer, _MAX_ANSWER)), style="bold green")
    else:
        console.print(_plain(f"no answer{_why(answered)}"), style="bold red")
    calls = ", ".join(f"{count} × {tool}" for tool, count in trajectory.calls.items()) or "no calls"
    turns = f"{len(trajectory.steps)} turn{'s' if len(trajectory.steps) != 1 else ''}"
    seconds = formatting.seconds(trajectory.latency_s)
    console.print(_plain(f"{_dollars(trajectory.cost_usd)}  {seconds}  {turns}  {calls}"))


def _row(system: SystemSummary) -> tuple[str, ...]:
    calls = ", ".join(f"{count} {tool}" for tool, count in sorted(system.calls.items(), key=lambda item: -item[1]))
    return (
        system.name,
        _estimate(system.accuracy, formatting.percent),
        _estimate(system.cost_usd, formatting.dollars),
        _estimate(system.latency_s, formatting.seconds),
        calls,
        remarks(system),
    )


def _estimate(estimate: Estimate | None, form: Callable[[float], str]) -> str:
    if estimate is None:
        return formatting.UNKNOWN
    ends = formatting.about_dollars if form is formatting.dollars else form
    return f"{form(estimate.value)} {formatting.interval(estimate, ends)}".strip()


def _call(record: CallRecord) -> str:
    arguments = json.dumps(dict(record.call.arguments), ensure_ascii=False)
    return f"{_short(record.call.name, 64)}({_short(arguments, _MAX_ARGUMENTS)})"


def _indented(text: str) -> str:
    lines = _short(text, _MAX_RESULT).splitlines()
    shown = lines[:_LINES] + (["…"] if len(lines) > _LINES else [])
    return "\n".join(f"   {line}" for line in shown)


def _why(answered: Answered) -> str:
    trajectory = answered.trajectory
    return f": the limit of {trajectory.limit} was reached" if trajectory.limit else ""


def _short(text: str, limit: int) -> str:
    text = formatting.safe_text(text, 10 * limit)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _dollars(usd: Decimal | None) -> str:
    return "unknown dollars" if usd is None else formatting.dollars(float(usd))


def _plain(text: str) -> Text:
    return Text(formatting.safe_text(text, _MAX_ANSWER))


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        # In a file or a pipe nothing is to be broken at the 80 columns of a terminal that is not there.
        console.width = _FILE_COLUMNS
    return console
