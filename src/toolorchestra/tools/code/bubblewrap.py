"""Full CPython behind bubblewrap: namespaces for files, network and processes, and limits from outside the code.

What a run sees: a read-only /usr and Python, an empty private /tmp, no other file, no network, no variable of our
environment, no process but its own. Its processes end with it, wherever they went: they live in a PID namespace that
dies with its first process.

Process and memory limits come from a cgroup where one can be made. Elsewhere RLIMIT_NPROC counts the processes of the
run's own user namespace (Linux 5.14 and later). The kernel does not apply that limit to root, so root starts the
sandbox as a user id that nobody has. RLIMIT_AS bounds each process, and a look at /proc the sum.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from toolorchestra.errors import UserError
from toolorchestra.tools.code.base import CodeLimits, CodeRun, RunStatus
from toolorchestra.tools.code.cgroup import Cgroup
from toolorchestra.tools.code.process import ProcessRun, run_process

# Neither Debian's static nor systemd's dynamic ids reach here.
_SPARE_UIDS = range(65_520, 65_534)
_SIGNAL_EXIT = 128
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    # The same code gives the same answer, and a numeric library does not start a thread a core.
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
}


@dataclass(frozen=True, slots=True)
class SandboxPython:
    """An interpreter for the sandbox.

    Attributes:
        executable: Its path, on the host and in the sandbox alike.
        folders: What it needs besides /usr; shown read-only.
    """

    executable: Path
    folders: tuple[Path, ...] = ()


def inspect_python(executable: Path) -> SandboxPython:
    """Ask an interpreter (one of ours, trusted) where its library is.

    Raises:
        UserError: It does not run.
    """
    question = "import sys; print(sys.prefix); print(sys.base_prefix)"
    try:
        asked = subprocess.run(
            [str(executable), "-I", "-c", question], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"the code interpreter's python {executable} does not run ({error}); name another") from error
    folders = {Path(line).resolve() for line in asked.stdout.splitlines()}
    folders = {folder for folder in folders if not folder.is_relative_to("/usr") and folder != Path("/")}
    return SandboxPython(executable.absolute(), tuple(sorted(folders)))


class BubblewrapBackend:
    """Runs code in bubblewrap, a new one for every call.

    Args:
        python: The interpreter to offer (see :func:`inspect_python`).
        bwrap: The bubblewrap program.
        cgroups: A folder in which a cgroup can be made for each run; ``None`` does with rlimits.
    """

    name = "bubblewrap"

    def __init__(self, python: SandboxPython, bwrap: str, *, cgroups: Path | None = None) -> None:
        self.python = python
        self.cgroups = cgroups
        self._bwrap = bwrap
        self._slots: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    async def run(self, code: str, limits: CodeLimits) -> CodeRun:
        """Run ``code``; see :class:`CodeBackend`."""
        async with self._slot(limits.concurrency):
            with self._group(limits) as group:
                ran = await run_process(
                    self.command(limits, gated=group is not None),
                    b"\n" * (group is not None) + code.encode(),
                    wall_s=limits.wall_s,
                    keep_bytes=limits.output_chars,
                    flood_bytes=limits.flood_bytes,
                    memory_bytes=None if group else limits.memory_bytes,
                    on_start=group.add if group else None,
                )
                return _verdict(ran, limits, out_of_memory=group is not None and group.out_of_memory)

    def close(self) -> None:
        """Nothing is kept between runs."""

    def command(self, limits: CodeLimits, *, gated: bool = False) -> list[str]:
        """The command line of one run, which reads the code from its stdin.

        With ``gated`` it waits for a line first, so that it can be put into a cgroup before it has children.
        """
        gate = ["/bin/sh", "-c", 'read -r _ && exec "$@"', "sh"] if gated else []
        python = [str(self.python.executable), "-I", "-B", "-X", "utf8", "-c", _runner(), *_rlimits(limits)]
        return [*gate, *_without_root(), self._bwrap, *self._namespaces(limits), "--", *python]

    def _namespaces(self, limits: CodeLimits) -> list[str]:
        size = str(limits.file_bytes)
        arguments = ["--unshare-all", "--unshare-user", "--disable-userns", "--hostname", "sandbox"]
        arguments += ["--die-with-parent", "--new-session", "--clearenv"]
        for key, value in _ENVIRONMENT.items():
            arguments += ["--setenv", key, value]
        arguments += ["--ro-bind", "/usr", "/usr"]
        for name in _LINKS:
            arguments += _link(Path("/") / name)
        for folder in self.python.folders:
            arguments += ["--ro-bind", str(folder), str(folder)]
        arguments += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
        arguments += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm"]
        arguments += ["--size", size, "--tmpfs", "/tmp", "--remount-ro", "/dev", "--remount-ro", "/"]
        return [*arguments, "--chdir", "/tmp"]

    def _slot(self, concurrency: int) -> asyncio.Semaphore:
        """The semaphore of the running event loop: one cannot be shared between loops."""
        loop = asyncio.get_running_loop()
        if self._slots is None or self._slots[0] is not loop:
            self._slots = (loop, asyncio.Semaphore(concurrency))
        return self._slots[1]

    @contextlib.contextmanager
    def _group(self, limits: CodeLimits) -> Iterator[Cgroup | None]:
        if self.cgroups is None:
            yield None
            return
        # bubblewrap's own two processes count as well.
        group = Cgroup.create(self.cgroups, memory_bytes=limits.memory_bytes, processes=limits.processes + 2)
        try:
            yield group
        finally:
            group.kill()
            group.remove()


def _link(path: Path) -> list[str]:
    """How a folder such as /lib64 appears: as the link into /usr that it is, or read-only."""
    if path.is_symlink():
        return ["--symlink", os.readlink(path), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.is_dir() else []


@cache
def _runner() -> str:
    return resources.files("toolorchestra.tools.code").joinpath("runner.py").read_text(encoding="utf-8")


def _rlimits(limits: CodeLimits) -> list[str]:
    values = {
        "CPU": limits.cpu_s or math.ceil(limits.wall_s) + 1,
        "AS": limits.memory_bytes,
        "FSIZE": limits.file_bytes,
        "NPROC": limits.processes,
        "NOFILE": limits.open_files,
        "CORE": 0,
    }
    return [f"{name}={value}" for name, value in values.items()]


def _without_root() -> list[str]:
    """For root: become a user id that has no account, since the kernel counts no processes for root."""
    if os.geteuid() != 0:
        return []
    # pwd is missing on Windows, where nothing here runs but the module must import.
    import pwd

    taken = {entry.pw_uid for entry in pwd.getpwall()}
    uid = next(str(uid) for uid in _SPARE_UIDS if uid not in taken)
    return [shutil.which("setpriv") or "setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--"]


def default_pythons() -> Sequence[Path]:
    """Interpreters to offer, best first: the one that runs us (not its virtual environment), then the system's."""
    candidates = [Path(os.path.realpath(sys.executable)), Path("/usr/bin/python3"), Path("/usr/local/bin/python3")]
    return [path for path in dict.fromkeys(candidates) if path.exists()]


