"""Streams from Delta to Delta: what Spark itself promises, and what `ops.ingest_activity` makes of it.

The events are one a minute from 2026-04-01 10:00. The first half uses nothing of this project: these are tests of the
engine, of the guarantees that our loads are built on, and of those that Spark does not give (a lost checkpoint doubles
rows). The second half is one story, told once and looked at from several sides.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from dwh_pipeline.contracts.outcomes import LoadReport
from dwh_pipeline.definitions import defs
from dwh_pipeline.errors import CheckpointError
from dwh_pipeline.lake import writes
from dwh_pipeline.loads import ingest_activity
from dwh_pipeline.loads.place import Place
from dwh_pipeline.sap.fields import KNA1, VBAP, SapTable
from dwh_pipeline.tables import bronze
from dwh_pipeline.tables.ingest_activity import CONTRACT
from dwh_pipeline_tests.frames import frame_of

_BRONZE = "bronze.sap_kna1"
_SIX_WINDOWS = {f"10:{minute:02d}": 5 for minute in range(0, 30, 5)}
_FIVE_MORE = _SIX_WINDOWS | {"10:25": 10}


# The engine


def _write_events(spark: SparkSession, table: Path, first: int, count: int) -> Path:
    """Append events: one a minute, from minute `first` after 10:00."""
    minutes = spark.range(first, first + count, numPartitions=1).withColumn("minute", F.col("id").cast("int"))
    at = F.expr("TIMESTAMP'2026-04-01 10:00:00' + make_interval(0, 0, 0, 0, 0, minute)")
    minutes.select("id", at.alias("at")).write.format("delta").mode("append").save(str(table))
    return table


@pytest.fixture(scope="module")
def thirty(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source of 30 events, which is only read."""
    return _write_events(spark, tmp_path_factory.mktemp("source") / "events", 0, 30)


@dataclass(frozen=True)
class Plain:
    """Streams of plain Spark into one raw target, below one folder."""

    spark: SparkSession
    folder: Path

    def start(self, source: Path, checkpoint: str) -> StreamingQuery:
        def append(batch: DataFrame, _batch_id: int) -> None:
            batch.write.format("delta").mode("append").save(str(self.folder / "target"))

        return self._begin(self.spark.readStream.format("delta").load(str(source)), "append", append, checkpoint)

    def run(self, source: Path, checkpoint: str = "one") -> int:
        """Append what is new; the number of rows that were read."""
        return _rows_read(self.start(source, checkpoint))

    def count_windows(self, source: Path) -> int:
        """Write all windows anew; the number of rows that were read."""

        def replace(batch: DataFrame, _batch_id: int) -> None:
            batch.write.format("delta").mode("overwrite").save(str(self.folder / "target"))

        events = self.spark.readStream.format("delta").load(str(source))
        windows = events.groupBy(F.window("at", "5 minutes").alias("w")).count()
        named = windows.select(F.col("w.start").alias("window_start"), F.col("count").alias("row_count"))
        return _rows_read(self._begin(named, "complete", replace, "windows"))

    def target(self) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.folder / "target"))

    def rows(self) -> int:
        return self.target().count()

    def _begin(
        self, rows: DataFrame, mode: str, take: Callable[[DataFrame, int], None], checkpoint: str
    ) -> StreamingQuery:
        writer = rows.writeStream.outputMode(mode).trigger(availableNow=True).foreachBatch(take)
        return writer.option("checkpointLocation", str(self.folder / checkpoint)).start()


def _rows_read(query: StreamingQuery) -> int:
    query.awaitTermination()
    return sum(progress.numInputRows for progress in query.recentProgress)


def _windows(rows: DataFrame) -> dict[str, int]:
    return {row[0]: row[1] for row in rows.select(F.date_format("window_start", "HH:mm"), "row_count").collect()}


@pytest.fixture
def plain(spark: SparkSession, tmp_path: Path) -> Plain:
    return Plain(spark, tmp_path)


def test_a_second_run_with_the_same_checkpoint_reads_nothing(plain: Plain, thirty: Path) -> None:
    assert [plain.run(thirty), plain.run(thirty)] == [30, 0]
    assert plain.rows() == 30


def test_a_checkpoint_that_is_lost_between_two_runs_doubles_the_rows(plain: Plain, thirty: Path) -> None:
    plain.run(thirty)
    shutil.rmtree(plain.folder / "one")
    assert plain.run(thirty) == 30
    assert plain.rows() == 60


def test_a_second_run_with_another_checkpoint_doubles_the_rows(plain: Plain, thirty: Path) -> None:
    assert [plain.run(thirty, "one"), plain.run(thirty, "two")] == [30, 30]
    assert plain.rows() == 60


def test_a_second_run_reads_only_what_came_since_the_first(plain: Plain) -> None:
    source = _write_events(plain.spark, plain.folder / "source", 0, 20)
    first = plain.run(source)
    _write_events(plain.spark, source, 20, 10)
    assert [first, plain.run(source)] == [20, 10]
    assert plain.rows() == 30


