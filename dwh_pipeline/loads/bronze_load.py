"""The load of a bronze table: new files of one feed, appended once each."""

from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import DeliveryCounts, LoadReport, Outcome, Written
from dwh_pipeline.errors import UnknownOperationError
from dwh_pipeline.lake import catalog, writes
from dwh_pipeline.lake.landing import LandingFile, read_files
from dwh_pipeline.lake.stream import ingest
from dwh_pipeline.sap.feeds import Feed
from dwh_pipeline.sap.fields import SapTable
from dwh_pipeline.tables import bronze


def run(
    spark: SparkSession, table: SapTable, feed: Feed | None, *, landing: Path, checkpoints: Path, target: str
) -> LoadReport:
    """Append the files of the feed that `target` (`catalog.bronze.sap_<table>`) does not hold yet.

    Without a feed the table is there, and empty, so that what is built on it can be.

    The checkpoint is `<checkpoints>/<table>` and depends on nothing but the table. Also refreshes the typed view
    `<table>_typed` beside the table.

    Raises:
        LandingError: the folder of the feed is missing.
        FeedError, DeliveryError: the files are not what the feed declares.
        UnknownOperationError: a file holds an operation that the profile does not know; nothing of its micro-batch was
            written.
    """
    started_at = datetime.now(UTC)
    contract = bronze.contract_of(table)
    catalog.ensure(spark, target, contract, bronze.feed_properties(feed) if feed else None)
    deliveries = _ingest(spark, feed, landing, checkpoints, target) if feed else {}
    version = catalog.last_commit(spark) if deliveries else None
    catalog.create_view(
        spark,
        catalog.sibling(target, f"bronze.{table.name.lower()}_typed"),
        target,
        bronze.typed_columns(table, spark.table(target).columns),
    )
    appended = sum(deliveries.values())
    return LoadReport(
        table=contract.qualified_name,
        rows=spark.table(target).count(),
        written=Written(inserted=appended, version=version),
        deliveries=tuple(
            DeliveryCounts(
                contract.qualified_name, delivery, is_replay=False, rows_read=rows, outcomes={Outcome.INSERTED: rows}
            )
            for delivery, rows in sorted(deliveries.items())
        ),
        started_at=started_at,
        seconds=(datetime.now(UTC) - started_at).total_seconds(),
    )


def _ingest(spark: SparkSession, feed: Feed, landing: Path, checkpoints: Path, target: str) -> dict[str, int]:
    """Append what is new; rows per delivery."""
    contract = bronze.contract_of(feed.sap_table)
    deliveries: dict[str, int] = {}

    def append(files: tuple[LandingFile, ...]) -> int:
        rows = bronze.build(read_files(spark, landing, feed, files), feed).persist()
        try:
            counts = _count(rows, feed)
            if counts:
                writes.append(spark, target, contract, rows)
        finally:
            rows.unpersist()
        for delivery, count in counts.items():
            deliveries[delivery] = deliveries.get(delivery, 0) + count
        return sum(counts.values())

    catalog.set_properties(spark, target, bronze.FEED_PROPERTIES, bronze.feed_properties(feed))
    ingest(
        spark,
        landing=landing,
        feed=feed,
        bronze=target,
        checkpoint=checkpoints / feed.table.lower(),
        append=append,
    )
    return deliveries


def _count(rows: DataFrame, feed: Feed) -> dict[str, int]:
    """Rows per delivery; an operation that the profile does not know is refused before anything is written."""
    is_unknown = F.col("change_op").isNull() & F.col("_corrupt_record").isNull()
    code = feed.source_profile.operation_code().alias("code")
    first_unknown = F.min(F.when(is_unknown, F.struct("_tech_source_file", "_tech_row_number", code)))
    counted = rows.groupBy("_tech_batch_id").agg(F.count("*").alias("rows"), first_unknown.alias("unknown")).collect()
    unknown = min((row["unknown"] for row in counted if row["unknown"]), default=None)
    if unknown:
        raise UnknownOperationError(
            feed.profile, code=unknown["code"], file=unknown["_tech_source_file"], row=unknown["_tech_row_number"]
        )
    return {row["_tech_batch_id"]: row["rows"] for row in counted}
