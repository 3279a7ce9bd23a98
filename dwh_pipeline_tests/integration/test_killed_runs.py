"""Real processes that are killed in the middle of a run, again and again, and one run that may end (make kills)."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dwh_pipeline_tests.landings import SMALL_LANDING
from dwh_pipeline_tests.warehouse import write_landing

_SEED, _KILLS = 20260402, 10
_LONGEST = 25.0  # seconds until a kill; a run that is not killed takes longer


def _start(root: Path, name: str) -> subprocess.Popen[bytes]:
    """`dwh run` in a process group of its own, so that its Java dies with it."""
    environment = os.environ | {"DWH_ALLOW_TEMPORARY": "1", "DWH_FAST_START": "1"}
    command = [sys.executable, "-c", "from dwh_pipeline.cli import main; main()", "run", "--json"]
    places = ["--landing", str(root / "landing"), "--lake", str(root / name)]
    with (root / f"{name}.out").open("wb") as out, (root / f"{name}.err").open("wb") as err:
        return subprocess.Popen([*command, *places], stdout=out, stderr=err, env=environment, start_new_session=True)


def _clean(root: Path, name: str) -> dict[str, object]:
    run = _start(root, name)
    assert run.wait(timeout=300) == 0, (root / f"{name}.err").read_text(encoding="utf-8")
    told: dict[str, object] = json.loads((root / f"{name}.out").read_text(encoding="utf-8"))
    return told


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_after_ten_kills_one_clean_run_is_complete_and_has_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_landing(tmp_path / "landing", SMALL_LANDING)
    choice = random.Random(_SEED)  # noqa: S311
    points: list[str] = []
    while len(points) < _KILLS:
        run = _start(tmp_path, "killed")
        seconds = choice.uniform(5, _LONGEST)
        time.sleep(seconds)
        if run.poll() is not None:  # too late to kill it: start over with nothing loaded
            assert run.returncode == 0, (tmp_path / "killed.err").read_text(encoding="utf-8")
            shutil.rmtree(tmp_path / "killed")
            continue
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        lines = (tmp_path / "killed.err").read_text(encoding="utf-8").split("\n")
        told = [line.split()[0] for line in lines if line.startswith("  ")]
        points.append(f"{seconds:.0f} s, after {told[-1] if told else 'nothing'}")
    killed, clean = _clean(tmp_path, "killed"), _clean(tmp_path, "clean")
    with capsys.disabled():
        sys.stdout.write("\nkilled: " + "; ".join(points) + "\n")

    def rows(run: dict[str, object]) -> dict[str, int]:
        tables: list[dict[str, int]] = run["tables"]  # type: ignore[assignment]
        return {str(table["table"]): table["rows"] for table in tables}

    assert rows(killed) == rows(clean)
    assert killed["revenue"] == clean["revenue"]
