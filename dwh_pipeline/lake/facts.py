"""Facts that the health rules are asked about: what Delta's metadata, Spark's settings and one aggregation tell.

What each costs is said where it is read. Nothing is judged here, and no rows are collected but aggregates and up to
`SAMPLES` keys.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import or_

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.health import MIB, SAMPLES, FileFacts, KeyFacts, KeyUse, Need, RetentionFacts

# Delta protocol, Version Checksum File: its histogram has a boundary at exactly 16 MiB.
_CHECKSUM = (
    "numDeletedRecordsOpt BIGINT, numDeletionVectorsOpt BIGINT, "
    "fileSizeHistogram STRUCT<sortedBinBoundaries: ARRAY<BIGINT>, fileCounts: ARRAY<BIGINT>>"
)
_SMALL = 16 * MIB
_UNKNOWN = "-1"
_CANNOT_READ = "[FAILED_READ_FILE"
_DEFAULT_RETENTION = {
    "delta.deletedFileRetentionDuration": "interval 1 week",
    "delta.logRetentionDuration": "interval 30 days",
}
_UNITS = {"b": 1, "k": 1024, "m": MIB, "g": 1024 * MIB, "t": 1024 * 1024 * MIB}
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class TableDetail:
    """What Delta tells of a table: DESCRIBE DETAIL and the newest entry of its history. No data is read."""

    table: str
    location: str
    version: int
    files: int
    bytes: int
    clustered_by: tuple[str, ...]
    properties: Mapping[str, str]


def detail(spark: SparkSession, table: str) -> TableDetail:
    """The detail of a table that is there."""
    told = spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]
    version = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]["version"]
    return TableDetail(
        table=table,
        location=told["location"],
        version=version,
        files=told["numFiles"],
        bytes=told["sizeInBytes"],
        clustered_by=tuple(told["clusteringColumns"] or ()),
        properties=told["properties"],
    )


def files_of(spark: SparkSession, qualified_name: str, of: TableDetail) -> FileFacts:
    """Data files from metadata alone: the checksum file of the version, one small JSON file. No listing of data."""
    try:
        path = f"{of.location}/_delta_log/{of.version:020}.crc"
        told = spark.read.schema(_CHECKSUM).json(path).collect()[0]
    except PySparkException:  # a writer need not make one
        return FileFacts(qualified_name, of.files, of.bytes)
    histogram = told["fileSizeHistogram"]
    small = None
    if histogram is not None and _SMALL in histogram["sortedBinBoundaries"]:
        small = sum(histogram["fileCounts"][: histogram["sortedBinBoundaries"].index(_SMALL)])
    return FileFacts(
        qualified_name,
        of.files,
        of.bytes,
        small_files=small,
        deleted_rows=told["numDeletedRecordsOpt"],
        deletion_vectors=told["numDeletionVectorsOpt"],
    )


def retention_of(spark: SparkSession, qualified_name: str, of: TableDetail, needs: tuple[Need, ...]) -> RetentionFacts:
    """Retention from table properties and the session's setting. No data is read."""
    texts = [of.properties.get(name, default) for name, default in _DEFAULT_RETENTION.items()]
    seconds = [
        F.unix_seconds(F.timestamp_seconds(F.lit(0)) + F.lit(text).cast("interval")).alias(f"_{n}")
        for n, text in enumerate(texts)
    ]
    deleted, log = (value / _DAY_SECONDS for value in spark.range(1).select(*seconds).collect()[0])
    is_checked = spark.conf.get("spark.databricks.delta.retentionDurationCheck.enabled", "true") == "true"
    return RetentionFacts(qualified_name, deleted, log, is_checked, needs)


def days_since(spark: SparkSession, table: str, version: int) -> float | None:
    """How many days ago a version was committed; None if there is no such version yet. Reads the log alone."""
    history = spark.sql(f"DESCRIBE HISTORY {table}").where(F.col("version") >= version)
    seconds = F.unix_timestamp() - F.unix_timestamp(F.min("timestamp"))
    found = history.select(seconds.alias("seconds")).collect()[0]["seconds"]
    return None if found is None else found / _DAY_SECONDS


def version_at(spark: SparkSession, table: str, moment: datetime) -> int | None:
    """The version that a table had at a moment (UTC); None if it was not there. Reads the log alone."""
    history = spark.sql(f"DESCRIBE HISTORY {table}").where(F.col("timestamp") <= F.lit(moment.astimezone(UTC)))
    found: int | None = history.select(F.max("version")).collect()[0][0]
    return found


def is_readable(spark: SparkSession, table: str, version: int) -> bool:
    """Whether all rows of a version can still be read. Reads one column of it."""
    try:
        rows = spark.sql(f"SELECT * FROM {table} VERSION AS OF {version}")  # noqa: S608
        rows.select(F.max(F.xxhash64(rows.columns[0]))).collect()
    except PySparkException:  # Delta refuses the version
        return False
    except Py4JJavaError as error:  # PySpark does not translate what goes wrong while files are read
        if _CANNOT_READ not in str(error):
            raise
        return False
    return True


