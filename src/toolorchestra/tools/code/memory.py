"""How much memory a process and its descendants hold, read from /proc: for machines without a writable cgroup."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def tree_memory_bytes(pid: int) -> int:
    """Bytes of memory of a process and all its descendants; pages that they share count once altogether.

    Processes that end while we look count 0.
    """
    total = 0
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        total += _own_memory_bytes(current)
        waiting.extend(_children(current))
    return total


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for listing in (_PROC / str(pid) / "task").glob("*/children"):
            found.extend(int(child) for child in listing.read_text().split())
    except OSError:
        return found
    return found


def _own_memory_bytes(pid: int) -> int:
    """The proportional share, or the resident size where the kernel does not tell the share."""
    folder = _PROC / str(pid)
    try:
        for line in (folder / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return int((folder / "statm").read_text().split()[1]) * 4096
    except (OSError, IndexError):
        return 0
