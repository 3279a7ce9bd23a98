"""New files of a feed, read and looked at before anything of them is written.

What stops the feed is found here: an operation that its profile does not know, a column that other files have, rows
that are not as many as declared, a full snapshot that lacks too much. The rows are appended by `bronze_load`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.errors import DeliveryError, MissingColumnError, SnapshotRefusedError, UnknownOperationError
from dwh_pipeline.lake import catalog
from dwh_pipeline.lake.landing import LandingFile, read_delivery, read_files
from dwh_pipeline.loads.delivered import changes_of, delivered_of, history_of
from dwh_pipeline.sap.feeds import Delivery, Feed, FileFormat
from dwh_pipeline.sap.operations import UPSERTS, is_operation
from dwh_pipeline.sap.profiles import snapshot_position
from dwh_pipeline.tables import bronze, scd1
from dwh_pipeline.tables.changes import ABSENCE


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows that are ready to be appended, how many of them each delivery has, and the files that are skipped.

    `skipped` gives the file that has the same rows and is loaded instead; None for a file without rows.
    """

    rows: DataFrame
    deliveries: dict[str, int]
    skipped: dict[LandingFile, str | None]


@dataclass(frozen=True, slots=True)
class _Found:
    """What one pass over the new rows tells of a file.

    `content` is the sum of the hashes of its rows: the same for the same rows in any order.
    """

    delivery: str
    rows: int
    newest: str
    content: Decimal


def read_new(spark: SparkSession, feed: Feed, landing: Path, target: str, files: tuple[LandingFile, ...]) -> NewRows:
    """Read files that bronze does not hold, and refuse what may not be appended.

    Raises:
        FeedError, DeliveryError: the files are not what the feed or a `_delivery.json` declares.
        UnknownOperationError: a file holds an operation that the profile does not know.
        MissingColumnError: a file lacks a column that other files of the feed have.
        SnapshotRefusedError: a full snapshot would delete more than it may.
    """
    rows = bronze.build(read_files(spark, landing, feed, files), feed).localCheckpoint(eager=False)
    found = _look_at(rows, feed, _columns(spark, target))
    declared = {file.delivery: read_delivery(landing, feed, file.delivery) for file in files}
    for delivery, says in declared.items():
        _check_rows(feed, delivery, says, sum(one.rows for one in found.values() if one.delivery == delivery))
    snapshots = {
        delivery: _position(feed, delivery, says, max(one.newest for one in found.values() if one.delivery == delivery))
        for delivery, says in declared.items()
        if says.snapshot
    }
    if snapshots:
        rows = bronze.in_snapshots(rows, snapshots)
        held = catalog.read(spark, target) if catalog.exists(spark, target) else rows.limit(0)
        every = held.unionByName(rows, allowMissingColumns=True)
        for delivery in snapshots:
            _refuse_if_too_small(feed, target, every, delivery, declared[delivery].max_deleted_share)
    known = {name: one for name, one in found.items() if one.delivery not in snapshots}
    same = _same_content(spark, target, known) if feed.order_is_in_rows else {}
    if same:
        rows = rows.where(~F.col("_tech_source_file").isin(list(same)))
    deliveries: dict[str, int] = {}
    for name, one in found.items():
        if name not in same:
            deliveries[one.delivery] = deliveries.get(one.delivery, 0) + one.rows
    skipped = {file: same.get(file.relative) for file in files if file.relative in same or file.relative not in found}
    return NewRows(rows, deliveries, skipped)


def _same_content(spark: SparkSession, target: str, found: Mapping[str, _Found]) -> dict[str, str]:
    """Files with the rows of another one, and that one: the first by name of those that bronze or this batch has.

    Only where the rows tell their order: elsewhere a file that comes later is a newer change, whatever it holds.
    """
    first: dict[tuple[int, Decimal], str] = {}
    if catalog.exists(spark, target):
        held = spark.table(target).groupBy("_tech_source_file").agg(F.count("*").alias("rows"), _content())
        offered = F.col("content").isin([one.content for one in found.values()])
        for row in held.where(offered).orderBy("_tech_source_file").collect():
            first.setdefault((row["rows"], row["content"]), row["_tech_source_file"])
    same: dict[str, str] = {}
    for name, one in sorted(found.items()):
        other = first.setdefault((one.rows, one.content), name)
        if other != name:
            same[name] = other
    return same


def _columns(spark: SparkSession, target: str) -> set[str]:
    """The delivered columns that bronze has, hence that a file had before."""
    return set(spark.table(target).columns) if catalog.exists(spark, target) else set()


