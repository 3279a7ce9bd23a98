"""The ingest with its checkpoint, without it, and with a damaged one: each file is in bronze once.

Cases C of public bug reports are named by their number. What plain Spark does in the same cases is in
`test_stream_acceptance`.
"""

import json
import logging
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from dwh_pipeline.cli import main
from dwh_pipeline.errors import BacklogError, CheckpointError, FileChangedError, LandingError, LeaseHeldError
from dwh_pipeline.lake import catalog
from dwh_pipeline.lake.checkpoint import passport_file
from dwh_pipeline.lake.lease import lease
from dwh_pipeline.loads import recovery
from dwh_pipeline.loads.checks import STREAM_CHECKS
from dwh_pipeline.loads.place import Place
from dwh_pipeline.tables import skipped_file
from dwh_pipeline_tests.warehouse import Warehouse, write_landing

_FEEDS = '[feeds.currencies]\ntable = "TCURX"\nsequence = "SEQ"\nmax_files_per_trigger = 2\n'
_TABLE = "bronze.sap_tcurx"


def _events(first: int, count: int) -> str:
    """Rows of events a minute apart from 2026-04-01 10:00."""
    rows = (f"C{n:02d},2,202604011{n // 60}{n % 60:02d}00" for n in range(first, first + count))
    return "\n".join(("CURRKEY,CURRDEC,SEQ", *rows, ""))