def test_two_streams_into_one_target_both_append_all(plain: Plain, thirty: Path) -> None:
    _write_events(plain.spark, plain.folder / "target", 0, 0)  # two that made the table at once would be in conflict
    before = plain.rows()
    both = [plain.start(thirty, "one"), plain.start(thirty, "two")]
    assert [_rows_read(query) for query in both] == [30, 30]
    assert plain.rows() - before == 60


def test_windows_go_on_from_the_state_of_the_run_before(plain: Plain) -> None:
    source = _write_events(plain.spark, plain.folder / "source", 0, 30)
    assert plain.count_windows(source) == 30
    assert _windows(plain.target()) == _SIX_WINDOWS
    _write_events(plain.spark, source, 25, 5)
    assert plain.count_windows(source) == 5  # and not 35: the counts of the 30 come from the state
    after = _windows(plain.target())
    assert after == _FIVE_MORE
    assert sum(after.values()) == 35


# ops.ingest_activity


def _deliver(place: Place, table: SapTable, delivery: str, change_seqs: list[str], **columns: str) -> None:
    """Bronze rows made by hand, one per change; further columns have the same value in every row."""
    technical = ("change_seq", "change_op", "_tech_batch_id", "_tech_source_file", "_tech_row_number")
    schema = ", ".join(f"{name} {'BIGINT' if name == '_tech_row_number' else 'STRING'}" for name in technical)
    schema += "".join(f", {name} STRING" for name in columns)
    rows = [
        (seq, "U", delivery, f"feed/{delivery}/part.csv", row, *columns.values())
        for row, seq in enumerate(change_seqs, start=1)
    ]
    contract = bronze.contract_of(table)
    writes.append(place.spark, place.name(contract), contract, frame_of(place.spark, schema, rows))


def _minutes(first: int, count: int) -> list[str]:
    """`change_seq` of one change a minute, from minute `first` after 10:00."""
    return [f"{202604011000 + minute:018d}00000000000" for minute in range(first, first + count)]


@dataclass(frozen=True)
class Counted:
    """A run, and the table after it."""

    report: LoadReport
    windows: dict[str, int]
    version: int

    @property
    def read(self) -> int:
        return self.report.streamed[_BRONZE]


@dataclass(frozen=True)
class Story:
    """Runs one after the other, on one lake."""

    place: Place
    thirty: Counted
    five_more: Counted
    nothing_more: Counted
    died_before_its_commit: Counted
    other_settings: Counted
    partitions_of_state: list[str]
    checkpoint_lost: Counted
    table_lost: Counted
    bronze_anew: CheckpointError
    shown: dict[str, object]
    counted_anew: dict[str, dict[str, int]]


def _count(place: Place) -> Counted:
    report = ingest_activity.run(place)
    log = place.checkpoints.parent / CONTRACT.schema / CONTRACT.name / "_delta_log"
    version = max(int(path.stem) for path in log.glob("*.json"))
    return Counted(report, _windows(place.spark.table(place.name(CONTRACT))), version)


@contextmanager
def _settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) or "" for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _drop(place: Place, table: str) -> None:
    place.spark.sql(f"DROP TABLE {place.catalog}.{table}")
    shutil.rmtree(place.checkpoints.parent.joinpath(*table.split(".")))


@pytest.fixture(scope="module")
def story(spark: SparkSession, shared_lake: Path) -> Story:
    place = Place(spark, shared_lake.parent / "landing", shared_lake / "_checkpoints")
    checkpoint = ingest_activity.checkpoint_of(place, KNA1)

    # The last is an initial row, without a time.
    _deliver(place, KNA1, "1", [*_minutes(0, 30), "0" * 29], KUNNR="100001")
    with _settings(spark, {"spark.sql.shuffle.partitions": "1"}):
        thirty = _count(place)
    # Two deliveries between two runs, each with a new column.
    _deliver(place, KNA1, "2", _minutes(25, 3), KUNNR="100001", ORT01="Basel")
    _deliver(place, KNA1, "3", _minutes(28, 2), KUNNR="100001", ORT02="Spalen")
    five_more = _count(place)
    nothing_more = _count(place)
    _forget_last_commit(checkpoint)
    died_before_its_commit = _count(place)

    _deliver(place, KNA1, "4", _minutes(30, 1), KUNNR="100001")
    # Three partitions instead of one, and plans compiled to Java, as a session has them that is not of these tests.
    others = {
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
    }
    with _settings(spark, others):
        other_settings = _count(place)
    partitions_of_state = sorted(path.name for path in (checkpoint / "state" / "0").iterdir() if path.name.isdigit())

    shutil.rmtree(checkpoint)
    checkpoint_lost = _count(place)
    _drop(place, CONTRACT.qualified_name)
    table_lost = _count(place)

    _drop(place, _BRONZE)
    _deliver(place, KNA1, "1", _minutes(0, 5), KUNNR="100001")
    _deliver(place, VBAP, "1", _minutes(3, 3), VBELN="50001")
    with pytest.raises(CheckpointError) as refused:
        _count(place)
    shown = _run_job(place, new_generation=True)
    rows = spark.table(place.name(CONTRACT))
    counted_anew = {
        table: _windows(rows.where(F.col("source_table") == table)) for table in (_BRONZE, VBAP.bronze_name)
    }
    return Story(
        place,
        thirty,
        five_more,
        nothing_more,
        died_before_its_commit,
        other_settings,
        partitions_of_state,
        checkpoint_lost,
        table_lost,
        refused.value,
        shown,
        counted_anew,
    )


