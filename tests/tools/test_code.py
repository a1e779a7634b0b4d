"""The sandboxes: what they give, what they refuse, and that nothing gets out of them."""

import asyncio
import gc
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from toolorchestra.errors import UserError
from toolorchestra.tools import CallContext, CodeInterpreter, CodeLimits, CodeRun
from toolorchestra.tools.code import BubblewrapBackend, CodeBackend, MontyBackend, choose_backend, detect
from toolorchestra.trajectory import ToolResult

REPORT = detect()
CONTEXT = CallContext()
SHORT = CodeLimits(wall_s=1.5)
needs_bubblewrap = pytest.mark.skipif(REPORT.bubblewrap is None, reason=f"bubblewrap: {REPORT.bubblewrap_detail}")


@pytest.fixture
def bubblewrap() -> BubblewrapBackend:
    if REPORT.bubblewrap is None:
        pytest.skip(f"bubblewrap: {REPORT.bubblewrap_detail}")
    return REPORT.bubblewrap


@pytest.fixture(params=["bubblewrap", "monty"])
def backend(request: pytest.FixtureRequest) -> Iterator[CodeBackend]:
    if request.param == "bubblewrap":
        yield request.getfixturevalue("bubblewrap")
        return
    monty = MontyBackend(workers=4)
    yield monty
    monty.close()


async def run(backend: CodeBackend, code: str, limits: CodeLimits = SHORT) -> ToolResult:
    return await CodeInterpreter(backend, limits).call({"code": code}, CONTEXT)


def processes_with(word: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                continue
            if line.startswith(word):
                found.append(line)
    return found


@pytest.mark.parametrize(
    ("code", "content"),
    [
        ("print('a')\n1 + 2", "a\n3"),
        ("x = 6\nx * 7", "42"),
        ("'a' + 'b'", "'ab'"),
        ("None", "(no output: print the result, or end with an expression)"),
        ("x = 1", "(no output: print the result, or end with an expression)"),
        ("for i in range(2):\n    print(i)", "0\n1"),
        ("[1, (2,), {'k': {3}}]", "[1, (2,), {'k': {3}}]"),
        ("2 ** 200", str(2**200)),
        ("print('é 😀')", "é 😀"),
    ],
)
async def test_prints_then_shows_the_last_value(backend: CodeBackend, code: str, content: str) -> None:
    result = await run(backend, code)
    assert (result.content, result.error) == (content, None)
    assert result.data["status"] == "ok"


async def test_an_error_shows_the_end_of_the_traceback(backend: CodeBackend) -> None:
    result = await run(backend, "def f():\n    return 1 / 0\nprint('before')\nf()")
    assert result.error == "error: ZeroDivisionError: division by zero"
    assert result.content.startswith("before\nTraceback")
    assert "return 1 / 0" in result.content
    assert result.content.endswith("ZeroDivisionError: division by zero")


async def test_a_syntax_error_is_readable(backend: CodeBackend) -> None:
    result = await run(backend, "def f(:")
    assert result.data["status"] == "error"
    assert "SyntaxError" in result.content


async def test_an_endless_loop_is_stopped(backend: CodeBackend) -> None:
    started = time.monotonic()
    result = await run(backend, "print('on my way')\nwhile True: pass", CodeLimits(wall_s=0.5))
    assert time.monotonic() - started < 2
    assert result.error == "timeout: stopped after 0.5 s"
    assert "did not finish" in result.content


async def test_a_memory_hog_is_stopped(backend: CodeBackend) -> None:
    result = await run(backend, "x = []\nwhile True: x.append('a' * 1_000_000)", CodeLimits(memory_mb=64, wall_s=5))
    assert result.data["status"] == "memory"
    assert "64 MiB" in (result.error or "")


async def test_an_integer_too_long_to_write_is_an_error(backend: CodeBackend) -> None:
    result = await run(backend, "10 ** 5000")
    assert result.data["status"] == "error"
    assert "4300 digits" in result.content


async def test_long_output_keeps_beginning_and_end(backend: CodeBackend) -> None:
    result = await run(backend, "print('start' + 'x' * 200_000)\n'end'", CodeLimits(output_chars=400))
    assert result.content.startswith("startxxx")
    assert result.content.endswith("'end'")
    assert "bytes left out" in result.content
    assert len(result.content) < 500


async def test_a_flood_of_output_is_stopped(backend: CodeBackend) -> None:
    started = time.monotonic()
    result = await run(backend, "while True: print('x' * 1000)", CodeLimits(wall_s=5, flood_mb=1))
    assert result.error == "killed: stopped: it wrote more than 1 MiB of output"
    assert time.monotonic() - started < 2


async def test_a_value_that_holds_itself_often_is_cut(backend: CodeBackend) -> None:
    result = await run(backend, "x = [1]\nfor _ in range(16): x = [x, x]\nx", CodeLimits(output_chars=1_000))
    assert result.data["status"] == "ok"
    assert len(result.content) < 1_200


async def test_nothing_is_kept_between_calls(backend: CodeBackend) -> None:
    await run(backend, "kept = 1")
    assert "NameError" in (await run(backend, "kept")).content


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("  \n", "it is empty"),
        ("print(1)\0", "it contains a NUL character"),
        ("print('\ud800')", "it contains half of a character (a lone surrogate)"),
        ("#" * 101, "it has 101 characters, more than the 100 allowed"),
    ],
)
async def test_what_cannot_be_code_is_not_run(backend: CodeBackend, code: str, reason: str) -> None:
    result = await run(backend, code, CodeLimits(code_chars=100))
    assert result.error == reason
    assert "was not run" in result.content


