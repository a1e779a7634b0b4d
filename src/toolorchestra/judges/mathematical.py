"""The same mathematics, by math-verify in a process of its own with a hard limit of time and memory."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from toolorchestra.errors import RetryableError
from toolorchestra.judges.base import Verdict
from toolorchestra.judges.exact import same_words
from toolorchestra.judges.final_answer import final_answer
from toolorchestra.judges.number import MAX_DIGITS

MAX_MATH_CHARS = 4_000
"""Characters of an answer that are compared; a longer one without a marked answer is cut to its end."""
_WORKER = Path(__file__).with_name("math_worker.py")
_START_TIMEOUT_S = 60.0


class MathJudge:
    """Right if math-verify finds the answer equal to one of the right ones, or the words are the same.

    One worker process serves all calls in turn; it starts at the first call that needs it and is killed and replaced
    when a comparison takes too long. It has no verdict then, nor where the right answer cannot be read as mathematics.
    :meth:`close` ends the worker; so does dropping the judge, or the end of this process.

    Args:
        timeout_s: Seconds that one comparison may take.
    """

    name = "math"

    def __init__(self, *, timeout_s: float = 5.0) -> None:
        self._timeout_s = timeout_s
        self._worker = _Worker()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="math-judge")
        self._end = weakref.finalize(self, _end, self._worker, self._thread)

    async def judge(self, question: str, answer: str, gold: Sequence[str]) -> Verdict:
        """Compare mathematics; the question does not matter."""
        del question
        if same_words(answer, gold):
            return Verdict(True, "the same words")
        candidate = _candidate(answer)
        if _has_long_number(candidate):
            return Verdict(False, f"the answer holds a number of more than {MAX_DIGITS} digits")
        request = {"gold": [right[:MAX_MATH_CHARS] for right in gold], "answer": candidate}
        loop = asyncio.get_running_loop()
        reply = await loop.run_in_executor(self._thread, self._worker.ask, request, self._timeout_s)
        return Verdict(reply["correct"], reply["reason"])

    def close(self) -> None:
        """End the worker."""
        self._end()


def _candidate(answer: str) -> str:
    marked = final_answer(answer)
    if marked is not None:
        # math-verify reads LaTeX between dollars only, and prefers boxes
        return marked[:MAX_MATH_CHARS] if "$" in marked else f"\\boxed{{{marked[:MAX_MATH_CHARS]}}}"
    return answer[-MAX_MATH_CHARS:]


def _has_long_number(text: str) -> bool:
    run = 0
    for char in text:
        run = run + 1 if char.isdigit() else 0
        if run > MAX_DIGITS:
            return True
    return False


class _Worker:
    """The process, started when it is needed. Used from one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The worker's reply, or one without a verdict after ``timeout_s`` seconds."""
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._process = _start()
            # the first answer includes importing sympy, which is not the answer's fault
            if self._exchange({"gold": ["1"], "answer": "$1$"}, _START_TIMEOUT_S) is None:
                self.stop()
                raise RetryableError("the process that runs math-verify did not start; is math-verify installed?")
        reply = self._exchange(request, timeout_s)
        if reply is not None:
            return reply
        self.stop()
        return {"correct": None, "reason": f"the comparison took more than {timeout_s:g} s or too much memory"}

    def _exchange(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any] | None:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            return json.loads(line) if line.endswith("\n") else None
        except (BrokenPipeError, ValueError):  # it died, or was stopped meanwhile
            return None
        finally:
            timer.cancel()

    def stop(self) -> None:
        """Kill the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                _close(pipe)


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except BrokenPipeError:  # what was left to write has no reader
        return


def _start() -> subprocess.Popen[str]:
    # -P: the folder of the script is not searched for modules. No secrets go along, and no Ctrl-C of the terminal.
    return subprocess.Popen(
        [sys.executable, "-P", str(_WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        start_new_session=True,
        env={name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT") if name in os.environ},
    )


def _end(worker: _Worker, thread: ThreadPoolExecutor) -> None:
    worker.stop()
    thread.shutdown(wait=False, cancel_futures=True)
