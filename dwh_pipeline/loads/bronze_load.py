"""The load of a bronze table: new files of one feed, appended once each. What may not be appended: `intake`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import DeliveryCounts, LoadReport, Outcome, Written
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.lake import catalog, writes
from dwh_pipeline.lake.landing import LandingFile, complete_files
from dwh_pipeline.lake.lease import lease, lease_file
from dwh_pipeline.lake.stream import Source, held_files, ingest, new_files
from dwh_pipeline.loads.delivered import Delivered, delivered_of, kept_format
from dwh_pipeline.loads.intake import read_new
from dwh_pipeline.sap.feeds import Feed
from dwh_pipeline.sap.fields import SapTable
from dwh_pipeline.sap.values import ValueFormat
from dwh_pipeline.tables import bronze, skipped_file


@dataclass(frozen=True, slots=True)
class Ingested:
    """What was appended, as rows per delivery and by which files, and the files that were skipped.

    `skipped` gives the file that has the same rows, or None for one without rows.
    """

    deliveries: dict[str, int] = field(default_factory=dict)
    files: list[LandingFile] = field(default_factory=list)
    skipped: dict[LandingFile, str | None] = field(default_factory=dict)


def run(
    spark: SparkSession, table: SapTable, feed: Feed | None, *, landing: Path, checkpoints: Path, target: str
) -> LoadReport:
    """Append the files of the feed that `target` (`catalog.bronze.sap_<table>`) does not hold yet.

    Without a feed the table is there, and empty, so that what is built on it can be.

    The checkpoint is `<checkpoints>/<table>` and depends on nothing but the table. Also refreshes the typed view
    `<table>_typed` beside the table.

    Raises:
        LandingError: the folder of the feed is missing.
        FeedError, DeliveryError: the files are not what the feed or a `_delivery.json` declares.
        UnknownOperationError: a file holds an operation that the profile does not know.
        MissingColumnError: a file lacks a column that other files of the feed have.
        SnapshotRefusedError: a full snapshot would delete more than it may.
        With each of these, nothing of the micro-batch was written.
        LeaseHeldError: another run is loading the table.
        CheckpointError: the checkpoint is damaged or belongs to another stream.
        BacklogError: the checkpoint passed over complete files.
        FileChangedError: a file was changed after it had been loaded; all new files were appended.
    """
    started_at = datetime.now(UTC)
    contract = bronze.contract_of(table)
    catalog.ensure(spark, target, contract, bronze.feed_properties(feed) if feed else None)
    before = spark.table(target).columns
    ingested = _ingest(spark, feed, landing, checkpoints, target) if feed else Ingested()
    version = catalog.last_commit(spark) if ingested.deliveries else None
    columns = spark.table(target).columns
    catalog.create_view(
        spark,
        catalog.sibling(target, f"bronze.{table.name.lower()}_typed"),
        target,
        bronze.typed_columns(table, columns),
    )
    held = {row[0]: row[1] for row in spark.table(target).groupBy("_tech_batch_id").count().collect()}
    return _report(contract, started_at, held, ingested, _new_columns(before, columns), version=version)


def preview(
    spark: SparkSession, table: SapTable, feed: Feed | None, *, landing: Path, target: str, only: tuple[str, ...] | None
) -> tuple[Delivered, LoadReport]:
    """What bronze would hold after `run`, and what that would report. Nothing is written. Raises as `run` does.

    `only`: take these deliveries alone of what is new in the landing area.
    """
    started_at = datetime.now(UTC)
    contract = bronze.contract_of(table)
    is_there = catalog.exists(spark, target)
    rows = spark.table(target) if is_there else catalog.empty(spark, contract.columns)
    before = rows.columns
    offered = complete_files(landing, feed) if feed else ()
    chosen = [file for file in offered if only is None or file.delivery in only]
    new = new_files(held_files(spark, target, _skipped(target)), chosen)
    added = Ingested()
    if feed and new:
        read = read_new(spark, feed, landing, target, new)
        rows = rows.unionByName(read.rows, allowMissingColumns=True)
        added = Ingested(read.deliveries, [file for file in new if file not in read.skipped], read.skipped)
    value_format = feed.value_format if feed else kept_format(spark, target) if is_there else ValueFormat()
    table_id = catalog.table_id(spark, target) if is_there else None
    delivered = delivered_of(table, target, rows, value_format, table_id)
    report = _report(contract, started_at, delivered.held, added, _new_columns(before, rows.columns))
    return delivered, report


def declare(spark: SparkSession, feed: Feed, target: str) -> None:
    """Keep on the bronze table how the values of its feed are read, as feeds.toml has it now."""
    catalog.set_properties(spark, target, bronze.FEED_PROPERTIES, bronze.feed_properties(feed))


def _ingest(spark: SparkSession, feed: Feed, landing: Path, checkpoints: Path, target: str) -> Ingested:
    """Append what is new, one process at a time."""
    contract = bronze.contract_of(feed.sap_table)
    checkpoint = checkpoints / feed.table.lower()
    done = Ingested()

    def append(files: tuple[LandingFile, ...]) -> int:
        new = read_new(spark, feed, landing, target, files)
        if new.deliveries:
            writes.append(spark, target, contract, new.rows)
        if new.skipped:
            writes.append(spark, _skipped(target), skipped_file.CONTRACT, _skipped_rows(spark, contract, new.skipped))
        for delivery, count in new.deliveries.items():
            done.deliveries[delivery] = done.deliveries.get(delivery, 0) + count
        done.files.extend(file for file in files if file not in new.skipped)
        done.skipped.update(new.skipped)
        return sum(new.deliveries.values())

    with lease(lease_file(checkpoints, contract.qualified_name)):
        declare(spark, feed, target)
        ingest(spark, Source(landing, feed, target, _skipped(target), checkpoint), append)
    return done


def _skipped(target: str) -> str:
    return catalog.sibling(target, skipped_file.CONTRACT.qualified_name)


def _skipped_rows(spark: SparkSession, contract: TableContract, skipped: dict[LandingFile, str | None]) -> DataFrame:
    rows = [(contract.qualified_name, file.delivery, file.relative, same) for file, same in skipped.items()]
    table = pa.table([pa.array(column, pa.string()) for column in zip(*rows, strict=True)], list("abcd"))
    names = skipped_file.CONTRACT.column_names
    return spark.createDataFrame(table).toDF(*names[:-1]).withColumn(names[-1], F.current_timestamp())


def _report(
    contract: TableContract,
    started_at: datetime,
    held: Mapping[str, int],
    ingested: Ingested,
    new_columns: tuple[str, ...],
    *,
    version: int | None = None,
) -> LoadReport:
    """`held` has the rows of every delivery that bronze holds afterwards."""
    name = contract.qualified_name
    return LoadReport(
        table=name,
        rows=sum(held.values()),
        written=Written(inserted=sum(ingested.deliveries.values()), version=version),
        deliveries=tuple(
            DeliveryCounts(name, delivery, is_replay=False, rows_read=rows, outcomes={Outcome.INSERTED: rows})
            for delivery, rows in sorted(ingested.deliveries.items())
        ),
        started_at=started_at,
        seconds=(datetime.now(UTC) - started_at).total_seconds(),
        held=tuple(sorted(held)),
        new_columns=new_columns,
        skipped=tuple(sorted(file.relative for file in ingested.skipped)),
        files=len(ingested.files),
    )


def _new_columns(before: list[str], after: list[str]) -> tuple[str, ...]:
    """Delivered columns that came to others; none at the first delivery, which brings all of them."""
    had = set(before) - set(bronze.TECHNICAL_NAMES)
    return tuple(sorted(set(after) - set(bronze.TECHNICAL_NAMES) - had)) if had else ()