async def test_many_calls_at_once(backend: CodeBackend) -> None:
    results = await asyncio.gather(*(run(backend, f"{n} * {n}", CodeLimits()) for n in range(20)))
    assert [result.content for result in results] == [str(n * n) for n in range(20)]


async def test_secrets_files_and_network_are_out_of_reach(
    backend: CodeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sandbox-06: isolation by the system, not by names; introspection finds classes but nothing to use them on."""
    monkeypatch.setenv("DEMO_API_KEY", "sk-demo-123")
    with tempfile.NamedTemporaryFile("w", prefix="host_secret", dir="/tmp") as secret:
        secret.write("a secret")
        secret.flush()
        codes = [
            "import os\nprint(os.environ.get('DEMO_API_KEY'))",
            "mods = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == 'Popen']\n"
            f"print(open({secret.name!r}).read())",
            "import socket\nsocket.create_connection(('127.0.0.1', 9), 1)",
        ]
        environment, file, network = [await run(backend, code) for code in codes]
    assert "sk-demo" not in environment.content
    assert (file.data["status"], network.data["status"]) == ("error", "error")
    assert "secret" not in file.data["stdout"]
    if backend.name == "bubblewrap":
        assert environment.data["stdout"] == "None\n"
        assert "FileNotFoundError" in file.content


async def test_a_late_finaliser_runs_in_the_sandbox_or_not_at_all(backend: CodeBackend) -> None:
    """sandbox-07: no object of the code reaches this process, so none can act here later."""
    marker = Path(tempfile.gettempdir()) / f"late_marker_{os.getpid()}"
    code = (
        f"class T:\n    def __del__(self):\n        open({str(marker)!r}, 'w').write('x')\n"
        "keep = T()\nprint('set')\nkeep"
    )
    result = await run(backend, code)
    backend.close()
    gc.collect()
    assert result.data["stdout"].startswith("set\n")
    assert not marker.exists()
    assert all(type(value) in (str, float) for value in result.data.values())


async def test_a_grandchild_in_its_own_session_dies(bubblewrap: BubblewrapBackend) -> None:
    """sandbox-02: the grandchild holds the pipe, and the call returns all the same."""
    sleep = f"247.{os.getpid()}"
    code = f"import subprocess\nsubprocess.Popen(['sleep', '{sleep}'], start_new_session=True)\nprint('started')"
    started = time.monotonic()
    result = await run(bubblewrap, code, CodeLimits(wall_s=3))
    assert result.data["stdout"] == "started\n"
    assert time.monotonic() - started < 2
    assert processes_with(f"sleep {sleep}") == []


async def test_a_grandchild_dies_at_the_time_limit(bubblewrap: BubblewrapBackend) -> None:
    sleep = f"248.{os.getpid()}"
    code = f"import subprocess\nsubprocess.Popen(['sleep', '{sleep}'], start_new_session=True)\nwhile True: pass"
    result = await run(bubblewrap, code, CodeLimits(wall_s=0.5))
    assert result.data["status"] == "timeout"
    await asyncio.sleep(0.1)
    assert processes_with(f"sleep {sleep}") == []


async def test_a_fork_bomb_is_contained(bubblewrap: BubblewrapBackend) -> None:
    """sandbox-03: the host can start processes during it, and none is left after it."""
    bomb = f"bomb-{os.getpid()}"
    loop = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    code = f"import os, sys\nos.execv(sys.executable, [{bomb!r}, '-c', {loop!r}])"
    call = asyncio.create_task(run(bubblewrap, code, CodeLimits(wall_s=1.5, processes=32)))
    await asyncio.sleep(1)
    during = len(processes_with(bomb))
    assert subprocess.run(["/bin/true"], check=False).returncode == 0
    result = await call
    assert result.data["status"] in ("timeout", "killed")
    assert 5 < during <= 32
    await asyncio.sleep(0.2)
    assert processes_with(bomb) == []


async def test_forks_are_counted_per_call(bubblewrap: BubblewrapBackend) -> None:
    code = (
        "import os, time\nn = 0\ntry:\n    for _ in range(100):\n        if os.fork() == 0:\n"
        "            time.sleep(60)\n        n += 1\nexcept BlockingIOError:\n    pass\nn < 20"
    )
    results = await asyncio.gather(*(run(bubblewrap, code, CodeLimits(wall_s=5, processes=20)) for _ in range(3)))
    assert [result.content for result in results] == ["True"] * 3


async def test_memory_is_counted_over_all_processes(bubblewrap: BubblewrapBackend) -> None:
    code = "import os, time\nfor _ in range(3): os.fork()\nx = bytearray(40_000_000)\ntime.sleep(30)"
    started = time.monotonic()
    result = await run(bubblewrap, code, CodeLimits(memory_mb=128, wall_s=8))
    assert result.error == "memory: stopped: it used more than 128 MiB of memory"
    assert time.monotonic() - started < 4


async def test_a_flood_on_both_pipes_does_not_block(bubblewrap: BubblewrapBackend) -> None:
    code = "import sys\nfor _ in range(3000):\n    print('o' * 300)\n    print('e' * 300, file=sys.stderr)\n'done'"
    result = await run(bubblewrap, code, CodeLimits(wall_s=8))
    assert result.data["status"] == "ok"
    assert result.data["stdout"].endswith("'done'\n")
    assert "eee" in result.data["stderr"]


async def test_the_view_of_the_file_system(bubblewrap: BubblewrapBackend) -> None:
    code = f"""
import os
def writable(path):
    try:
        open(path, "w").write("x")
    except OSError:
        return False
    return True
print([os.path.exists(path) for path in ("/etc/shadow", "/etc/passwd", {str(Path.home())!r}, {str(Path.cwd())!r})])
print([writable(path) for path in ("/x", "/usr/x", "/etc/x", "/dev/x", "/tmp/x", "here")])
print(sorted(os.listdir("/tmp")), os.getcwd())
print(sorted(os.environ)[:3], [p for p in os.listdir("/proc") if p.isdigit() and int(p) > 20])
"""
    result = await run(bubblewrap, code)
    lines = result.content.splitlines()
    assert lines[0] == "[False, False, False, False]"
    assert lines[1] == "[False, False, False, False, True, True]"
    assert lines[2] == "['here', 'x'] /tmp"
    assert lines[3].endswith("[]")
    assert (await run(bubblewrap, "import os\nos.listdir('/tmp')")).content == "[]"


async def test_files_cannot_fill_the_memory(bubblewrap: BubblewrapBackend) -> None:
    code = "for n in range(100):\n    with open(f'{folder}/{n}', 'wb') as f:\n        f.write(bytes(1_000_000))"
    for folder in ("/tmp", "/dev/shm"):
        result = await run(bubblewrap, f"folder = {folder!r}\n{code}", CodeLimits(file_mb=8))
        assert "No space left" in result.content
    large = await run(bubblewrap, "open('/tmp/x', 'wb').write(bytes(20_000_000))", CodeLimits(file_mb=8))
    assert large.data["status"] == "error"


async def test_a_listening_port_of_the_host_is_out_of_reach(bubblewrap: BubblewrapBackend) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = await run(bubblewrap, f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)")
    assert "OSError" in result.content or "ConnectionRefusedError" in result.content


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("import os\nos.abort()", "killed", "ended by signal 6"),
        ("import sys\nsys.exit(3)", "error", "ended with exit code 3"),
        ("import sys\nsys.exit()", "ok", ""),
        ("input()", "error", "EOFError: EOF when reading a line"),
        ("import os\nos.kill(1, 9)\n1", "ok", ""),
        ("import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (999, 999))", "error", "ValueError"),
        ("import os\nos.setuid(0)", "error", "OSError"),
    ],
)
async def test_how_code_ends(bubblewrap: BubblewrapBackend, code: str, status: str, reason: str) -> None:
    ran = await bubblewrap.run(code, SHORT)
    assert ran.status == status
    assert ran.reason.startswith(reason) or reason in ran.reason


async def test_cpu_time_is_limited_apart_from_the_clock(bubblewrap: BubblewrapBackend) -> None:
    result = await run(bubblewrap, "while True: pass", CodeLimits(wall_s=10, cpu_s=1))
    assert result.error == "timeout: stopped: it used up its CPU time"


async def test_a_cancelled_call_leaves_no_process(bubblewrap: BubblewrapBackend) -> None:
    sleep = f"249.{os.getpid()}"
    task = asyncio.create_task(run(bubblewrap, f"import subprocess\nsubprocess.run(['sleep', '{sleep}'])"))
    for _ in range(50):
        await asyncio.sleep(0.02)
        if processes_with(f"sleep {sleep}"):
            break
    assert len(processes_with(f"sleep {sleep}")) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.1)
    assert processes_with(f"sleep {sleep}") == []


def test_the_report_names_what_works() -> None:
    bubblewrap, monty = REPORT.lines()[:2]
    assert bubblewrap.startswith("bubblewrap: ")
    assert monty.startswith("monty: ")
    assert REPORT.default in ("bubblewrap", "monty", None)


def test_no_sandbox_is_an_error_that_names_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without bwrap and monty nothing runs, rather than running unprotected."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("toolorchestra.tools.code.detection.find_spec", lambda name: None)
    report = detect()
    assert report.default is None
    assert "bwrap is not installed" in report.lines()[0]
    with pytest.raises(UserError, match=r"apt-get install bubblewrap.*pip install pydantic-monty"):
        choose_backend()


def test_a_sandbox_that_does_not_isolate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sandbox-06: a missing capability is reported at the start. Here bwrap is a program that isolates nothing."""
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\nshift\nexec "$@"\n')
    fake.chmod(0o755)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    report = detect(Path("/usr/bin/python3") if Path("/usr/bin/python3").exists() else None)
    assert report.bubblewrap is None
    assert "not isolate" in report.bubblewrap_detail or "ermission denied" in report.bubblewrap_detail


def test_auto_falls_back_on_monty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert choose_backend().name == "monty"
    with pytest.raises(UserError, match="bwrap is not installed"):
        choose_backend("bubblewrap")


def test_limits_that_cannot_work_are_refused() -> None:
    for settings in ({"wall_s": 0}, {"memory_mb": 8}, {"processes": 0}, {"concurrency": 0}, {"cpu_s": 0}):
        with pytest.raises(UserError):
            CodeLimits(**settings)


class Counting:
    """A backend that counts its runs."""

    name = "counting"

    def __init__(self, *runs: CodeRun) -> None:
        self.runs = list(runs)
        self.limits: list[CodeLimits] = []

    async def run(self, code: str, limits: CodeLimits) -> CodeRun:
        self.limits.append(limits)
        return self.runs.pop(0)

    def close(self) -> None:
        """Nothing to close."""


async def test_simulated_seconds_and_the_fee() -> None:
    tool = CodeInterpreter(
        Counting(CodeRun("ok", "1\n", wall_s=9.0)), latency_s=2.0, fee=lambda seconds: Decimal("0.01") * int(seconds)
    )
    result = await tool.call({"code": "1"}, CallContext(time_left_s=0.5))
    assert result.latency_s == 2.0
    (charge,) = result.charges
    assert (charge.source, charge.usd, charge.latency_s) == ("code_interpreter", Decimal("0.02"), 2.0)


async def test_real_seconds_and_no_fee() -> None:
    result = await CodeInterpreter(Counting(CodeRun("ok", "1\n", wall_s=0.25))).call({"code": "1"}, CONTEXT)
    assert (result.latency_s, result.charges, result.data["wall_s"]) == (None, (), 0.25)


async def test_the_time_left_shortens_the_limit() -> None:
    backend = Counting(CodeRun("ok"), CodeRun("ok"))
    tool = CodeInterpreter(backend, CodeLimits(wall_s=10))
    await tool.call({"code": "1"}, CallContext(time_left_s=2.5))
    await tool.call({"code": "1"}, CallContext(time_left_s=60))
    assert [limits.wall_s for limits in backend.limits] == [2.5, 10]


async def test_the_memo_repeats_what_ended_by_itself() -> None:
    backend = Counting(CodeRun("timeout"), CodeRun("ok", "5\n", wall_s=0.3), CodeRun("ok", "6\n"))
    tool = CodeInterpreter(backend, memo=True)
    results = [await tool.call({"code": code}, CONTEXT) for code in ("a", "a", "a", "b")]
    assert [result.content for result in results][1:] == ["5", "5", "6"]
    assert results[2].latency_s == 0.3
    assert backend.runs == []