def _forget_last_commit(checkpoint: Path) -> None:
    """What a run leaves that dies when its micro-batch is written and not yet noted as done."""
    last = max((path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()


def _run_job(place: Place, *, new_generation: bool) -> dict[str, object]:
    """Run the job `count_activity`: the metadata of its asset."""
    config = {"ops": {"ops__ingest_activity": {"config": {"new_generation": new_generation}}}}
    with pytest.MonkeyPatch.context() as environment, dg.DagsterInstance.ephemeral() as instance:
        environment.setenv("DWH_LAKE", str(place.checkpoints.parent))
        environment.setenv("DWH_CHECKPOINTS", str(place.checkpoints))
        environment.setenv("DWH_LANDING", str(place.landing))
        environment.setenv("DWH_ALLOW_TEMPORARY", "1")
        result = defs().resolve_job_def("count_activity").execute_in_process(run_config=config, instance=instance)
    (counted,) = result.asset_materializations_for_node("ops__ingest_activity")
    return {name: value.value for name, value in counted.metadata.items()}


def test_activity_has_a_row_per_five_minutes_and_leaves_out_what_has_no_time(story: Story) -> None:
    assert story.thirty.windows == _SIX_WINDOWS
    assert story.thirty.read == 31
    assert (story.thirty.report.rows, story.thirty.report.written.inserted) == (6, 6)


def test_activity_goes_on_from_its_state(story: Story) -> None:
    assert story.five_more.read == 5  # and not 36
    assert story.five_more.windows == _FIVE_MORE
    assert sum(story.five_more.windows.values()) == 35
    written = story.five_more.report.written
    assert (written.inserted, written.updated, written.deleted) == (0, 1, 0)


def test_a_run_without_new_rows_makes_no_version(story: Story) -> None:
    assert story.nothing_more.read == 0
    assert story.nothing_more.version == story.five_more.version
    assert story.nothing_more.report.written.version is None


def test_a_micro_batch_that_comes_again_doubles_nothing(story: Story) -> None:
    assert story.died_before_its_commit.read == 5
    assert story.died_before_its_commit.windows == _FIVE_MORE
    assert story.died_before_its_commit.version == story.five_more.version


def test_the_state_is_restored_under_other_settings(story: Story) -> None:
    assert story.other_settings.read == 1
    assert story.other_settings.windows == _FIVE_MORE | {"10:30": 1}
    assert story.partitions_of_state == ["0"]  # as many as in the first run


def test_a_lost_checkpoint_counts_all_anew_and_doubles_nothing(story: Story) -> None:
    assert story.checkpoint_lost.read == 37
    assert story.checkpoint_lost.windows == story.other_settings.windows
    assert story.checkpoint_lost.version == story.other_settings.version


def test_a_lost_table_is_counted_anew(story: Story) -> None:
    assert story.table_lost.read == 37
    assert story.table_lost.windows == story.other_settings.windows


def test_a_bronze_table_that_was_made_anew_is_said_with_the_repair(story: Story) -> None:
    assert str(story.bronze_anew) == (
        "checkpoint of ingest_activity_kna1: it counted a bronze.sap_kna1 that is no longer there; the table was made "
        "anew. Safe repair: put it aside and count all rows anew; nothing doubles; job count_activity with "
        "new_generation: true does it"
    )


def test_after_the_repair_the_table_has_the_windows_of_the_new_bronze_alone(story: Story) -> None:
    assert story.counted_anew == {_BRONZE: {"10:00": 5}, VBAP.bronze_name: {"10:00": 2, "10:05": 1}}
    aside = sorted(path.name for path in story.place.checkpoints.glob("ingest_activity_kna1.generation-*"))
    assert aside == ["ingest_activity_kna1.generation-1", "ingest_activity_kna1.generation-2"]


def test_the_job_shows_what_it_did_and_the_plot(story: Story) -> None:
    assert (story.shown["dagster/row_count"], story.shown["rows_read"]) == (3, 8)
    assert str(story.shown["activity"]).startswith("![changes per five minutes (UTC)](data:image/png;base64,")
