"""What a sandbox for untrusted Python is asked, and what it answers: plain text only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from toolorchestra.errors import UserError

RunStatus = Literal["ok", "error", "timeout", "killed", "memory"]
"""How the code ended: by itself, with an error of its own, at the time limit, by force, or out of memory."""

_MIN_MEMORY_MB = 64


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """What one run may use. Every limit is enforced by the sandbox, none by the code's good will.

    Attributes:
        wall_s: Seconds of wall clock.
        cpu_s: Whole seconds of CPU a process; ``None`` for just over ``wall_s``.
        memory_mb: MiB of memory of all processes together (and of address space a process).
        processes: Processes and threads at once.
        file_mb: MiB of one written file, and of the private /tmp together.
        open_files: Open files a process.
        output_chars: Characters of each output stream that are kept for the model.
        flood_mb: MiB of output at which the run is stopped.
        code_chars: Characters of code that are accepted.
        concurrency: Runs at once; further ones wait, and their clock starts when they do.
    """

    wall_s: float = 10.0
    cpu_s: int | None = None
    memory_mb: int = 512
    processes: int = 32
    file_mb: int = 16
    open_files: int = 64
    output_chars: int = 8_000
    flood_mb: int = 10
    code_chars: int = 100_000
    concurrency: int = 8

    def __post_init__(self) -> None:
        """Refuse limits that no run can meet.

        Raises:
            UserError: A limit is not positive, or the memory too small for an interpreter.
        """
        for name in ("wall_s", "processes", "file_mb", "open_files", "output_chars", "flood_mb", "code_chars"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"the code interpreter's {name} must be above 0, not {getattr(self, name)}")
        if self.concurrency < 1 or (self.cpu_s is not None and self.cpu_s < 1):
            raise UserError("the code interpreter's concurrency and cpu_s must be at least 1")
        if self.memory_mb < _MIN_MEMORY_MB:
            raise UserError(f"the code interpreter's memory_mb must be at least {_MIN_MEMORY_MB}, not {self.memory_mb}")

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        return self.memory_mb * 1024 * 1024

    @property
    def file_bytes(self) -> int:
        """The file size limit in bytes."""
        return self.file_mb * 1024 * 1024

    @property
    def flood_bytes(self) -> int:
        """The output at which a run is stopped, in bytes."""
        return self.flood_mb * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CodeRun:
    """What one run gave.

    Attributes:
        status: How it ended.
        stdout: What it printed, followed by the value of its last expression; shortened in the middle if long.
        stderr: What it wrote to the error stream; for an error the end of the traceback.
        reason: For a run that did not end ``ok``, why, in one line.
        wall_s: Seconds from the start of the sandbox to its end.
    """

    status: RunStatus
    stdout: str = ""
    stderr: str = ""
    reason: str = ""
    wall_s: float = 0.0


class CodeBackend(Protocol):
    """A sandbox. It keeps nothing from one run to the next, and no object of the code ever reaches our process."""

    @property
    def name(self) -> str:
        """``bubblewrap`` or ``monty``."""
        ...

    async def run(self, code: str, limits: CodeLimits) -> CodeRun:
        """Run ``code`` within ``limits``. Whatever the code does is in the answer; it never raises for it."""
        ...

    def close(self) -> None:
        """Let go of processes that were kept warm. A later run starts them again."""
        ...
