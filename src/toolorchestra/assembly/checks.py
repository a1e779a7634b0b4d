"""What must be right before any work starts, looked at one by one: for ``doctor``, and before every run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolorchestra.assembly.build import build
from toolorchestra.assembly.orchestrator import check_model_folder
from toolorchestra.assembly.prices import model_price, open_table, orchestrator_price, tool_price
from toolorchestra.assembly.reaching import ask, endpoints
from toolorchestra.assembly.rules import is_rule
from toolorchestra.config import (
    CodeToolSettings,
    Endpoint,
    ModelSettings,
    ModelToolSettings,
    OrchestratorSettings,
    RecordedModelSettings,
    SearchToolSettings,
    Settings,
    read_secret,
)
from toolorchestra.errors import UnreachableError, UserError
from toolorchestra.models import read_recorded
from toolorchestra.pricing import Price, PriceTable
from toolorchestra.tasks import read_tasks
from toolorchestra.tools import detect
from toolorchestra.tools.search.corpus import SUFFIXES
from toolorchestra.trajectory import ORCHESTRATOR


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        subject: What, by its path in the configuration, such as ``models.small: price``.
        ok: Whether it is as it must be.
        detail: What was found; for a failure, what is wrong and the fix.
        unreachable: Whether it failed because something does not answer.
    """

    subject: str
    ok: bool
    detail: str
    unreachable: bool = False

    def complaint(self) -> str:
        """What is wrong, with its place in the configuration."""
        section = self.subject.partition(":")[0]
        return self.detail if self.detail.startswith(section) else f"{section}: {self.detail}"

    def to_json(self) -> dict[str, Any]:
        """A plain object."""
        return {"subject": self.subject, "ok": self.ok, "detail": self.detail, "unreachable": self.unreachable}


async def examine(settings: Settings, *, timeout_s: float = 5.0, thorough: bool = False) -> list[Check]:
    """Look at everything that a configuration names. Nothing is paid for and no model is loaded.

    Args:
        settings: The configuration; its files need not have been looked for yet.
        timeout_s: Seconds that an endpoint has to answer.
        thorough: Whether everything is also put together for a trial, as every run does after these checks.
    """
    asked = {url: asyncio.create_task(ask(url, timeout_s)) for url in {url for _, url in endpoints(settings)}}
    local = await asyncio.to_thread(lambda: [*_local(settings)])
    if thorough and all(check.ok for check in local):
        local.append(await asyncio.to_thread(_attempt, "tools: on offer", _trial, settings))
    answers = {url: await task for url, task in asked.items()}
    reached = [_attempt(f"{at}: endpoint", answers[url].told, at, url) for at, url in endpoints(settings)]
    return [*local, *reached]


def refuse(checks: Sequence[Check]) -> None:
    """Raise one error for all that failed.

    Raises:
        UserError: Something must be set right.
        UnreachableError: Everything is right but that something does not answer.
    """
    failed = [check for check in checks if not check.ok]
    if not failed:
        return
    words = "\n".join(check.complaint() for check in failed)
    raise UnreachableError(words) if all(check.unreachable for check in failed) else UserError(words)


def _local(settings: Settings) -> Iterator[Check]:
    """What can be looked at without a network."""
    yield from _keys(settings)
    yield from _orchestrator(settings)
    yield from _prices(settings)
    yield from _files(settings)
    if any(isinstance(tool, CodeToolSettings) for tool in settings.tools.values()):
        yield _attempt("tools: sandbox", _sandbox)


def _trial(settings: Settings) -> str:
    """Make everything, and ask whether the tasks fit it."""
    assembly = build(settings)
    try:
        for path in (settings.tasks.train, settings.tasks.test):
            if path is not None:
                assembly.prepare(read_tasks(path))
    finally:
        assembly.close()
    return ", ".join(assembly.tools) or "none: the orchestrator answers alone"


