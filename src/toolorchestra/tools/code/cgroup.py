"""A control group (v2) for one run: memory and processes of all its members together, enforced by the kernel.

Needs a folder under /sys/fs/cgroup in which we may make groups and which hands out the ``memory`` and ``pids``
controllers (a container with its own cgroup namespace, a delegated systemd scope, root). Elsewhere the sandbox does
with rlimits and a look at /proc.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_NEEDED = {"memory", "pids"}


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One group, made for one run and removed after it."""

    path: Path

    @classmethod
    def create(cls, parent: Path, *, memory_bytes: int, processes: int) -> Cgroup:
        """Make a group under ``parent``.

        Raises:
            OSError: It may not be made there, or the limits cannot be set.
        """
        group = cls(parent / f"toolorchestra-{uuid.uuid4().hex}")
        group.path.mkdir()
        try:
            (group.path / "memory.max").write_text(str(memory_bytes))
            (group.path / "pids.max").write_text(str(processes))
            if (group.path / "memory.swap.max").exists():
                (group.path / "memory.swap.max").write_text("0")
        except OSError:
            group.remove()
            raise
        return group

    def add(self, pid: int) -> None:
        """Move a process in; its later children follow."""
        (self.path / "cgroup.procs").write_text(str(pid))

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel ended a member because the memory limit was reached."""
        try:
            events = dict(line.split() for line in (self.path / "memory.events").read_text().splitlines())
        except (OSError, ValueError):
            return False
        return int(events.get("oom_kill", "0")) > 0

    def kill(self) -> None:
        """End every member."""
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def remove(self, *, patience_s: float = 0.2) -> None:
        """Remove the group. The members that were killed may take a moment to go."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                os.rmdir(self.path)
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.005)
            else:
                return


def find_parent(root: Path = _ROOT, membership: Path = Path("/proc/self/cgroup")) -> Path | None:
    """The nearest folder above our own group in which a group with memory and process limits can be made."""
    own = _own_group(membership)
    if own is None:
        return None
    here = root / own.relative_to("/")
    for candidate in (here, *here.parents):
        if not candidate.is_relative_to(root):
            break
        if _usable(candidate):
            return candidate
    return None


def _own_group(membership: Path) -> Path | None:
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    return next((Path(line[3:]) for line in lines if line.startswith("0::/")), None)


def _usable(folder: Path) -> bool:
    try:
        offered = set((folder / "cgroup.subtree_control").read_text().split())
        if not offered >= _NEEDED:
            return False
        Cgroup.create(folder, memory_bytes=2**26, processes=8).remove()
    except OSError:
        return False
    return True
