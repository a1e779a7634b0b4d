"""A run is a folder: its settings, its trajectories, its metrics. Killed at any moment, it goes on where it stopped.

``run.json`` says under which settings everything else was made; ``trajectories.jsonl`` and ``metrics.jsonl`` are only
ever appended to, one record a line, each written at once. A line that a kill tore is dropped on reading and cut off
before the next one is written.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from toolorchestra.errors import UserError
from toolorchestra.files import JsonLines, to_json_text, write_atomic
from toolorchestra.records import trajectory_from_json, trajectory_to_json
from toolorchestra.trajectory import Trajectory

VERSION = 1
_MUST_AGREE = ("settings", "seeds", "prices", "dataset")
_VERSIONS_OF = ("toolorchestra", "aiohttp", "pydantic-ai-slim", "torch", "transformers", "trl")
_MAX_VALUE_SHOWN = 60
_MAX_DIFFERENCES_SHOWN = 5


class EpisodeKey(NamedTuple):
    """Which episode a trajectory is."""

    policy: str
    task_id: str
    sample: int


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the parts that results depend on, as far as they are installed."""
    versions = {"python": platform.python_version()}
    for name in _VERSIONS_OF:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run was made with. A folder holds results of one such record only.

    Attributes:
        settings: The whole configuration, as plain values. Secrets have no place in it.
        seeds: Every seed, by what it seeds.
        prices: The price table.
        dataset: Fingerprint of the tasks (``tasks.tasks_hash``).
        versions: What is installed. Another version may continue a run; the record then lists it too.
    """

    settings: Mapping[str, Any]
    seeds: Mapping[str, int] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    dataset: str = ""
    versions: Mapping[str, str] = field(default_factory=installed_versions)

    def to_json(self) -> dict[str, Any]:
        """Plain values, as they come back from a file."""
        value = {
            "v": VERSION,
            "settings": self.settings,
            "seeds": self.seeds,
            "prices": self.prices,
            "dataset": self.dataset,
            "versions": [dict(self.versions)],
        }
        return dict(json.loads(to_json_text(value)))


class RunFolder:
    """The folder of a run.

    Reading needs nothing. Writing is done inside ``with folder.writing(record):``, which locks the folder against a
    second process and refuses a record that disagrees with the folder's own. What a kill tore is cut off before the
    first line is added.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = JsonLines(path / "metrics.jsonl")
        self._trajectories = JsonLines(path / "trajectories.jsonl")
        self._lock: int | None = None

    @property
    def report_path(self) -> Path:
        """Where the report belongs."""
        return self.path / "report.html"

    def writing(self, record: RunRecord) -> Self:
        """Make the folder ready to be written to, by this process alone, until :meth:`close`.

        Raises:
            UserError: Another process writes to it, it holds a run with other settings, or it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.path)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written as a run's folder ({error}); choose another one") from None
        try:
            self._settle(record.to_json())
        except BaseException:
            self.close()
            raise
        return self

    def record(self) -> dict[str, Any]:
        """The content of ``run.json``.

        Raises:
            UserError: There is none, or it is not readable.
        """
        path = self.path / "run.json"
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(f"{self.path}: no run is here (run.json is missing); check the path") from None
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: not readable ({error}); restore it, or start a run in another folder") from None
        if not isinstance(value, dict) or value.get("v") != VERSION:
            raise UserError(f"{path}: not a run record of version {VERSION}; start a run in another folder")
        return value

    def append(self, trajectory: Trajectory) -> None:
        """Write one trajectory. It is whole in the file, for any reader, when this returns."""
        self._needs_lock()
        self._trajectories.append(trajectory_to_json(trajectory))

    def append_metrics(self, values: Mapping[str, Any]) -> None:
        """Write one line of ``metrics.jsonl``."""
        self._needs_lock()
        self.metrics.append(values)

    def attempts(self) -> Iterator[Trajectory]:
        """Every trajectory ever written, in order, missing ones included: what the run has really cost.

        Raises:
            UserError: A line is not a trajectory; the message names it.
        """
        for number, value in enumerate(self._trajectories.read(), start=1):
            yield trajectory_from_json(value, where=f"{self._trajectories.path}:{number}")

    def trajectories(self) -> list[Trajectory]:
        """One trajectory an episode, in the order of first appearance: the last one that is not missing, else the last.

        Rollouts of one task in different groups are different episodes.
        """
        chosen: dict[tuple[EpisodeKey, str], Trajectory] = {}
        for trajectory in self.attempts():
            key = (episode_key(trajectory), trajectory.group)
            before = chosen.get(key)
            if before is None or before.status == "missing" or trajectory.status != "missing":
                chosen[key] = trajectory
        return list(chosen.values())

    def done(self) -> set[EpisodeKey]:
        """The episodes that need not be run again. Missing ones are not among them: they are worth another try."""
        keys = set()
        for number, value in enumerate(self._trajectories.read(), start=1):
            try:
                if value["status"] != "missing":
                    keys.add(EpisodeKey(value["policy"], value["task_id"], value["sample"]))
            except (KeyError, TypeError):
                where = f"{self._trajectories.path}:{number}"
                raise UserError(f"{where}: not a trajectory record; remove the line") from None
        return keys

    def close(self) -> None:
        """End writing. Harmless where nothing is open."""
        self._trajectories.close()
        self.metrics.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _needs_lock(self) -> None:
        if self._lock is None:
            raise RuntimeError("a run's folder is written to inside 'with folder.writing(record):' only")

    def _settle(self, new: dict[str, Any]) -> None:
        path = self.path / "run.json"
        if not path.exists():
            if self._trajectories.path.exists():
                raise UserError(f"{self.path}: trajectories without a run.json; move them away or use another folder")
            write_atomic(path, _pretty(new))
            return
        old = self.record()
        changed = [line for key in _MUST_AGREE for line in _differences(old.get(key), new[key], key)]
        if changed:
            shown = "; ".join(changed[:_MAX_DIFFERENCES_SHOWN])
            more = len(changed) - _MAX_DIFFERENCES_SHOWN
            raise UserError(
                f"{self.path} holds a run with other settings: {shown}{f'; and {more} more' if more > 0 else ''}. "
                "Use another folder for the new settings, or set them back to continue this run"
            )
        if new["versions"][0] not in old["versions"]:
            write_atomic(path, _pretty({**old, "versions": [*old["versions"], *new["versions"]]}))


def episode_key(trajectory: Trajectory) -> EpisodeKey:
    """Which episode a trajectory is."""
    return EpisodeKey(trajectory.policy, trajectory.task_id, trajectory.sample)


def _lock(folder: Path) -> int:
    """A lock that the system gives back when the process dies, however it dies."""
    path = folder / ".lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(handle, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(handle)
        raise UserError(
            f"{folder}: process {owner} is writing this run; wait until it ends, stop it, or use another folder"
        ) from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle


def _pretty(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _differences(old: Any, new: Any, key: str) -> Iterator[str]:
    """What differs, one line a leaf, by its path."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(name), new.get(name), f"{key}.{name}")
    elif old != new:
        yield f"{key} was {_shown(old)}, now {_shown(new)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_SHOWN else f"{text[:_MAX_VALUE_SHOWN]}…"
