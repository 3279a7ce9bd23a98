"""What has to be true of a table. Each expectation counts the rows that break it and names a few of them.

No expectation collects rows: it answers with one count and at most `SAMPLES` keys. A name is the sentence that is true
when it passes.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add, and_, or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import Outcome
from dwh_pipeline.sap.currency import in_own_decimals
from dwh_pipeline.sap.operations import UPSERTS, is_operation, operation_rank

SAMPLES = 20
# Outcomes that do not tell whether a change could still have an effect.
_SAYS_NOTHING = (Outcome.OLDER, Outcome.COLLAPSED, Outcome.QUARANTINED)
# What SAP's own rounding may leave between a total and its items, in the two decimals that all amounts are stored with.
_TOLERANCE = "0.01"


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


def open_version_equals_newest_change(
    versions: DataFrame, newest: DataFrame, keys: tuple[str, ...], attributes: tuple[str, ...]
) -> Finding:
    """A key that is not deleted has an open version with the attributes of its newest change, any other key has none.

    `newest` has one row per key with the attributes and `is_deleted`, made in another way than the versions. A sample
    has the key and what is wrong, for differing attributes their names, but no values: they may be personal.
    """
    stored = versions.where(F.col("_tech_valid_to").isNull()).select(*keys, F.struct(*attributes).alias("stored"))
    wanted = newest.where(~F.col("is_deleted")).select(*keys, F.struct(*attributes).alias("wanted"))
    both = stored.join(wanted, list(keys), "full_outer")
    differing = F.array_compact(
        F.array(*(F.when(~F.col(f"stored.{n}").eqNullSafe(F.col(f"wanted.{n}")), F.lit(n)) for n in attributes))
    )
    problem = (
        F.when(F.col("stored").isNull(), "has no open version")
        .when(F.col("wanted").isNull(), "has an open version, but was deleted or never delivered")
        .otherwise(F.concat(F.lit("differs in "), F.array_join(differing, ", ")))
    )
    return _finding(both.where(~F.col("stored").eqNullSafe(F.col("wanted"))).select(*keys, problem.alias("problem")))


def no_gap_but_a_deletion(versions: DataFrame, deletions: DataFrame, keys: tuple[str, ...], dawn: str) -> Finding:
    """Where a key has no version, from `dawn` on, it was deleted: by a change between the versions around the gap.

    `deletions` have the key and `change_seq`, and lie strictly between: at the same `change_seq` a deletion is the last
    word, so there is no version of it. A sample has the key and the gap; one without an end follows the last version.
    """
    in_order = Window.partitionBy(*keys).orderBy("_tech_valid_from")
    is_first = F.row_number().over(in_order) == 1
    ended = F.when(is_first, F.lit(dawn).cast("timestamp")).otherwise(F.lag("_tech_valid_to").over(in_order))
    is_last = F.lead("_tech_valid_from").over(in_order).isNull()
    before = F.struct(
        F.lag("change_seq").over(in_order).alias("after"),
        F.col("change_seq").alias("before"),
        ended.alias("from"),
        F.col("_tech_valid_from").alias("to"),
    )
    behind = F.struct(
        F.col("change_seq").alias("after"),
        F.lit(None).cast("string").alias("before"),
        F.col("_tech_valid_to").alias("from"),
        F.lit(None).cast("timestamp").alias("to"),
    )
    found = F.array(
        F.when(ended < F.col("_tech_valid_from"), before), F.when(is_last & F.col("_tech_valid_to").isNotNull(), behind)
    )
    gaps = versions.select(*keys, F.array_compact(found).alias("gaps")).select(*keys, F.inline("gaps"))
    deleted = deletions.select(*(F.col(key).alias(f"deleted_{key}") for key in keys), F.col("change_seq"))
    explains = reduce(
        and_,
        (F.col(key) == F.col(f"deleted_{key}") for key in keys),
        (F.col("after").isNull() | (F.col("change_seq") > F.col("after")))
        & (F.col("before").isNull() | (F.col("change_seq") < F.col("before"))),
    )
    return _finding(gaps.join(deleted, explains, "left_anti").select(*keys, "from", "to"))


def line_has_one_customer_version(
    facts: DataFrame, dimension: DataFrame, keys: tuple[str, ...], unknown_key: str
) -> Finding:
    """The customer of a line has one version at the last microsecond of the document date, the one of `customer_key`.

    Or none, and `customer_key` is `unknown_key`. A sample has the key of the line, its `customer_key`, and how many
    versions there are.
    """
    last_instant = F.date_add("document_date", 1).cast("timestamp") - F.expr("INTERVAL 1 MICROSECOND")
    lines = facts.select(*keys, "customer_key", "customer_id", last_instant.alias("at")).alias("line")
    versions = dimension.select("client_id", "customer_id", "customer_key", "valid_from", "valid_to").alias("version")
    holds = F.expr(
        "line.client_id = version.client_id AND line.customer_id = version.customer_id "
        "AND version.valid_from <= line.at AND (version.valid_to > line.at OR version.valid_to IS NULL)"
    )
    line = tuple(f"line.{name}" for name in (*keys, "customer_key"))
    found = (
        lines.join(versions, holds, "left")
        .groupBy(*line)
        .agg(F.count("version.customer_key").alias("versions"), F.max("version.customer_key").alias("version_key"))
    )
    wanted = F.coalesce("version_key", F.lit(unknown_key))
    is_right = (F.col("versions") <= 1) & F.col("customer_key").eqNullSafe(wanted)
    return _finding(found.where(~is_right).select(*keys, "customer_key", "versions"))


def fact_has_the_lines_of_silver(facts: DataFrame, lines: DataFrame, keys: tuple[str, ...]) -> Finding:
    """The fact has every line that is not deleted once, with its quantity, and no other line.

    A sample has the key, and for silver and the fact how many rows there are and the quantity.
    """
    sides = (("silver", lines.where(~F.col("is_deleted"))), ("fact", facts))
    marked = [rows.select(*keys, "quantity", F.lit(name).alias("side")) for name, rows in sides]
    told = [
        column
        for name, _ in sides
        for column in (
            F.count_if(F.col("side") == name).alias(f"{name}_rows"),
            F.max(F.when(F.col("side") == name, F.col("quantity"))).alias(f"{name}_quantity"),
        )
    ]
    both = marked[0].unionByName(marked[1]).groupBy(*keys).agg(*told)
    same_quantity = F.col("silver_quantity").eqNullSafe(F.col("fact_quantity"))
    return _finding(both.where((F.col("silver_rows") != F.col("fact_rows")) | ~same_quantity))


def header_totals_equal_items(orders: DataFrame, lines: DataFrame, keys: tuple[str, ...]) -> Finding:
    """The net value of an order is the sum over its items that are neither rejected nor statistical.

    Asked of orders that are not deleted, have a net value and a line. Up to 0.01 as SAP stores amounts may be between
    them: one smallest unit of the currency. A line without a currency has its order's, an order without one its lines';
    a line in another currency is no part of the total. A sample has the order, its total and the sum.
    """
    money = "DECIMAL(20,5)"
    header = orders.where(~F.col("is_deleted") & F.col("order_net_value").isNotNull()).select(
        *keys,
        "order_net_value",
        F.col("currency").alias("order_currency"),
        F.col("currency_decimals").alias("order_decimals"),
    )
    # What has no currency was shifted as if it had two decimals, and is shifted here by those of the currency it has.
    borrowed = F.col("currency").isNull() & F.col("currency_decimals").isNotNull()
    net_value = in_own_decimals(F.col("line_net_value"), F.when(borrowed, F.col("order_decimals")), type_=money)
    same_currency = F.coalesce(F.col("currency") == F.col("order_currency"), F.lit(True))  # noqa: FBT003
    counts = F.col("rejection_reason_code").isNull() & F.col("statistical_value_flag").isNull() & same_currency
    totals = (
        lines.where(~F.col("is_deleted"))
        .join(header, list(keys))
        .groupBy(*keys, "order_net_value", "order_currency", "order_decimals")
        .agg(
            F.coalesce(F.sum(F.when(counts, net_value)), F.lit(0)).alias("sum_of_items"),
            F.max(F.when(F.col("currency").isNotNull(), F.col("currency_decimals"))).alias("line_decimals"),
        )
    )
    borrows = F.col("order_currency").isNull() & F.col("order_decimals").isNotNull()
    total = in_own_decimals(F.col("order_net_value"), F.when(borrows, F.col("line_decimals")), type_=money)
    decimals = F.when(borrows, F.col("line_decimals")).otherwise(F.col("order_decimals"))
    tolerance = in_own_decimals(F.lit(_TOLERANCE).cast(money), decimals, type_=money)
    differing = totals.withColumn("total", total).where(F.abs(F.col("total") - F.col("sum_of_items")) > tolerance)
    return _finding(differing.select(*keys, "total", "sum_of_items", F.col("order_currency").alias("currency")))


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
