import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolorchestra.errors import UserError
from toolorchestra.messages import Message
from toolorchestra.runs import EpisodeKey, RunFolder, RunRecord, installed_versions
from toolorchestra.trajectory import Action, Step, Trajectory

RECORD = RunRecord({"limits": {"turns": 50}, "path": ("a", "b")}, {"run": 1}, {"gpt": "0.1"}, "abc", {"python": "3.11"})


def episode(number, *, status="done", group="g", policy="p"):
    step = Step(Action(Message("assistant", f"answer {number}")), 1.0, None)
    return Trajectory(f"t{number}", 0, group, policy, steps=(step,), status=status)


def filled(path, count):
    with RunFolder(path).writing(RECORD) as folder:
        for number in range(count):
            folder.append(episode(number))
    return folder


def test_a_run_is_written_and_read(tmp_path):
    folder = filled(tmp_path / "runs" / "a", 3)
    assert [trajectory.task_id for trajectory in folder.trajectories()] == ["t0", "t1", "t2"]
    assert folder.trajectories()[1] == episode(1)
    assert folder.done() == {EpisodeKey("p", f"t{number}", 0) for number in range(3)}
    record = folder.record()
    assert record["settings"] == {"limits": {"turns": 50}, "path": ["a", "b"]}
    assert (record["seeds"], record["prices"], record["dataset"]) == ({"run": 1}, {"gpt": "0.1"}, "abc")
    assert record["versions"] == [{"python": "3.11"}]


def test_metrics_are_appended(tmp_path):
    with RunFolder(tmp_path).writing(RECORD) as folder:
        folder.append_metrics({"step": 1, "reward": 0.5})
    with RunFolder(tmp_path).writing(RECORD) as folder:
        folder.append_metrics({"step": 2, "reward": 0.6})
    assert [line["step"] for line in folder.metrics.read()] == [1, 2]


def test_an_empty_run_has_nothing_done(tmp_path):
    folder = filled(tmp_path, 0)
    assert folder.done() == set()
    assert folder.trajectories() == []


@settings(max_examples=60)
@given(st.data())
def test_killed_at_any_byte_and_resumed_is_as_if_undisturbed(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("run")
    folder = filled(path, 4)
    file = path / "trajectories.jsonl"
    whole = file.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    file.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    assert {key.task_id for key in folder.done()} == {f"t{number}" for number in range(kept)}
    with RunFolder(path).writing(RECORD) as folder:
        for number in range(4):
            if EpisodeKey("p", f"t{number}", 0) not in folder.done():
                folder.append(episode(number))
    assert file.read_bytes() == whole


def test_missing_episodes_are_tried_again_and_every_attempt_is_kept(tmp_path):
    with RunFolder(tmp_path).writing(RECORD) as folder:
        folder.append(episode(0, status="missing"))
        folder.append(episode(1))
        assert folder.done() == {EpisodeKey("p", "t1", 0)}
        folder.append(episode(0))
        folder.append(episode(0, status="missing"))
    assert [(seen.task_id, seen.status) for seen in folder.trajectories()] == [("t0", "done"), ("t1", "done")]
    assert len(list(folder.attempts())) == 4


def test_of_missing_attempts_the_last_one_stands(tmp_path):
    with RunFolder(tmp_path).writing(RECORD) as folder:
        for error in ("first", "second"):
            folder.append(replace(episode(0, status="missing"), error=error))
    assert [seen.error for seen in folder.trajectories()] == ["second"]


def test_one_task_in_two_groups_is_two_episodes(tmp_path):
    with RunFolder(tmp_path).writing(RECORD) as folder:
        folder.append(episode(0, group="step1/t0"))
        folder.append(episode(0, group="step2/t0"))
    assert len(folder.trajectories()) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": {"limits": {"turns": 9}, "path": ["a", "b"]}}, r"settings.limits.turns was 50, now 9"),
        ({"settings": {"limits": {"turns": 50}}}, r'settings.path was \["a", "b"\], now null'),
        ({"seeds": {"run": 2}}, r"seeds.run was 1, now 2"),
        ({"prices": {"gpt": "0.2"}}, r'prices.gpt was "0.1", now "0.2"'),
        ({"dataset": "xyz"}, r'dataset was "abc", now "xyz"'),
    ],
)
def test_another_runs_folder_is_refused_with_what_differs(tmp_path, change, words):
    filled(tmp_path, 1)
    values = {name: getattr(RECORD, name) for name in ("settings", "seeds", "prices", "dataset", "versions")}
    with pytest.raises(UserError, match=words + r".*another folder.*set them back"):
        RunFolder(tmp_path).writing(RunRecord(**{**values, **change}))
    filled(tmp_path, 1)  # the refusal left no lock behind


def test_many_differences_are_not_all_listed(tmp_path):
    filled(tmp_path, 1)
    many = {f"key{number}": "x" * 500 for number in range(50)}
    with pytest.raises(UserError, match="more") as caught:
        RunFolder(tmp_path).writing(RunRecord(many, RECORD.seeds, RECORD.prices, RECORD.dataset))
    assert len(str(caught.value)) < 1000


def test_other_versions_may_continue_and_are_recorded(tmp_path):
    filled(tmp_path, 1)
    newer = RunRecord(RECORD.settings, RECORD.seeds, RECORD.prices, RECORD.dataset, {"python": "3.12"})
    for _ in range(2):
        with RunFolder(tmp_path).writing(newer) as folder:
            assert folder.record()["versions"] == [{"python": "3.11"}, {"python": "3.12"}]


def test_installed_versions_name_what_results_depend_on():
    assert {"python", "aiohttp"} <= installed_versions().keys()


def test_a_second_process_is_kept_out_until_the_first_is_gone(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from toolorchestra.runs import RunFolder, RunRecord\n"
        "folder = RunFolder(pathlib.Path(sys.argv[1])).writing(RunRecord({}, versions={}))\n"
        "print('writing', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "writing\n"
        with pytest.raises(UserError, match=rf"process {other.pid} is writing this run"):
            RunFolder(tmp_path).writing(RunRecord({}, versions={}))
        other.kill()
    with RunFolder(tmp_path).writing(RunRecord({}, versions={})) as folder:
        folder.append(episode(0))


def test_writing_needs_the_lock(tmp_path):
    with pytest.raises(RuntimeError, match="writing"):
        RunFolder(tmp_path).append(episode(0))
    with pytest.raises(RuntimeError, match="writing"):
        RunFolder(tmp_path).append_metrics({})


def test_no_run_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no run is here"):
        RunFolder(tmp_path / "nowhere").record()


@pytest.mark.parametrize("content", ["{", "[]", '{"v": 99}'])
def test_an_unreadable_run_record_is_named(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(UserError, match=r"run\.json: not"):
        RunFolder(tmp_path).writing(RECORD)


def test_trajectories_of_nobody_are_not_adopted(tmp_path):
    (tmp_path / "trajectories.jsonl").write_text("")
    with pytest.raises(UserError, match=r"trajectories without a run.json"):
        RunFolder(tmp_path).writing(RECORD)


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written as a run's folder"):
        RunFolder(tmp_path / "file" / "run").writing(RECORD)


def test_a_line_of_something_else_is_named(tmp_path):
    folder = filled(tmp_path, 1)
    with (tmp_path / "trajectories.jsonl").open("a") as file:
        file.write(json.dumps({"v": 1}) + "\n")
    with pytest.raises(UserError, match=r"trajectories.jsonl:2: "):
        folder.done()
    with pytest.raises(UserError, match=r"trajectories.jsonl:2: "):
        folder.trajectories()
