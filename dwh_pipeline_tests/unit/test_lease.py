"""The lease between real processes: held by one, named to the other, gone with its holder."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dwh_pipeline.contracts.health import FailedLoad
from dwh_pipeline.errors import LeaseHeldError
from dwh_pipeline.lake.lease import lease, left_behind

_HOLDER = """
import sys, time
from pathlib import Path
from dwh_pipeline.lake.lease import lease
with lease(Path(sys.argv[1]), is_load=sys.argv[2:] != ["maintenance"]):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def _held_by_another(path: Path, *work: str) -> Iterator[int]:
    """Another process holds the lease, for a load or the named work, until it is killed; its id."""
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, str(path), *work], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder.pid
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()


def _after_a_load(path: Path, *, failed: bool) -> FailedLoad | None:
    """What is left by a load that failed, or by none."""
    if failed:
        with pytest.raises(RuntimeError), lease(path):
            raise RuntimeError("the disk is full")
    left = left_behind(path)
    assert (left is not None) is failed
    return left


def test_the_second_process_is_refused_with_the_name_of_the_first_until_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "kna1.lease"
    with _held_by_another(path) as pid:
        with pytest.raises(LeaseHeldError, match=rf"kna1: process {pid} on .* since ") as refused, lease(path):
            pass
        assert str(pid) in refused.value.holder
    with lease(path):
        pass


def test_a_lease_is_refused_inside_the_process_that_holds_it(tmp_path: Path) -> None:
    with lease(tmp_path / "kna1.lease"):
        with pytest.raises(LeaseHeldError, match=f"process {os.getpid()}"), lease(tmp_path / "kna1.lease"):
            pass
        with lease(tmp_path / "vbak.lease"):
            pass


def test_a_lease_ends_when_its_work_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="broken"), lease(tmp_path / "kna1.lease"):
        raise RuntimeError("broken")
    with lease(tmp_path / "kna1.lease"):
        pass


def test_a_load_that_failed_leaves_who_ran_it_and_the_first_line_of_its_error(tmp_path: Path) -> None:
    path = tmp_path / "kna1.lease"
    with pytest.raises(RuntimeError), lease(path):
        raise RuntimeError("the disk is full\nat line 1\nat line 2")
    failed = left_behind(path)
    assert failed is not None
    assert failed.holder.startswith(f"process {os.getpid()} on ")
    assert failed.error == "the disk is full"


def test_a_load_that_failed_without_words_leaves_the_name_of_its_error(tmp_path: Path) -> None:
    path = tmp_path / "kna1.lease"
    with pytest.raises(KeyboardInterrupt), lease(path):
        raise KeyboardInterrupt
    failed = left_behind(path)
    assert failed is not None
    assert failed.error == "KeyboardInterrupt"


def test_a_load_that_was_killed_leaves_who_ran_it_and_no_error_and_is_not_left_behind_while_it_runs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "kna1.lease"
    with _held_by_another(path) as pid:
        assert left_behind(path) is None
    killed = left_behind(path)
    assert killed is not None
    assert killed.holder.startswith(f"process {pid} on ")
    assert killed.error is None


def test_a_load_that_comes_to_its_end_leaves_nothing_even_of_one_that_failed_before(tmp_path: Path) -> None:
    path = tmp_path / "kna1.lease"
    assert left_behind(path) is None
    with pytest.raises(RuntimeError), lease(path):
        raise RuntimeError("broken")
    with lease(path):
        pass
    assert left_behind(path) is None


def test_a_load_that_is_refused_leaves_the_word_of_the_one_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "kna1.lease"
    with lease(path):
        held = path.read_text(encoding="utf-8")
        with pytest.raises(LeaseHeldError), lease(path):
            pass
        assert path.read_text(encoding="utf-8") == held


def test_looking_at_what_a_load_left_takes_the_lease_from_nobody(tmp_path: Path) -> None:
    path = tmp_path / "kna1.lease"
    path.write_text('{"host": "etl", "pid": 17, "since": "2024-05-01 10:00:00"}', encoding="utf-8")
    assert left_behind(path) == left_behind(path) == FailedLoad("process 17 on etl", "2024-05-01 10:00:00", None)
    with lease(path):
        pass


@pytest.mark.parametrize("text", ["", '{"host": "etl", "p'])
def test_a_lease_that_tells_nothing_whole_tells_of_no_failed_load(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kna1.lease"
    path.write_text(text, encoding="utf-8")
    assert left_behind(path) is None


def test_maintenance_is_given_what_a_failed_load_left_and_leaves_it_there(tmp_path: Path) -> None:
    path = tmp_path / "kna1.lease"
    failed = _after_a_load(path, failed=True)
    with lease(path, is_load=False) as given:
        assert given == failed
    assert left_behind(path) == failed


@pytest.mark.parametrize("failed_before", [False, True])
def test_maintenance_that_fails_is_no_failed_load_and_hides_none(tmp_path: Path, failed_before: bool) -> None:
    path = tmp_path / "kna1.lease"
    before = _after_a_load(path, failed=failed_before)
    with pytest.raises(ValueError, match="broken"), lease(path, is_load=False):
        raise ValueError("broken")
    assert left_behind(path) == before


@pytest.mark.parametrize("failed_before", [False, True])
def test_maintenance_that_is_killed_is_no_failed_load_and_hides_none(tmp_path: Path, failed_before: bool) -> None:
    path = tmp_path / "kna1.lease"
    before = _after_a_load(path, failed=failed_before)
    with (
        _held_by_another(path, "maintenance") as pid,
        pytest.raises(LeaseHeldError, match=f"process {pid} on "),
        lease(path),
    ):
        pass
    assert left_behind(path) == before
