"""pydantic-monty: an interpreter of a subset of Python, written in Rust, without any way to files, network or clock.

For machines where bubblewrap cannot isolate, or where a tenth of a millisecond a call matters more than the whole
language: no third-party package, few standard modules. It runs in worker processes that are kept warm; each call gets
a new session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from toolorchestra.errors import UserError
from toolorchestra.tools.code.base import CodeLimits, CodeRun, RunStatus
from toolorchestra.tools.code.output import BoundedText, bounded_repr

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontyError

_GRACE_S = 1.0


class MontyBackend:
    """Runs code in monty workers.

    Args:
        workers: Worker processes at most; further calls wait.

    Raises:
        UserError: pydantic-monty is not installed.
    """

    name = "monty"

    def __init__(self, *, workers: int = 8) -> None:
        try:
            import pydantic_monty  # noqa: F401  # only whether it is there: the pool starts with the first call
        except ImportError as error:
            raise UserError("the monty sandbox needs the package pydantic-monty: pip install pydantic-monty") from error
        self._workers = workers
        self._lock = threading.Lock()
        self._pool: Monty | None = None
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, code: str, limits: CodeLimits) -> CodeRun:
        """Run ``code``; see :class:`CodeBackend`."""
        pool, threads = self._start()
        return await asyncio.get_running_loop().run_in_executor(threads, _run, pool, code, limits)

    def close(self) -> None:
        """Stop the workers."""
        with self._lock:
            pool, threads = self._pool, self._threads
            self._pool = self._threads = None
        if threads is not None:
            threads.shutdown()
        if pool is not None:
            pool.__exit__(None, None, None)

    def _start(self) -> tuple[Monty, ThreadPoolExecutor]:
        from pydantic_monty import Monty

        with self._lock:
            if self._pool is None or self._threads is None:
                self._pool = Monty(max_processes=self._workers, feed_duration_limit_grace=_GRACE_S)
                self._pool.__enter__()
                self._threads = ThreadPoolExecutor(self._workers, thread_name_prefix="monty")
            return self._pool, self._threads


@dataclass(slots=True)
class _Streams:
    """The bounded output of one call; stops the worker that floods it."""

    stdout: BoundedText
    stderr: BoundedText
    flood_bytes: int
    worker: int | None = None

    def write(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        kept = self.stdout if stream == "stdout" else self.stderr
        kept.add(text.encode(errors="replace"))
        if self.flooded and self.worker is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.worker, signal.SIGKILL)

    @property
    def flooded(self) -> bool:
        return self.stdout.total + self.stderr.total > self.flood_bytes


def _run(pool: Monty, code: str, limits: CodeLimits) -> CodeRun:
    from pydantic_monty import MontyError, ResourceLimits

    bounds: ResourceLimits = {"max_feed_duration_secs": limits.wall_s, "max_memory": limits.memory_bytes}
    streams = _Streams(
        BoundedText(limits.output_chars), BoundedText(limits.output_chars, head=0.25), limits.flood_bytes
    )
    status: RunStatus = "ok"
    reason = ""
    # Sleeping returns at once: it costs nobody time and cannot outlast the limit.
    with pool.checkout(limits=bounds, os_policy={"sleep": "zero", "random_start": {"seed": 0}}) as session:
        started = time.monotonic()
        try:
            streams.worker = session.worker_pid
            value = session.feed_run(code, print_callback=streams.write)
            if value is not None:
                streams.stdout.add((bounded_repr(value, limits.output_chars) + "\n").encode(errors="replace"))
        except MontyError as error:
            status, reason, text = _judge(error, limits, streams)
            streams.stderr.add(text.encode(errors="replace"))
        except (ValueError, TypeError, RecursionError) as error:
            # The value of the last expression cannot leave the sandbox (an integer of thousands of digits, say).
            status, reason = "error", f"{type(error).__name__}: {error}"[:300]
            streams.stderr.add(reason.encode(errors="replace"))
        wall_s = time.monotonic() - started
    return CodeRun(status, streams.stdout.text(), streams.stderr.text(), reason, wall_s)


def _judge(error: MontyError, limits: CodeLimits, streams: _Streams) -> tuple[RunStatus, str, str]:
    """Status, reason and text for the model."""
    from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError

    if isinstance(error, MontyCrashedError):
        if streams.flooded:
            return "killed", f"stopped: it wrote more than {limits.flood_mb} MiB of output", ""
        if error.timed_out:
            return "timeout", f"stopped after {limits.wall_s:g} s", ""
        return "killed", "the sandbox broke down", ""
    summary = str(error)[:300]
    text = error.display() if isinstance(error, MontyRuntimeError | MontySyntaxError) else str(error)
    if isinstance(error, MontyRuntimeError):
        if isinstance(error.exception(), TimeoutError) and "time limit exceeded" in summary:
            return "timeout", f"stopped after {limits.wall_s:g} s", ""
        if isinstance(error.exception(), MemoryError):
            return "memory", f"it needs more than {limits.memory_mb} MiB of memory", ""
    return "error", summary, text
