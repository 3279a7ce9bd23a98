"""Facts for the health rules, read from real Delta tables, frames and plans."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.health import MIB, SAMPLES, KeyUse, Need
from dwh_pipeline.lake import facts, plans
from dwh_pipeline_tests.frames import frame_of

_CUSTOMER = KeyUse(("client_id", "customer_id"), "join with the customer", "gold.dim_customer")
_ORDER = KeyUse(("order_id",), "window over the changes of an order")
_CHANGE = "order_id STRING, change_seq DECIMAL(20,0), rank INT, _tech_row_hash STRING"


def _table(lake: Path, name: str, rows: DataFrame, *, files: int = 1) -> str:
    """Rows as a Delta table of so many files; its name for SQL."""
    rows.repartition(files).write.format("delta").save(str(lake / name))
    return f"delta.`{lake / name}`"


def _numbers(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).select(F.col("id"), F.col("id").cast("string").alias("name"))


def _checksum(lake: Path, name: str, version: int) -> Path:
    return lake / name / "_delta_log" / f"{version:020}.crc"


def test_files_and_small_files_are_counted_from_the_log(spark: SparkSession, lake: Path) -> None:
    table = _table(lake, "orders", _numbers(spark, 40), files=4)
    of = facts.detail(spark, table)
    found = facts.files_of(spark, "silver.orders", of)
    data = list((lake / "orders").glob("*.parquet"))
    assert [found.table, found.files, found.small_files] == ["silver.orders", 4, 4]
    assert found.bytes == sum(file.stat().st_size for file in data)
    assert found.average_bytes == found.bytes / 4


def test_without_a_checksum_file_files_are_those_of_describe_detail(spark: SparkSession, lake: Path) -> None:
    table = _table(lake, "orders", _numbers(spark, 40), files=4)
    of = facts.detail(spark, table)
    checksum = _checksum(lake, "orders", of.version)
    assert checksum.is_file()
    checksum.unlink()
    found = facts.files_of(spark, "silver.orders", of)
    assert [found.files, found.bytes, found.small_files, found.deleted_rows] == [4, of.bytes, None, None]


def test_a_table_without_rows_has_no_files(spark: SparkSession, lake: Path) -> None:
    table = f"delta.`{lake / 'orders'}`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING DELTA")
    found = facts.files_of(spark, "silver.orders", facts.detail(spark, table))
    assert [found.files, found.bytes, found.average_bytes, found.small_files or 0] == [0, 0, 0, 0]


def test_rows_that_a_deletion_vector_marks_are_counted(spark: SparkSession, lake: Path) -> None:
    table = _table(lake, "orders", _numbers(spark, 40))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {table} WHERE id < 3")  # noqa: S608
    found = facts.files_of(spark, "silver.orders", facts.detail(spark, table))
    assert [found.files, found.deleted_rows, found.deletion_vectors] == [1, 3, 1]


def test_blank_and_unknown_keys_are_counted_apart_and_are_never_the_top_key(spark: SparkSession) -> None:
    rows = frame_of(
        spark,
        ["client_id", "customer_id"],
        [
            *[["100", None]] * 4,
            *[["100", " "]] * 3,
            *[["100", "-1"]] * 6,
            *[["100", "4711"]] * 2,
            ["100", "4712"],
            [None, "-1"],
        ],
    )
    found = facts.keys_of(rows, "silver.orders", _CUSTOMER, dimension=None, adaptive="off")
    assert [found.rows, found.blank_rows, found.unknown_rows] == [17, 8, 6]
    assert [found.top_key, found.top_rows] == ["100 4711", 2]
    assert [found.dimension_is_unique, found.adaptive] == [None, "off"]


def test_a_frame_without_rows_has_no_top_key(spark: SparkSession) -> None:
    found = facts.keys_of(frame_of(spark, ["order_id"], []), "silver.orders", _ORDER, dimension=None, adaptive=None)
    assert [found.rows, found.blank_rows, found.unknown_rows, found.top_key, found.top_rows] == [0, 0, 0, None, 0]


def test_a_frame_of_blank_keys_alone_has_no_top_key(spark: SparkSession) -> None:
    rows = frame_of(spark, ["order_id"], [[None], [""]])
    found = facts.keys_of(rows, "silver.orders", _ORDER, dimension=None, adaptive=None)
    assert [found.rows, found.blank_rows, found.top_key] == [2, 2, None]


@pytest.mark.parametrize(("customers", "is_unique"), [(["1", "2"], True), (["1", "2", "2"], False), ([], True)])
def test_a_key_is_unique_in_its_dimension_or_not(spark: SparkSession, customers: list[str], is_unique: bool) -> None:
    columns = ["client_id", "customer_id"]
    rows = frame_of(spark, columns, [["100", "1"]])
    dimension = frame_of(spark, columns, [["100", customer] for customer in customers])
    found = facts.keys_of(rows, "silver.orders", _CUSTOMER, dimension=dimension, adaptive=None)
    assert found.dimension_is_unique is is_unique


def _changes(spark: SparkSession, rows: Sequence[tuple[str, int, int, str | None]]) -> DataFrame:
    """Changes whose tens in `change_seq` are the order that the source tells, and the rest their place in a file."""
    return frame_of(spark, _CHANGE, rows).withColumn("own_order", F.floor(F.col("change_seq") / 10))


def test_exact_repeats_are_told_from_conflicts(spark: SparkSession) -> None:
    changes = _changes(
        spark,
        [
            ("once", 10, 0, "a"),
            ("repeated", 10, 0, "a"),
            ("repeated", 10, 0, "a"),
            ("repeated", 11, 0, "a"),
            ("conflict", 10, 0, "a"),
            ("conflict", 10, 0, "b"),
            ("changed", 10, 0, "a"),
            ("changed", 20, 0, "b"),
            ("changed", 30, 0, "a"),
            ("ordered by place", 10, 0, "a"),
            ("ordered by place", 11, 0, "b"),
            ("deleted too", 10, 0, "a"),
            ("deleted too", 10, 2, None),
        ],
    )
    rows, keys, repeats, conflicts, samples = facts.repeats_of(changes, ("order_id",))
    assert [rows, keys, repeats, conflicts] == [13, 6, 2, 1]
    assert ['"conflict"' in samples[0], '"repeated"' in samples[1], len(samples)] == [True, True, 2]


def test_at_most_20_keys_are_named(spark: SparkSession) -> None:
    changes = _changes(spark, [(str(key), 1, 0, "a") for key in range(SAMPLES + 5)] * 2)
    _, keys, repeats, _, samples = facts.repeats_of(changes, ("order_id",))
    assert [keys, repeats, len(samples)] == [SAMPLES + 5, SAMPLES + 5, SAMPLES]


def test_a_batch_without_rows_repeats_nothing(spark: SparkSession) -> None:
    assert facts.repeats_of(_changes(spark, []), ("order_id",)) == (0, 0, 0, 0, ())


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10485760b", 10 * MIB),
        ("10485760", 10 * MIB),
        ("10m", 10 * MIB),
        ("10MB", 10 * MIB),
        ("2g", 2048 * MIB),
        ("1 KiB", 1024),
        ("-1", -1),
        ("0", 0),
    ],
)
def test_sizes_are_read_as_spark_writes_them(text: str, size: int) -> None:
    assert facts.bytes_of(text) == size


def test_a_size_without_a_unit_is_in_the_unit_that_the_setting_has() -> None:
    assert facts.bytes_of("512", default_unit="m") == 512 * MIB


def test_what_is_no_size_is_refused() -> None:
    with pytest.raises(ValueError, match="'much' is no size"):
        facts.bytes_of("much")


def test_the_limits_of_the_driver_are_those_of_the_session(spark: SparkSession) -> None:
    memory, _, threshold = facts.driver_limits(spark)
    assert [memory, threshold] == [2048 * MIB, 10 * MIB]


@pytest.mark.parametrize(
    ("properties", "days"),
    [
        ({}, (7, 30)),
        ({"delta.deletedFileRetentionDuration": "interval 2 days"}, (2, 30)),
        ({"delta.logRetentionDuration": "interval 180 hours"}, (7, 7.5)),
        (
            {
                "delta.deletedFileRetentionDuration": "interval 1 week 12 hours",
                "delta.logRetentionDuration": "interval 2 weeks",
            },
            (7.5, 14),
        ),
    ],
)
def test_retention_is_that_of_the_table_and_else_that_of_delta(
    spark: SparkSession, lake: Path, properties: dict[str, str], days: tuple[float, float]
) -> None:
    table = _table(lake, "orders", _numbers(spark, 1))
    if properties:
        pairs = ", ".join(f"'{name}' = '{text}'" for name, text in properties.items())
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({pairs})")
    needs = (Need("the stream", 1),)
    found = facts.retention_of(spark, "silver.orders", facts.detail(spark, table), needs)
    assert (found.deleted_file_days, found.log_days) == days
    assert [found.is_checked, found.needs] == [True, needs]


def test_the_version_at_a_moment_is_the_newest_that_was_there(spark: SparkSession, lake: Path) -> None:
    before = datetime.now(UTC)
    sleep(0.1)
    table = _table(lake, "orders", _numbers(spark, 1))
    sleep(0.1)
    between = datetime.now(UTC)
    sleep(0.1)
    spark.sql(f"INSERT INTO {table} VALUES (7, 'seven')")  # noqa: S608
    after = datetime.now(UTC) + timedelta(seconds=1)
    assert [facts.version_at(spark, table, moment) for moment in (before, between, after)] == [None, 0, 1]


def test_a_version_is_as_old_as_its_commit_and_one_that_is_not_there_has_no_age(
    spark: SparkSession, lake: Path
) -> None:
    table = _table(lake, "orders", _numbers(spark, 1))
    age = facts.days_since(spark, table, 0)
    assert age is not None
    assert 0 <= age < 1
    assert facts.days_since(spark, table, 1) is None


def test_a_version_whose_files_a_vacuum_removed_can_no_longer_be_read(spark: SparkSession, lake: Path) -> None:
    table = _table(lake, "orders", _numbers(spark, 10))
    spark.sql(f"INSERT OVERWRITE {table} VALUES (7, 'seven')")  # noqa: S608
    assert facts.is_readable(spark, table, 0)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
    spark.sql(f"VACUUM {table}")
    # Delta also refuses versions that are older than the retention, whether or not their files are there.
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.deletedFileRetentionDuration')")
    assert [facts.is_readable(spark, table, version) for version in (0, 1, 3)] == [False, True, True]


def test_a_version_beyond_the_retention_of_the_table_can_no_longer_be_read(spark: SparkSession, lake: Path) -> None:
    table = _table(lake, "orders", _numbers(spark, 10))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
    assert not facts.is_readable(spark, table, 0)


def test_a_version_that_never_was_cannot_be_read(spark: SparkSession, lake: Path) -> None:
    assert not facts.is_readable(spark, _table(lake, "orders", _numbers(spark, 1)), 9)


@pytest.fixture(scope="module")
def sides(spark: SparkSession, shared_lake: Path) -> Iterator[tuple[DataFrame, DataFrame]]:
    """A large table and a small one, by their names in a schema."""
    spark.sql(f"CREATE SCHEMA plans LOCATION '{shared_lake / 'plans'}'")
    for name, rows in (("lines", 3_000), ("heads", 5)):
        _numbers(spark, rows).repartition(1).write.format("delta").saveAsTable(f"plans.{name}")
    yield spark.table("plans.lines"), spark.table("plans.heads")
    spark.sql("DROP SCHEMA plans CASCADE")


def _exchanges(spark: SparkSession, frame: DataFrame, threshold: int) -> int:
    """How many broadcasts are in the physical plan under a threshold."""
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    assert before is not None
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", str(threshold))
    try:
        frame.createOrReplaceTempView("planned")
        text: str = spark.sql("EXPLAIN SELECT * FROM planned").collect()[0][0]
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)
        spark.catalog.dropTempView("planned")
    return text.count("BroadcastExchange")


def test_a_side_under_the_threshold_is_found_with_its_table_and_its_size(sides: tuple[DataFrame, DataFrame]) -> None:
    lines, heads = sides
    (found,) = plans.broadcasts(lines.join(heads, "id", "left"), 10 * MIB)
    assert [found.side, found.is_forced] == ["plans.heads", False]
    assert 0 < found.bytes < 10 * MIB


def test_of_an_inner_join_the_smaller_side_is_found(sides: tuple[DataFrame, DataFrame]) -> None:
    lines, heads = sides
    for frame in (lines.join(heads, "id"), heads.join(lines, "id")):
        assert [one.side for one in plans.broadcasts(frame, 10 * MIB)] == ["plans.heads"]


def test_no_side_is_found_below_its_size_and_none_where_broadcasts_are_off(sides: tuple[DataFrame, DataFrame]) -> None:
    lines, heads = sides
    joined = lines.join(heads, "id", "left")
    (found,) = plans.broadcasts(joined, 10 * MIB)
    assert plans.broadcasts(joined, found.bytes // 2) == ()
    assert plans.broadcasts(joined, -1) == ()


def test_a_hint_is_forced_whatever_the_threshold(sides: tuple[DataFrame, DataFrame]) -> None:
    lines, heads = sides
    joined = lines.join(F.broadcast(heads), "id", "left")
    for threshold in (10 * MIB, -1):
        (found,) = plans.broadcasts(joined, threshold)
        assert [found.side, found.is_forced] == ["plans.heads", True]


def test_what_is_not_joined_broadcasts_nothing(sides: tuple[DataFrame, DataFrame]) -> None:
    lines, _ = sides
    assert plans.broadcasts(lines.groupBy("name").count(), 10 * MIB) == ()


@pytest.mark.parametrize(
    ("threshold", "is_hinted", "count"),
    [
        (10 * MIB, False, 2),
        (10 * MIB, True, 2),
        (3_000, False, 1),
        (3_000, True, 1),
        (-1, False, 0),
        (-1, True, 1),
    ],
)
def test_as_many_sides_are_found_as_spark_broadcasts(
    spark: SparkSession, sides: tuple[DataFrame, DataFrame], threshold: int, is_hinted: bool, count: int
) -> None:
    lines, heads = sides
    versions = lines.select(F.col("id").alias("dim_id"), F.col("name").alias("version"))
    header = heads.withColumnRenamed("name", "header")
    in_effect = (F.col("id") == F.col("dim_id")) & (F.col("version") < F.col("name"))
    # As gold.fct_order_line joins: a header by its key, and a version by its key and a range, both left.
    joined = lines.join(F.broadcast(header) if is_hinted else header, "id", "left").join(versions, in_effect, "left")
    frame = joined.groupBy("header").agg(F.count("version").alias("versions"))
    assert len(plans.broadcasts(frame, threshold)) == _exchanges(spark, frame, threshold) == count
