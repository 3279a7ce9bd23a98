"""The lease between real processes: held by one, named to the other, gone with its holder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dwh_pipeline.errors import LeaseHeldError
from dwh_pipeline.lake.lease import lease, left_behind

_HOLDER = """
import sys, time
from pathlib import Path
from dwh_pipeline.lake.lease import lease
with lease(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_process_is_refused_with_the_name_of_the_first_until_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "kna1.lease"
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LeaseHeldError, match=rf"kna1: process {holder.pid} on .* since ") as refused, lease(path):
            pass
        assert str(holder.pid) in refused.value.holder
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
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


def test_a_load_that_fails_leaves_its_error_and_one_that_comes_to_its_end_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "silver.customer.lease"
    assert left_behind(path) is None
    with lease(path):
        assert left_behind(path) is None  # it is running
    with pytest.raises(RuntimeError, match="broken"), lease(path):
        raise RuntimeError("broken\nin the second line")
    failed = left_behind(path)
    assert failed is not None
    assert (failed.holder.split()[1], failed.error) == (str(os.getpid()), "broken")
    with lease(path):
        pass
    assert left_behind(path) is None


def test_a_load_that_is_killed_leaves_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "kna1.lease"
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    failed = left_behind(path)
    assert failed is not None
    assert f"process {holder.pid} on " in failed.holder
    assert failed.error is None
