"""New files of a feed, read and looked at before anything of them is written.

What stops the feed is found here: an operation that its profile does not know, a column that other files have, rows
that are not as many as declared, a full snapshot that lacks too much. The rows are appended by `bronze_load`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
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
    """Rows that are ready to be appended, and how many of them each delivery has."""

    rows: DataFrame
    deliveries: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Found:
    """What one pass over the new rows tells of a delivery: how many, and the highest `change_seq`."""

    rows: int
    newest: str


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
        _check_rows(feed, delivery, says, found[delivery].rows if delivery in found else 0)
    snapshots = {
        delivery: _position(feed, delivery, says, found[delivery])
        for delivery, says in declared.items()
        if says.snapshot
    }
    if snapshots:
        rows = bronze.in_snapshots(rows, snapshots)
        held = catalog.read(spark, target) if catalog.exists(spark, target) else rows.limit(0)
        every = held.unionByName(rows, allowMissingColumns=True)
        for delivery in snapshots:
            _refuse_if_too_small(feed, target, every, delivery, declared[delivery].max_deleted_share)
    return NewRows(rows, {delivery: facts.rows for delivery, facts in found.items()})


def _columns(spark: SparkSession, target: str) -> set[str]:
    """The delivered columns that bronze has, hence that a file had before."""
    return set(spark.table(target).columns) if catalog.exists(spark, target) else set()


def _look_at(rows: DataFrame, feed: Feed, known_columns: set[str]) -> dict[str, _Found]:
    """The deliveries of the new rows, in one pass. An unknown operation and a missing column stop here."""
    is_unknown = F.col("change_op").isNull() & F.col("_corrupt_record").isNull()
    code = feed.source_profile.operation_code().alias("code")
    seen = rows.groupBy("_tech_batch_id", "_tech_source_columns").agg(
        F.count("*").alias("rows"),
        F.max("change_seq").alias("newest"),
        F.min(F.when(is_unknown, F.struct("_tech_source_file", "_tech_row_number", code))).alias("unknown"),
        F.min(F.when(is_operation(*UPSERTS), F.col("_tech_source_file"))).alias("upserts_in"),
    )
    groups = seen.collect()
    if unknown := min((group["unknown"] for group in groups if group["unknown"]), default=None):
        raise UnknownOperationError(
            feed.profile, code=unknown["code"], file=unknown["_tech_source_file"], row=unknown["_tech_row_number"]
        )
    # Deletions may come with their key alone.
    upserts = {group["upserts_in"]: group["_tech_source_columns"].split(",") for group in groups if group["upserts_in"]}
    _require_columns(feed, upserts, known_columns)
    found: dict[str, _Found] = {}
    for group in groups:
        before = found.get(group["_tech_batch_id"], _Found(0, ""))
        newest = max(before.newest, group["newest"] or "")
        found[group["_tech_batch_id"]] = _Found(before.rows + group["rows"], newest)
    return found


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


def _position(feed: Feed, delivery: str, declared: Delivery, found: _Found) -> str:
    order = feed.order if feed.source_profile.takes_sequence else None
    try:
        return snapshot_position(delivery, found.newest, order, declared.taken_at)
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