class Stream(Warehouse):
    """A warehouse of which only the ingest of currencies is run."""

    @property
    def checkpoint(self) -> Path:
        return self.lake / "_checkpoints" / "tcurx"

    def deliver(self, files: dict[str, str]) -> None:
        write_landing(self.landing, {f"currencies/{name}": text for name, text in files.items()})

    def run(self) -> int:
        """Run the ingest; the rows that it read."""
        return self.step(_TABLE)[_TABLE].rows_read

    def held(self) -> int:
        """Rows of bronze; no row is there twice."""
        table = catalog.read(self.place.spark, f"spark_catalog.{_TABLE}")
        rows = table.select("_tech_source_file", "CURRKEY").collect()
        assert len(set(rows)) == len(rows)
        return len(rows)

    def failing(self) -> set[str]:
        """The checks of the stream that do not hold."""
        place, feed = self.place, recovery.feed_named(self.place, "currencies")
        checks = [check for check in STREAM_CHECKS if check.table.name == "TCURX"]
        return {check.name for check in checks if not check.ask(place, feed).passed}


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Thirty events in three files."""
    made = Stream(spark, tmp_path / "lake", write_landing(tmp_path / "landing", {"feeds.toml": _FEEDS}))
    made.deliver({f"{n}/a.csv": _events(10 * (n - 1), 10) for n in (1, 2, 3)})
    return made


def test_c03_thirty_events_are_there_once_whatever_happens_to_the_checkpoint(
    stream: Stream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert (stream.run(), stream.held()) == (30, 30)
    assert (stream.run(), stream.held()) == (0, 30)
    shutil.rmtree(stream.checkpoint)
    assert (stream.run(), stream.held()) == (0, 30)
    stream.deliver({"4/a.csv": _events(30, 5)})
    with caplog.at_level(logging.WARNING, logger="dwh_pipeline"):
        assert (stream.run(), stream.held()) == (5, 35)
    assert "there is no checkpoint" in caplog.text
    stream.deliver({"5/a.csv": _events(35, 5)})
    place = Place(stream.spark, stream.landing, tmp_path / "other_checkpoints")
    feed = recovery.feed_named(place, "currencies")
    assert [file.relative for file in recovery.backlog(place, feed)] == ["currencies/5/a.csv"]
    elsewhere = Stream(stream.spark, stream.lake, stream.landing)
    shutil.copytree(stream.lake / "_checkpoints", tmp_path / "kept")
    shutil.rmtree(stream.lake / "_checkpoints")
    assert (elsewhere.run(), stream.held()) == (5, 40)
    assert stream.failing() == set()


def test_a_second_run_reads_only_what_is_new_and_the_report_explains_the_checkpoint(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move(stream.landing / "currencies" / "3", stream.landing / "3")
    assert (stream.run(), stream.held()) == (20, 20)
    shutil.move(stream.landing / "3", stream.landing / "currencies" / "3")
    assert stream.failing() == {"backlog_is_empty"}
    assert (stream.run(), stream.held()) == (10, 30)
    assert stream.failing() == set()
    monkeypatch.setenv("DWH_ALLOW_TEMPORARY", "1")
    places = ("--landing", f"{stream.landing}/", "--lake", str(stream.lake))
    shown = CliRunner().invoke(main, ["recover-stream", "currencies", "--json", *places])
    assert shown.exit_code == 0, shown.output
    state = json.loads(shown.stdout)
    assert state["entries"].keys() == {"metadata", "offsets", "commits", "sources"}
    assert (state["begun"], state["done"], state["problems"], state["backlog"]) == (1, 1, [], [])
    assert state["passport"]["feed"] == "currencies"
    table = CliRunner().invoke(main, ["recover-stream", "currencies", "--apply", *places]).stdout
    for words in (
        "the id of the query",
        "written before it runs",
        "micro-batches that are done",
        "files that were seen",
    ):
        assert words in " ".join(table.split())
    assert "nothing to repair" in table


def test_two_runs_at_once_are_kept_apart_and_the_holder_is_named(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lease(stream.checkpoint.with_name("bronze.sap_tcurx.lease")):
        with pytest.raises(LeaseHeldError, match=f"tcurx: process {os.getpid()}"):
            stream.run()
        monkeypatch.setenv("DWH_ALLOW_TEMPORARY", "1")
        places = ("--landing", str(stream.landing), "--lake", str(stream.lake))
        refused = CliRunner().invoke(main, ["recover-stream", "currencies", "--apply", *places])
        assert refused.exit_code == 1
    assert (stream.run(), stream.held()) == (30, 30)


def test_c04_a_last_commit_that_is_gone_brings_its_batch_again_and_adds_nothing(stream: Stream) -> None:
    stream.run()
    last = max((stream.checkpoint / "commits").glob("[0-9]*"))
    last.unlink()
    assert stream.failing() == set()
    stream.deliver({"4/a.csv": _events(30, 5)})
    assert (stream.run(), stream.held()) == (5, 35)


@pytest.mark.parametrize("damage", ["metadata", "offset", "commit and offset"])
def test_c05_a_damaged_checkpoint_is_named_and_repaired_without_gap_or_double(stream: Stream, damage: str) -> None:
    stream.run()
    stream.deliver({"4/a.csv": _events(30, 5)})
    last = max(file.name for file in (stream.checkpoint / "offsets").glob("[0-9]*"))
    if damage == "metadata":
        (stream.checkpoint / "metadata").unlink()
    else:
        (stream.checkpoint / "offsets" / last).write_text("", encoding="utf-8")
    if damage == "commit and offset":
        (stream.checkpoint / "commits" / last).unlink()
    assert "checkpoint_is_recoverable" in stream.failing()
    for _ in range(2):  # it does not heal itself
        with pytest.raises(CheckpointError, match="dwh recover-stream currencies --apply"):
            stream.run()
    assert stream.held() == 30
    (done,) = recovery.recover(stream.place, recovery.feed_named(stream.place, "currencies"))
    assert done == f"removed offsets/{last}" if damage == "commit and offset" else "generation-1" in done
    assert (stream.run(), stream.held()) == (5, 35)
    assert stream.failing() == set()


def test_c01_new_files_right_after_a_reset_all_arrive(stream: Stream) -> None:
    stream.run()
    shutil.rmtree(stream.checkpoint)
    stream.deliver({"4/a.csv": _events(30, 5)})
    assert (stream.run(), stream.held()) == (5, 35)
    stream.deliver({"5/a.csv": _events(35, 5)})
    assert (stream.run(), stream.held()) == (5, 40)


def test_c06_a_file_that_is_overwritten_is_an_error_and_one_that_is_copied_is_a_redelivery(stream: Stream) -> None:
    stream.run()
    first = stream.landing / "currencies" / "1" / "a.csv"
    first.write_text(_events(50, 12), encoding="utf-8")
    assert stream.failing() == {"no_file_changed_after_ingest"}
    with pytest.raises(FileChangedError, match=r"currencies/1/a\.csv: changed after it was loaded"):
        stream.run()
    first.rename(first.with_name("b.csv"))
    assert (stream.run(), stream.held()) == (12, 42)
    shutil.copy(first.with_name("b.csv"), first.with_name("c.csv"))
    stream.deliver({"4/empty.csv": "CURRKEY,CURRDEC,SEQ\n"})
    report = stream.step(_TABLE)[_TABLE]
    assert (report.rows_read, report.skipped) == (0, ("currencies/1/c.csv", "currencies/4/empty.csv"))
    rows = catalog.read(stream.spark, stream.place.name(skipped_file.CONTRACT)).orderBy("_tech_source_file").collect()
    assert [row["same_as"] for row in rows] == ["currencies/1/b.csv", None]
    before = stream.files()
    shutil.rmtree(stream.checkpoint)
    assert (stream.run(), stream.held()) == (0, 42)
    assert {file for file in stream.files() - before if not file.startswith("_checkpoints")} == set()
    assert stream.failing() == set()


def test_a_file_with_an_old_date_that_comes_late_is_loaded(stream: Stream) -> None:
    stream.run()
    stream.deliver({"0/a.csv": _events(40, 5)})
    os.utime(stream.landing / "currencies" / "0" / "a.csv", (946684800, 946684800))
    assert (stream.run(), stream.held()) == (5, 35)


def test_bronze_that_is_made_anew_does_not_stay_empty_because_of_an_old_checkpoint(stream: Stream) -> None:
    stream.run()
    feed = recovery.feed_named(stream.place, "currencies")

    def drop() -> None:
        stream.spark.sql(f"DROP TABLE spark_catalog.{_TABLE}")
        shutil.rmtree(stream.lake / "bronze" / "sap_tcurx")

    drop()
    assert ["no longer there" in problem.what for problem in recovery.state_of(stream.place, feed).problems] == [True]
    with pytest.raises(CheckpointError, match="made for a bronze table that is no longer there"):
        stream.run()
    assert "checkpoint_belongs_to_one_stream" in stream.failing()
    recovery.recover(stream.place, feed)
    assert (stream.run(), stream.held()) == (30, 30)
    drop()
    passport_file(stream.checkpoint).unlink()
    with pytest.raises(BacklogError, match=r"3 complete files of currencies were not loaded.*currencies/1/a\.csv"):
        stream.run()
    recovery.recover(stream.place, feed, new_generation=True)
    assert (stream.run(), stream.held()) == (30, 30)


def test_c10_an_empty_landing_folder_is_no_error_and_a_missing_one_is(stream: Stream) -> None:
    shutil.rmtree(stream.landing / "currencies")
    with pytest.raises(LandingError, match="currencies: is missing; make the folder of the feed"):
        stream.run()
    (stream.landing / "currencies").mkdir()
    assert stream.step(_TABLE)[_TABLE].rows == 0