def _keys(settings: Settings) -> Iterator[Check]:
    sections = {
        ORCHESTRATOR: settings.orchestrator,
        **{f"models.{key}": model for key, model in settings.models.items()},
    }
    for where, section in sections.items():
        if isinstance(section, Endpoint) and section.api_key_env is not None:
            yield _attempt(f"{where}: key", _key, section.api_key_env, where)


def _key(name: str, where: str) -> str:
    try:
        read_secret(name)
    except UserError as error:
        raise UserError(f"{where}.api_key_env: {error}") from None
    return f"{name} is set"


def _orchestrator(settings: Settings) -> Iterator[Check]:
    orchestrator = settings.orchestrator
    if orchestrator.base_url is None and not is_rule(orchestrator):
        yield _attempt("orchestrator: model", check_model_folder, orchestrator)


def _prices(settings: Settings) -> Iterator[Check]:
    try:
        table = open_table(settings)
    except UserError as error:
        yield Check("prices.override", False, str(error))
        return
    yield _attempt("orchestrator: price", _orchestrator_price, settings.orchestrator, table)
    for name, model in settings.models.items():
        yield from _model(name, model, table)
    for name, tool in settings.tools.items():
        if not isinstance(tool, ModelToolSettings):
            yield _attempt(f"tools.{name}: price", _tool_price, name, tool)


def _orchestrator_price(settings: OrchestratorSettings, table: PriceTable) -> str:
    return _price(orchestrator_price(settings, table))


def _model(name: str, model: ModelSettings, table: PriceTable) -> Iterator[Check]:
    if isinstance(model, RecordedModelSettings):
        answers = _attempt(f"models.{name}: answers", _answers, model.path)
        yield answers
        if not answers.ok:
            return  # what cannot be read has no price either; one complaint is enough
    yield _attempt(f"models.{name}: price", _model_price, name, model, table)


def _answers(path: Path) -> str:
    return f"{len(read_recorded(path).answers)} in {path}"


def _model_price(name: str, model: ModelSettings, table: PriceTable) -> str:
    return _price(model_price(name, model, table))


def _tool_price(name: str, tool: CodeToolSettings | SearchToolSettings) -> str:
    return _price(tool_price(name, tool))


def _price(price: Price | None) -> str:
    if price is None:
        return "recorded with every answer"
    if price.is_free:
        return "free"
    parts = {
        "in": price.input,
        "out": price.output,
        "a call": price.per_call_usd,
        "a second": price.per_second_usd,
    }
    amounts = ", ".join(f"${amount.normalize():f} {what}" for what, amount in parts.items() if amount)
    per = " for a million tokens" if price.input or price.output else ""
    return f"{amounts}{per} ({price.label})"


def _files(settings: Settings) -> Iterator[Check]:
    for name, tool in settings.tools.items():
        if isinstance(tool, SearchToolSettings):
            yield _attempt(f"tools.{name}: folder", _folder, name, tool.folder)
    for key, path in (("train", settings.tasks.train), ("test", settings.tasks.test)):
        if path is not None:
            yield _attempt(f"tasks.{key}", _tasks, path)


def _tasks(path: Path) -> str:
    return f"{len(read_tasks(path))} tasks in {path}"


def _folder(name: str, folder: Path) -> str:
    kinds = ", ".join(SUFFIXES)
    if not folder.is_dir():
        raise UserError(f"tools.{name}.folder: no such folder: {folder}; put the text files ({kinds}) to search there")
    if not any(file.endswith(SUFFIXES) for _, _, files in os.walk(folder) for file in files):
        raise UserError(f"tools.{name}.folder: {folder} holds no text; put {kinds} files into it")
    return str(folder)


def _sandbox() -> str:
    report = detect()
    lines = report.lines()
    if report.default is None:
        raise UserError(f"tools: code cannot be isolated on this machine: {'; '.join(lines)}")
    return f"{report.default}: {next(line for line in lines if line.startswith(report.default)).partition(': ')[2]}"


def _attempt(subject: str, look: Callable[..., str], *arguments: Any) -> Check:
    try:
        return Check(subject, True, look(*arguments))
    except UserError as error:
        return Check(subject, False, str(error), isinstance(error, UnreachableError))