def keys_of(
    rows: DataFrame, qualified_name: str, use: KeyUse, *, dimension: DataFrame | None, adaptive: str | None
) -> KeyFacts:
    """How rows spread over a key: one aggregation by the key, and one of the dimension."""
    columns = [F.col(f"`{name}`").cast("string") for name in use.columns]
    blank = reduce(or_, (column.isNull() | (F.trim(column) == "") for column in columns))
    unknown = reduce(or_, (F.coalesce(column == _UNKNOWN, F.lit(False)) for column in columns))  # noqa: FBT003
    kind = F.when(blank, "blank").when(unknown, "unknown").otherwise("key")
    by_key = rows.groupBy(F.concat_ws(" ", *columns).alias("key"), kind.alias("kind")).count()

    def total(of: str) -> Column:
        return F.coalesce(F.sum(F.when(F.col("kind") == of, F.col("count"))), F.lit(0))

    top = F.max(F.when(F.col("kind") == "key", F.struct("count", "key")))
    found = by_key.agg(
        total("key").alias("known"), total("blank").alias("blank"), total("unknown").alias("unknown"), top.alias("top")
    ).collect()[0]
    is_unique = None
    if dimension is not None:
        names = [f"`{name}`" for name in use.columns]
        is_unique = dimension.groupBy(*names).count().where("count > 1").limit(1).isEmpty()
    return KeyFacts(
        table=qualified_name,
        use=use,
        rows=found["known"] + found["blank"] + found["unknown"],
        blank_rows=found["blank"],
        unknown_rows=found["unknown"],
        top_key=found["top"]["key"] if found["top"] else None,
        top_rows=found["top"]["count"] if found["top"] else 0,
        dimension_is_unique=is_unique,
        adaptive=adaptive,
    )


def why_not_split(spark: SparkSession, use: KeyUse, table_bytes: int) -> str | None:
    """Why adaptive execution would not split a hot key, in words; None if it can. Settings alone are read."""
    if use.dimension is None:
        return f"adaptive execution splits joins alone, and this is {use.work}"
    for name in ("spark.sql.adaptive.enabled", "spark.sql.adaptive.skewJoin.enabled"):
        if spark.conf.get(name) != "true":
            return f"{name} is off"
    name = "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes"
    threshold = bytes_of(spark.conf.get(name) or "")
    if table_bytes < threshold:
        return f"the table has {table_bytes} bytes, and no partition below {name} ({threshold}) counts as skewed"
    return None


def repeats_of(changes: DataFrame, keys: tuple[str, ...]) -> tuple[int, int, int, int, tuple[str, ...]]:
    """Changes of a batch before it is reduced to one row per key.

    They have `change_seq`, `rank`, `_tech_row_hash`, and `own_order`: that of the source, so that a row that comes
    twice in a file is a repeat. Gives rows, keys, rows that are in it already, changes with several contents, and up to
    `SAMPLES` keys, conflicts first. One aggregation, and one more if there is anything to name.
    """
    change = (*keys, "own_order", "rank")
    content = F.coalesce("_tech_row_hash", F.lit("")).alias("content")  # a deletion has none
    contents = changes.groupBy(*change, "change_seq", content).count()
    per_change = contents.groupBy(*change).agg(
        F.sum("count").alias("rows"),
        F.count_distinct("content").alias("contents"),
        # The place in a file decides between contents; at one change_seq nothing does.
        (F.count("*") > F.count_distinct("change_seq")).cast("int").alias("is_conflict"),
    )
    repeats = F.col("rows") - F.col("contents")
    found = per_change.agg(
        F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
        F.count_distinct(*keys).alias("keys"),
        F.coalesce(F.sum(repeats), F.lit(0)).alias("repeats"),
        F.coalesce(F.sum("is_conflict"), F.lit(0)).alias("conflicts"),
    ).collect()[0]
    samples: tuple[str, ...] = ()
    if found["repeats"] or found["conflicts"]:
        named = per_change.where((repeats > 0) | (F.col("is_conflict") > 0))
        first = named.orderBy(F.desc("is_conflict"), F.desc("contents"), *change).limit(SAMPLES)
        samples = tuple(
            row[0] for row in first.select(F.to_json(F.struct(*keys, "own_order", "contents", "rows"))).collect()
        )
    return found["rows"], found["keys"], found["repeats"], found["conflicts"], samples


def driver_limits(spark: SparkSession) -> tuple[int, int, int]:
    """Memory of the driver, maxResultSize and autoBroadcastJoinThreshold, in bytes."""
    return (
        bytes_of(spark.conf.get("spark.driver.memory", "1g") or "1g", default_unit="m"),
        bytes_of(spark.conf.get("spark.driver.maxResultSize", "1g") or "1g"),
        bytes_of(spark.conf.get("spark.sql.autoBroadcastJoinThreshold") or "10m"),
    )


def bytes_of(text: str, *, default_unit: str = "b") -> int:
    """A size in Spark's notation (`512m`, `10485760b`, `-1`) in bytes."""
    found = re.fullmatch(r"(-?\d+)\s*([bkmgt]?)i?b?", text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is no size")
    return int(found[1]) * _UNITS[found[2] or default_unit]
