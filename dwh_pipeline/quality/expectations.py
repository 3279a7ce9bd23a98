"""What has to be true of a table. Each expectation counts the rows that break it and names a few of them.

No expectation collects rows: it answers with one count and at most `SAMPLES` keys. A name is the sentence that is true
when it passes.
"""

from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

SAMPLES = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer of an expectation: how many rows (or groups) break it, and up to `SAMPLES` of them as JSON text."""

    failing_rows: int
    samples: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing breaks it."""
        return self.failing_rows == 0


def primary_key_is_unique(rows: DataFrame, keys: tuple[str, ...]) -> Finding:
    """No two rows have the same key; NULL counts as a value."""
    return _finding(rows.groupBy(*keys).count().where(F.col("count") > 1))


def key_is_not_null(rows: DataFrame, keys: tuple[str, ...]) -> Finding:
    """No row has NULL in a column of its key."""
    return _finding(rows.where(reduce(or_, (F.col(key).isNull() for key in keys))).select(*keys))


def one_current_version(versions: DataFrame, keys: tuple[str, ...]) -> Finding:
    """Every key has at most one current version, it is the open one, and no version follows it.

    No current version is right only for a deleted key: then its last version is closed.
    """
    newest_first = Window.partitionBy(*keys).orderBy(F.desc("_tech_valid_from"))
    is_open = F.col("_tech_valid_to").isNull()
    ranked = versions.select(
        *keys, "_tech_is_current", is_open.alias("is_open"), F.row_number().over(newest_first).alias("n")
    )
    wrong = (F.col("_tech_is_current") != F.col("is_open")) | (F.col("_tech_is_current") & (F.col("n") > 1))
    return _finding(ranked.where(wrong).select(*keys).distinct())


def intervals_do_not_overlap(versions: DataFrame, keys: tuple[str, ...]) -> Finding:
    """Every version ends after it starts and no later than the next one starts."""
    following = F.lead("_tech_valid_from").over(Window.partitionBy(*keys).orderBy("_tech_valid_from"))
    dated = versions.select(*keys, "_tech_valid_from", "_tech_valid_to", following.alias("next_from"))
    empty = F.col("_tech_valid_to") <= F.col("_tech_valid_from")
    overlaps = F.col("next_from").isNotNull() & (
        F.col("_tech_valid_to").isNull() | (F.col("_tech_valid_to") > F.col("next_from"))
    )
    return _finding(dated.where(F.coalesce(empty, F.lit(False)) | overlaps))  # noqa: FBT003


def aggregate_equals_fact(aggregate: DataFrame, wanted: DataFrame, columns: tuple[str, ...]) -> Finding:
    """The stored aggregate has exactly the rows that the fact gives (`wanted`), compared as multisets."""
    stored = aggregate.select(*columns)
    return _finding(stored.exceptAll(wanted.select(*columns)).unionAll(wanted.select(*columns).exceptAll(stored)))


def changes_have_one_content(changes: DataFrame, keys: tuple[str, ...]) -> Finding:
    """No two changes of one key have the same `change_seq` and operation but other content. Counts keys.

    Computed on bronze, so the answer does not depend on the order of arrival.
    """
    contents = changes.groupBy(*keys, "change_seq", "change_op").agg(
        F.count_distinct("_tech_row_hash").alias("contents")
    )
    return _finding(contents.where(F.col("contents") > 1).select(*keys).distinct())


def every_row_has(rows: DataFrame, condition: Column, keys: tuple[str, ...]) -> Finding:
    """The condition (BOOLEAN) is true of every row; NULL is not."""
    return _finding(rows.where(~F.coalesce(condition, F.lit(False))).select(*keys))  # noqa: FBT003


def _finding(failing: DataFrame) -> Finding:
    """Count the failing rows and sample some, in one pass."""
    sample = F.slice(
        F.sort_array(F.collect_list(F.when(F.col("_n") <= SAMPLES, F.to_json(F.struct(*failing.columns))))), 1, SAMPLES
    )
    numbered = failing.withColumn("_n", F.monotonically_increasing_id() % (1 << 33) + 1)
    row = numbered.agg(F.count("*").alias("failing_rows"), sample.alias("samples")).collect()[0]
    return Finding(row["failing_rows"], tuple(row["samples"]))
