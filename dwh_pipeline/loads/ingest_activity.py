"""The load of `ops.ingest_activity`: one stateful stream per bronze table, and its newest windows.

The counts are the state of the stream, so a run reads only what bronze got since the last one. Every micro-batch writes
the complete result of its bronze table where it differs: one that comes twice, or a lost checkpoint, doubles nothing.
"""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import LoadReport, Written
from dwh_pipeline.errors import CheckpointError
from dwh_pipeline.lake import catalog, checkpoint, writes
from dwh_pipeline.lake.lease import lease
from dwh_pipeline.loads.place import Place
from dwh_pipeline.sap.fields import SAP_TABLES, SapTable
from dwh_pipeline.tables import bronze
from dwh_pipeline.tables.ingest_activity import CONTRACT, build

# The job and what it is told, as the repair of a checkpoint.
_REPAIR = "put it aside and count all rows anew; nothing doubles"
_REPAIRED_BY = "job count_activity with new_generation: true"
_BRONZE_IS_ANOTHER = "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
_NEWEST_WINDOWS = 40
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Activity:
    """One row of the table."""

    source_table: str
    window_start: datetime
    row_count: int


def run(place: Place, *, new_generation: bool = False) -> LoadReport:
    """Count what the bronze tables got since the last run; tables that are not there or have no rows are left out.

    The checkpoints are `<checkpoints>/ingest_activity_<table>`. With `new_generation`, or if the table is gone, they
    are put aside first, and all rows are counted anew. The report tells in `streamed` how many rows were read.

    The state keeps the number of partitions of its first run, whatever `spark.sql.shuffle.partitions` is later: Spark
    writes it into the checkpoint and takes it from there.

    Raises:
        CheckpointError: a checkpoint is damaged, or its bronze table was made anew; nothing of that table was written.
        LeaseHeldError: another run is counting.
    """
    started_at = datetime.now(UTC)
    spark, target = place.spark, place.name(CONTRACT)
    with lease(place.lease_of(CONTRACT)):
        # Before the table is made: a checkpoint that is left would not read again what the lost table had.
        if new_generation or not catalog.exists(spark, target):
            _put_aside(place)
        catalog.ensure(spark, target, CONTRACT)
        counted = {table: _count(place, table) for table in SAP_TABLES.values() if _has_rows(place, table)}
    return LoadReport(
        table=CONTRACT.qualified_name,
        rows=spark.table(target).count(),
        written=_together([written for _, all_written in counted.values() for written in all_written]),
        deliveries=(),
        started_at=started_at,
        seconds=(datetime.now(UTC) - started_at).total_seconds(),
        streamed={bronze.contract_of(table).qualified_name: read for table, (read, _) in counted.items()},
    )


def checkpoint_of(place: Place, table: SapTable) -> Path:
    """The checkpoint of the stream that counts the bronze table of an SAP table."""
    return place.checkpoints / f"{CONTRACT.name}_{table.name.lower()}"


def newest(place: Place) -> list[Activity]:
    """The newest windows of every bronze table, oldest first."""
    by_table = Window.partitionBy("source_table").orderBy(F.col("window_start").desc())
    rows = (
        catalog.read(place.spark, place.name(CONTRACT))
        .withColumn("position", F.row_number().over(by_table))
        .where(F.col("position") <= _NEWEST_WINDOWS)
        # In seconds: Python would read a TIMESTAMP in the time zone of the machine.
        .select("source_table", F.unix_seconds("window_start"), "row_count")
        .collect()
    )
    found = (Activity(table, datetime.fromtimestamp(start, UTC), count) for table, start, count in rows)
    return sorted(found, key=lambda one: (one.source_table, one.window_start))


def _has_rows(place: Place, table: SapTable) -> bool:
    name = place.name(bronze.contract_of(table))
    return catalog.exists(place.spark, name) and not place.spark.table(name).isEmpty()


def _put_aside(place: Place) -> None:
    for path in (checkpoint_of(place, table) for table in SAP_TABLES.values()):
        if path.is_dir():
            _log.warning("%s: %s", path.name, checkpoint.start_new_generation(path))


def _count(place: Place, table: SapTable) -> tuple[int, list[Written]]:
    """Run the stream over one bronze table: how many rows it read, and what its micro-batches wrote."""
    path, contract, target = checkpoint_of(place, table), bronze.contract_of(table), place.name(CONTRACT)
    if found := checkpoint.problems(path):
        raise CheckpointError(path.name, found[0].what, _REPAIR, by=_REPAIRED_BY)
    written: list[Written] = []
    failed: list[Exception] = []

    def write(windows: DataFrame, _batch_id: int) -> None:
        # Each query has a session of its own, and temporary views are those of one session.
        spark = windows.sparkSession
        stored = catalog.read(spark, target).where(F.col("source_table") == contract.qualified_name)
        try:
            written.append(writes.replace_where_different(spark, target, CONTRACT, windows, stored=stored))
        except Exception as error:
            failed.append(error)
            raise

    query = (
        build(place.spark.readStream.table(place.name(contract)), contract.qualified_name)
        .writeStream.outputMode("complete")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(path))
        .foreachBatch(write)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if _BRONZE_IS_ANOTHER in str(error):
            problem = f"it counted a {contract.qualified_name} that is no longer there; the table was made anew"
            raise CheckpointError(path.name, problem, _REPAIR, by=_REPAIRED_BY) from None
        raise (failed[0] if failed else error) from None
    return sum(progress.numInputRows for progress in query.recentProgress), written


def _together(written: list[Written]) -> Written:
    versions = [one.version for one in written if one.version is not None]
    return Written(
        inserted=sum(one.inserted for one in written),
        updated=sum(one.updated for one in written),
        deleted=sum(one.deleted for one in written),
        version=max(versions, default=None),
    )