def _content() -> Column:
    """The fingerprint of the rows of a file: the same in any order, and a repeated row counts."""
    return F.sum(F.xxhash64("_tech_row_hash").cast("DECIMAL(38,0)")).alias("content")


def _look_at(rows: DataFrame, feed: Feed, known_columns: set[str]) -> dict[str, _Found]:
    """The new files that have rows, in one pass. An unknown operation and a missing column stop here."""
    is_unknown = F.col("change_op").isNull() & F.col("_corrupt_record").isNull()
    code = feed.source_profile.operation_code().alias("code")
    seen = rows.groupBy("_tech_source_file", "_tech_batch_id", "_tech_source_columns").agg(
        F.count("*").alias("rows"),
        F.max("change_seq").alias("newest"),
        _content(),
        F.min(F.when(is_unknown, F.struct("_tech_source_file", "_tech_row_number", code))).alias("unknown"),
        F.max(is_operation(*UPSERTS)).alias("has_upserts"),
    )
    files = seen.collect()
    if unknown := min((file["unknown"] for file in files if file["unknown"]), default=None):
        raise UnknownOperationError(
            feed.profile, code=unknown["code"], file=unknown["_tech_source_file"], row=unknown["_tech_row_number"]
        )
    # Deletions may come with their key alone.
    with_values = {f["_tech_source_file"]: f["_tech_source_columns"].split(",") for f in files if f["has_upserts"]}
    _require_columns(feed, with_values, known_columns)
    return {
        file["_tech_source_file"]: _Found(file["_tech_batch_id"], file["rows"], file["newest"] or "", file["content"])
        for file in files
    }


def _require_columns(feed: Feed, files: Mapping[str, list[str]], known_columns: set[str]) -> None:
    """No file lacks a column that silver reads and that another file of the feed has."""
    if feed.format is FileFormat.JSONL:  # an object leaves out what is blank
        return
    needed = {field.name for field in feed.sap_table.fields} & known_columns.union(*files.values())
    needed -= {*feed.constants, *feed.optional}
    for file, columns in sorted(files.items()):
        if missing := sorted(needed.difference(columns)):
            raise MissingColumnError(file, tuple(missing))


def _check_rows(feed: Feed, delivery: str, declared: Delivery, rows: int) -> None:
    if declared.rows is not None and declared.rows != rows:
        raise DeliveryError(f"{feed.name}/{delivery}", f"has {rows} rows, but its _delivery.json says {declared.rows}")
    if declared.snapshot and not rows:
        raise DeliveryError(
            f"{feed.name}/{delivery}", "is a full snapshot without rows, which would delete everything; take it away"
        )


def _position(feed: Feed, delivery: str, declared: Delivery, newest: str) -> str:
    order = feed.order if feed.source_profile.takes_sequence else None
    try:
        return snapshot_position(delivery, newest, order, declared.taken_at)
    except ValueError as error:
        raise DeliveryError(f"{feed.name}/{delivery}", f"a full snapshot {error}") from None


def _refuse_if_too_small(feed: Feed, target: str, rows: DataFrame, delivery: str, allowed: float) -> None:
    """Of the keys that were there just before the snapshot, not more than the allowed share is absent from it."""
    # Only keys matter here; a row whose other values cannot be read is there all the same.
    keys = tuple(field.canonical for field in feed.sap_table.keys)
    narrow = replace(feed.sap_table, fields=feed.sap_table.keys)
    delivered = delivered_of(narrow, target, rows, feed.value_format, None)
    changes = changes_of(delivered)
    if unreadable := changes.where((F.col("_tech_batch_id") == delivery) & F.col("reason").isNotNull()).head():
        raise DeliveryError(
            unreadable["_tech_source_file"],
            f"row {unreadable['_tech_row_number']} of a full snapshot cannot be read, so it is not known what is "
            f"absent: {unreadable['reason']}",
        )
    position = next(at for at, id_ in delivered.snapshots if id_ == delivery)
    history = history_of(delivered, changes).localCheckpoint()
    brought_about = F.col(ABSENCE) & (F.col("_tech_batch_id") == delivery)
    before = scd1.fold(history.where((F.col("change_seq") <= position) & ~brought_about), keys, ())
    absent = history.where(brought_about).select(*keys).distinct()
    known = before.where("NOT is_deleted").join(absent.withColumn("is_absent", F.lit(True)), list(keys), "left")  # noqa: FBT003
    counted = known.agg(F.count("*").alias("alive"), F.count("is_absent").alias("absent")).collect()[0]
    if counted["absent"] > allowed * counted["alive"]:
        raise SnapshotRefusedError(
            f"{feed.name}/{delivery}", absent=counted["absent"], alive=counted["alive"], allowed=allowed
        )
