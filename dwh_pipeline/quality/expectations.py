"""What has to be true of a table. Each expectation counts the rows that break it and names a few of them.

No expectation collects rows: it answers with one count and at most `SAMPLES` keys. A name is the sentence that is true
when it passes.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add, or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import Outcome
from dwh_pipeline.sap.operations import UPSERTS, is_operation, operation_rank

SAMPLES = 20
# Outcomes that do not tell whether a change could still have an effect.
_SAYS_NOTHING = (Outcome.OLDER, Outcome.COLLAPSED, Outcome.QUARANTINED)


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
    """No two changes of one key have the same `change_seq` and kind of operation but other content (`_tech_row_hash`).

    A sample has the key, the `change_seq`, the `content` that stays (the larger hash), and those that do not. Computed
    on bronze, so the answer does not depend on the order of arrival.
    """
    one_change = (*keys, "change_seq", "rank")
    ranked = changes.withColumn("rank", operation_rank())
    contents = ranked.groupBy(*one_change).agg(F.count_distinct("_tech_row_hash").alias("contents"))
    conflicts = contents.where(F.col("contents") > 1).select(*one_change).localCheckpoint()
    if conflicts.isEmpty():
        return Finding(0, ())
    by_hash = F.sort_array(F.collect_set(F.struct("_tech_row_hash", "content")), asc=False)
    named = ranked.join(conflicts, list(one_change)).groupBy(*one_change).agg(by_hash.alias("found"))
    stays, goes = F.col("found")[0]["content"], F.slice("found", 2, SAMPLES)["content"]
    return _finding(named.select(*keys, "change_seq", stays.alias("stays"), goes.alias("goes")))


def files_have_the_same_columns(rows: DataFrame) -> Finding:
    """Every file of a bronze table that holds upserts has the same columns. Counts the columns that only some have.

    A sample has the column and the first file with it. Files that say nothing of their columns do not count.
    """
    if "_tech_source_columns" not in rows.columns:
        return Finding(0, ())
    told = rows.where(is_operation(*UPSERTS) & F.col("_tech_source_columns").isNotNull())
    alike = told.groupBy("_tech_source_columns").agg(F.min("_tech_source_file").alias("first_file")).localCheckpoint()
    named = alike.select(F.explode(F.split("_tech_source_columns", ",")).alias("column"), "first_file")
    having = named.groupBy("column").agg(F.count("*").alias("having"), F.min("first_file").alias("first_file"))
    return _finding(having.where(F.col("having") < alike.count()).select("column", "first_file"))


def some_change_is_newer(loads: DataFrame, deliveries: DataFrame) -> Finding:
    """None of the deliveries lost with all its changes to what was there before, in every load of it.

    `loads` are rows of the ledger, `deliveries` the ids (`_tech_batch_id`) that are looked at.
    """
    took_part = reduce(add, (F.col(o.value) for o in Outcome if o not in _SAYS_NOTHING))
    per_delivery = loads.groupBy("_tech_batch_id").agg(
        F.max(took_part).alias("took_part"), F.max("older").alias("older")
    )
    lost = per_delivery.where((F.col("took_part") == 0) & (F.col("older") > 0))
    return _finding(lost.join(deliveries, "_tech_batch_id", "left_semi").select("_tech_batch_id", "older"))


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
