"""The program as a process: how fast it starts, what it loads, how it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from toolorchestra.testing import MockChatServer, MockReply

PROGRAM = [sys.executable, "-m", "toolorchestra.cli"]
HEAVY = ("torch", "transformers", "aiohttp", "plotly", "numpy", "scipy")
PROBE = f"""
import sys, time
start = time.perf_counter()
from toolorchestra.cli import app
try:
    app(["--help"])
except SystemExit as end:
    assert not end.code
seconds = time.perf_counter() - start
print([name for name in {HEAVY!r} if name in sys.modules], seconds, file=sys.stderr)
"""


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    best = 9.0
    for _ in range(3):
        probe = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, timeout=60)
        loaded, seconds = probe.stderr.strip().rsplit(" ", 1)
        assert loaded == "[]"
        best = min(best, float(seconds))
    assert best < 0.7


def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    rows = [{"id": f"t{number}", "question": f"What is {number}?", "answer": "uno"} for number in range(40)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    written = tmp_path / "run" / "trajectories.jsonl"
    delay_s = [0.05]
    with MockChatServer(lambda request: MockReply("uno", delay_s=delay_s[0])).threaded() as server:
        config = tmp_path / "orchestra.yaml"
        config.write_text(
            f'orchestrator: {{model: m, base_url: "{server.base_url}", price: {{input: 1, output: 1}}}}\n'
            "tasks: {test: tasks.jsonl}\nconcurrency: 2\n",
            encoding="utf-8",
        )
        command = [*PROGRAM, "evaluate", str(config), "--out", str(tmp_path / "run"), "--baselines", "none"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            _wait_for_lines(written, 3)
            os.kill(process.pid, signal.SIGINT)
            _, told = process.communicate(timeout=20)
        assert process.returncode == 130, told
        assert "the same command goes on from there" in told
        assert "Traceback" not in told
        finished = _lines(written)
        assert 3 <= finished < 40
        paid, delay_s[0] = server.count, 0.0
        again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert again.returncode == 0, again.stderr
    assert _lines(written) == 40
    ids = [json.loads(line)["task_id"] for line in written.read_text(encoding="utf-8").splitlines()]
    assert len(set(ids)) == 40
    # What was in flight at the time is asked once more, and nothing else.
    assert server.count - paid == 40 - finished


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def _wait_for_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + 20
    while _lines(path) < count:
        assert time.monotonic() < deadline, "the run has not begun"
        time.sleep(0.01)
