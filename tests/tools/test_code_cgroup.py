"""Control groups, on a folder that looks like /sys/fs/cgroup."""

from pathlib import Path

import pytest

from toolorchestra.tools.code import CodeLimits
from toolorchestra.tools.code.bubblewrap import BubblewrapBackend, SandboxPython
from toolorchestra.tools.code.cgroup import Cgroup, find_parent
from toolorchestra.tools.code.memory import tree_memory_bytes


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    file = tmp_path / "membership"
    file.write_text("1:name=systemd:/\n0::/a/b\n")
    return file


def offer(folder: Path, controllers: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.subtree_control").write_text(controllers)


def test_the_nearest_folder_with_both_controllers_is_taken(tmp_path: Path, membership: Path) -> None:
    root = tmp_path / "cgroup"
    offer(root / "a" / "b", "memory")
    offer(root / "a", "cpu memory pids\n")
    offer(root, "memory pids")
    assert find_parent(root, membership) == root / "a"


def test_without_controllers_or_v2_there_is_none(tmp_path: Path, membership: Path) -> None:
    root = tmp_path / "cgroup"
    offer(root / "a" / "b", "")
    assert find_parent(root, membership) is None
    membership.write_text("4:memory:/x\n")
    assert find_parent(root, membership) is None
    assert find_parent(root, tmp_path / "missing") is None


def test_a_group_sets_its_limits_and_reports_the_kill(tmp_path: Path) -> None:
    group = Cgroup.create(tmp_path, memory_bytes=123, processes=7)
    group.add(42)
    group.kill()
    assert {name: (group.path / name).read_text() for name in ("memory.max", "pids.max", "cgroup.procs")} == {
        "memory.max": "123",
        "pids.max": "7",
        "cgroup.procs": "42",
    }
    assert not group.out_of_memory
    (group.path / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.out_of_memory


def test_removing_waits_a_moment_and_then_gives_up(tmp_path: Path) -> None:
    group = Cgroup.create(tmp_path, memory_bytes=1, processes=1)
    group.remove(patience_s=0.01)
    assert group.path.exists()
    for file in group.path.iterdir():
        file.unlink()
    group.remove()
    group.remove()
    assert not group.path.exists()


def test_a_gated_command_waits_for_a_line_before_it_starts() -> None:
    backend = BubblewrapBackend(SandboxPython(Path("/usr/bin/python3")), "/usr/bin/bwrap")
    gated, plain = backend.command(CodeLimits(), gated=True), backend.command(CodeLimits())
    assert gated[:4] == ["/bin/sh", "-c", 'read -r _ && exec "$@"', "sh"]
    assert gated[4:] == plain


async def test_a_gated_run_reads_the_code_after_the_line(tmp_path: Path) -> None:
    """The folder is no cgroup, so nothing limits; but the run goes the way through the gate."""
    from toolorchestra.tools.code import detect

    found = detect().bubblewrap
    if found is None:
        pytest.skip("bubblewrap cannot isolate here")
    backend = BubblewrapBackend(found.python, found._bwrap, cgroups=tmp_path)
    ran = await backend.run("print(input.__name__)\n6 * 7", CodeLimits())
    assert (ran.status, ran.stdout) == ("ok", "input\n42\n")


def test_the_memory_of_a_process_that_is_gone_is_nothing() -> None:
    assert tree_memory_bytes(2**22 + 1) == 0
