"""Which sandbox this machine has, found out by trying rather than by asking for versions."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from toolorchestra.errors import UserError
from toolorchestra.tools.code.base import CodeBackend, CodeLimits
from toolorchestra.tools.code.bubblewrap import BubblewrapBackend, SandboxPython, default_pythons, inspect_python
from toolorchestra.tools.code.cgroup import find_parent
from toolorchestra.tools.code.monty import MontyBackend

BackendName = Literal["auto", "bubblewrap", "monty"]

_PROBE = """
import json, os, socket
def reach(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
print(json.dumps({
    "environment": "TOOLORCHESTRA_PROBE" not in os.environ,
    "files": not os.path.exists(%(path)r),
    "network": not reach(%(port)d),
    "processes": os.getppid() == 1,
}))
"""
_ASPECTS = ("environment", "files", "network", "processes")
_PROBE_S = 20
_INSTALL = (
    "install bubblewrap 0.8 or later on Linux (apt-get install bubblewrap; user namespaces must be allowed), "
    "or the package pydantic-monty (pip install pydantic-monty)"
)


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """What this machine can isolate.

    Attributes:
        bubblewrap: The working backend, or ``None``.
        bubblewrap_detail: Its interpreter and how it limits; for ``None``, why it does not work.
        monty: Whether pydantic-monty is installed.
    """

    bubblewrap: BubblewrapBackend | None
    bubblewrap_detail: str
    monty: bool

    @property
    def default(self) -> Literal["bubblewrap", "monty"] | None:
        """What ``auto`` takes; ``None`` where nothing can isolate, so that no code may be run."""
        if self.bubblewrap is not None:
            return "bubblewrap"
        return "monty" if self.monty else None

    def lines(self) -> tuple[str, ...]:
        """The findings in words, for ``doctor``."""
        state = "works" if self.bubblewrap else "not available"
        lines = [f"bubblewrap: {state} ({self.bubblewrap_detail})"]
        lines.append(f"monty: {'installed (a subset of Python)' if self.monty else 'not installed'}")
        if self.default is None:
            lines.append(f"no code can be run: {_INSTALL}")
        return tuple(lines)


def detect(python: Path | None = None) -> SandboxReport:
    """Try every sandbox that this machine may have. Takes about a tenth of a second.

    Args:
        python: The interpreter to offer instead of the one that runs us or the system's.
    """
    backend, detail = _find_bubblewrap(python)
    return SandboxReport(backend, detail, find_spec("pydantic_monty") is not None)


def choose_backend(name: BackendName = "auto", *, python: Path | None = None) -> CodeBackend:
    """The sandbox to use. Code is never run without one.

    Raises:
        UserError: The one that was asked for (with ``auto``: any) cannot isolate here; says why and what to install.
    """
    if name == "monty":
        return MontyBackend()
    report = detect(python)
    if report.bubblewrap is not None:
        return report.bubblewrap
    if name == "auto" and report.monty:
        return MontyBackend()
    raise UserError(f"code cannot be isolated on this machine: bubblewrap: {report.bubblewrap_detail}; {_INSTALL}")


def _find_bubblewrap(python: Path | None) -> tuple[BubblewrapBackend | None, str]:
    if not sys.platform.startswith("linux"):
        return None, "it needs Linux"
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return None, "the program bwrap is not installed"
    cgroups = find_parent()
    reasons: list[str] = []
    for candidate in default_pythons() if python is None else [python]:
        backend = BubblewrapBackend(inspect_python(candidate), bwrap, cgroups=cgroups)
        failure = _probe(backend)
        if failure is None:
            return backend, _describe(backend.python, cgroups)
        reasons.append(f"{candidate}: {failure}")
    return None, "; ".join(reasons) or "no Python was found to run in it"


def _describe(python: SandboxPython, cgroups: Path | None) -> str:
    limits = f"cgroup under {cgroups}" if cgroups else "rlimits and a look at /proc, as no cgroup is writable"
    return f"Python {python.executable}; limits by {limits}"


def _probe(backend: BubblewrapBackend) -> str | None:
    """Run a snippet that tries to reach what it must not; says what went wrong, or ``None``."""
    # Port and file are real, so that "cannot be reached" is a finding.
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.NamedTemporaryFile() as canary:
        code = _PROBE % {"path": canary.name, "port": server.getsockname()[1]}
        try:
            ran = subprocess.run(
                backend.command(CodeLimits()),
                input=code,
                capture_output=True,
                text=True,
                timeout=_PROBE_S,
                env={"TOOLORCHESTRA_PROBE": "1"},
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
    if ran.returncode != 0:
        return ran.stderr.strip().rpartition("\n")[2][:300] or f"exit code {ran.returncode}"
    return _missing(ran.stdout)


def _missing(stdout: str) -> str | None:
    try:
        found = json.loads(stdout)
        open_aspects = [aspect for aspect in _ASPECTS if found[aspect] is not True]
    except (ValueError, KeyError, TypeError):
        return "the sandbox answered nonsense"
    return f"it does not isolate: {', '.join(open_aspects)}" if open_aspects else None
