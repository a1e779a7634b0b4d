"""Runs one process whose output, time and memory are bounded from outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolorchestra.tools.code.memory import tree_memory_bytes
from toolorchestra.tools.code.output import BoundedText

Stopped = Literal["wall", "output", "memory"]

_BLOCK = 65_536
_LOOK_EVERY_S = 0.1
_REAP_S = 2.0


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """What a process did.

    Attributes:
        exit_code: ``None`` where it was stopped by us.
        stdout: The kept part of its output.
        stderr: The kept part of its errors.
        stopped: Which of our bounds stopped it.
        wall_s: Seconds that it ran.
    """

    exit_code: int | None
    stdout: str
    stderr: str
    stopped: Stopped | None
    wall_s: float


class _TooMuchError(Exception):
    """More output than anybody wants to read."""


async def run_process(
    argv: Sequence[str],
    stdin: bytes,
    *,
    wall_s: float,
    keep_bytes: int,
    flood_bytes: int,
    memory_bytes: int | None = None,
    on_start: Callable[[int], None] | None = None,
) -> ProcessRun:
    """Run ``argv`` with an empty environment and never wait longer than ``wall_s`` for it.

    Both pipes are drained together, so neither can block the process; what exceeds ``keep_bytes`` is dropped, and at
    ``flood_bytes`` the process is stopped. ``memory_bytes`` is checked ten times a second over the process tree.
    ``on_start`` gets the process id before anything is written to its stdin.
    """
    started = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={},
        cwd="/",
        start_new_session=True,
    )
    stdout, stderr = BoundedText(keep_bytes), BoundedText(keep_bytes, head=0.25)
    stopped: Stopped | None = None
    try:
        if on_start is not None:
            on_start(process.pid)
        stopped = await _attend(process, stdin, stdout, stderr, wall_s, flood_bytes, memory_bytes)
    finally:
        await _end(process)
    exit_code = process.returncode if stopped is None else None
    return ProcessRun(exit_code, stdout.text(), stderr.text(), stopped, time.monotonic() - started)


async def _attend(
    process: asyncio.subprocess.Process,
    stdin: bytes,
    stdout: BoundedText,
    stderr: BoundedText,
    wall_s: float,
    flood_bytes: int,
    memory_bytes: int | None,
) -> Stopped | None:
    """Feed and drain the process until it ends or must be stopped; says why in the latter case."""
    assert process.stdin is not None
    work = asyncio.gather(
        _feed(process.stdin, stdin),
        _drain(process.stdout, stdout, flood_bytes),
        _drain(process.stderr, stderr, flood_bytes),
        process.wait(),
    )
    watch = asyncio.ensure_future(_outgrown(process.pid, memory_bytes))
    waiting: set[asyncio.Future[Any]] = {work, watch}
    try:
        done, _ = await asyncio.wait(waiting, timeout=wall_s, return_when=asyncio.FIRST_COMPLETED)
        if work in done:
            work.result()
            return None
        return "memory" if watch in done else "wall"
    except _TooMuchError:
        return "output"
    finally:
        for task in (work, watch):
            task.cancel()
        await asyncio.gather(work, watch, return_exceptions=True)


async def _feed(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(data)
        await pipe.drain()
    pipe.close()


async def _drain(pipe: asyncio.StreamReader | None, kept: BoundedText, flood_bytes: int) -> None:
    while pipe is not None and (block := await pipe.read(_BLOCK)):
        kept.add(block)
        if kept.total > flood_bytes:
            raise _TooMuchError


async def _outgrown(pid: int, memory_bytes: int | None) -> None:
    """Return once the process tree holds more than ``memory_bytes``; never without that bound."""
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        if memory_bytes is not None and tree_memory_bytes(pid) > memory_bytes:
            return


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of the process and collect it."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # asyncio reports the end only once the pipes are empty. The bound guards against one that somebody else holds.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(_collect(process), _REAP_S)


async def _collect(process: asyncio.subprocess.Process) -> None:
    for pipe in (process.stdout, process.stderr):
        while pipe is not None and await pipe.read(_BLOCK):
            pass
    await process.wait()