def _verdict(ran: ProcessRun, limits: CodeLimits, *, out_of_memory: bool) -> CodeRun:
    status, reason = _judge(ran, limits, out_of_memory)
    return CodeRun(status, ran.stdout, ran.stderr, reason, ran.wall_s)


def _judge(ran: ProcessRun, limits: CodeLimits, out_of_memory: bool) -> tuple[RunStatus, str]:
    if ran.stopped == "wall":
        return "timeout", f"stopped after {limits.wall_s:g} s"
    if ran.stopped == "output":
        return "killed", f"stopped: it wrote more than {limits.flood_mb} MiB of output"
    if ran.stopped == "memory" or out_of_memory:
        return "memory", f"stopped: it used more than {limits.memory_mb} MiB of memory"
    code = ran.exit_code or 0
    if code == 0:
        return "ok", ""
    return _judge_exit(code, ran.stderr, limits)


def _judge_exit(code: int, stderr: str, limits: CodeLimits) -> tuple[RunStatus, str]:
    if code == _SIGNAL_EXIT + signal.SIGXCPU:
        return "timeout", "stopped: it used up its CPU time"
    if code > _SIGNAL_EXIT or code < 0:
        number = -code if code < 0 else code - _SIGNAL_EXIT
        return "killed", f"ended by signal {number}"
    last = stderr.rstrip().rpartition("\n")[2]
    if code == 1 and last.startswith("MemoryError"):
        return "memory", f"it needs more than {limits.memory_mb} MiB of memory"
    return "error", last[:300] or f"ended with exit code {code}"
