"""Type 2 (SCD2): the versions of every key, from all its changes, dated by when each change happened.

The history of a touched key is always folded whole, so a late change is woven in where it belongs. Intervals are
half-open, `[valid_from, valid_to)`, and never come from the clock of the load.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import Outcome
from dwh_pipeline.contracts.table import CHANGE_SEQ, ROW_HASH, Column
from dwh_pipeline.sap.operations import Operation, is_operation
from dwh_pipeline.sap.profiles import change_time
from dwh_pipeline.tables.changes import ABSENCE, effective, mark, order_of_change

VERSION_COLUMNS = (
    CHANGE_SEQ,
    Column("_tech_valid_from", "TIMESTAMP", "Start of the version (UTC, inclusive)", nullable=False),
    Column("_tech_valid_to", "TIMESTAMP", "End of the version (UTC, exclusive); NULL while it is open"),
    Column("_tech_is_current", "BOOLEAN", "Whether the version is open", nullable=False),
    ROW_HASH,
)
# A key's first version reaches back to here: its change says when we heard of the customer, not since when it exists.
DAWN = "1900-01-01 00:00:00"


def change_points(history: DataFrame, keys: tuple[str, ...], tracked: tuple[str, ...]) -> DataFrame:
    """The changes that alter the state of their key, with `number` (1 is the first) and `after_upsert` (BOOLEAN).

    One change per key and `change_seq` takes part, by the total order. A change of untracked columns alone, a repeated
    value and a repeated deletion alter nothing.
    """
    payload = [name for name in history.columns if name not in {*keys, "change_seq", "_pending", ABSENCE}]
    winners = (
        effective(history)
        .where(~is_operation(Operation.ARCHIVE))  # archiving is no state of a customer
        .groupBy(*keys, "change_seq")
        .agg(F.max(F.struct(order_of_change().alias("order"), F.struct(*payload).alias("row"))).alias("winner"))
        .select(*keys, "change_seq", "winner.row.*")
    )
    in_order = Window.partitionBy(*keys).orderBy("change_seq")
    deletes = is_operation(Operation.DELETE)
    state = F.when(~deletes, F.to_json(F.struct(*tracked), {"ignoreNullFields": "false"}))
    alters = F.col("_state").isNotNull() != F.lag(F.col("_state").isNotNull(), 1, False).over(in_order)  # noqa: FBT003
    differs = ~F.col("_state").eqNullSafe(F.lag("_state").over(in_order))
    # A deletion before any upsert closes nothing, but the version after it must not reach back over it.
    opening_delete = deletes & (F.row_number().over(in_order) == 1)
    return (
        winners.withColumn("_state", state)
        .withColumn("_alters", alters | differs | opening_delete)
        .where("_alters")
        .withColumns(
            {
                "number": F.row_number().over(in_order),
                "after_upsert": F.coalesce(F.lag(~deletes).over(in_order), F.lit(False)),  # noqa: FBT003
            }
        )
        .drop("_state", "_alters")
    )


def versions(points: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """The version that each upsert among the change points opens: `[_tech_valid_from, _tech_valid_to)`.

    Time follows the order of changes: a change that happened no later than the one before it, or whose feed tells no
    time, counts as a microsecond after it. So no version is lost, none overlaps, and the order can be seen.
    """
    in_order = Window.partitionBy(*keys).orderBy("number")
    dawn = F.lit(DAWN).cast("timestamp")
    happened = F.unix_micros(F.coalesce(change_time(F.col("change_seq")), dawn))
    # The running maximum of (time - n) plus n is the earliest strictly increasing time not before any earlier change.
    moment = F.timestamp_micros(F.max(happened - F.col("number")).over(in_order) + F.col("number"))
    opens = F.when(F.col("number") == 1, dawn).otherwise(F.col("_moment"))
    dated = points.withColumn("_moment", moment)
    return (
        dated.withColumns({"_tech_valid_from": opens, "_tech_valid_to": F.lead("_moment").over(in_order)})
        .where(~is_operation(Operation.DELETE))
        .withColumn("_tech_is_current", F.col("_tech_valid_to").isNull())
        .drop("_moment")
    )


def outcomes(
    history: DataFrame, points: DataFrame, stored: DataFrame, changed: DataFrame, keys: tuple[str, ...]
) -> DataFrame:
    """The outcome of every pending change: columns `_tech_batch_id`, `_is_absence` and `outcome`.

    `points` are the change points after the load, `stored` the versions of the touched keys before it, `changed` the
    versions that the load writes.
    """
    key_list = list(keys)
    is_open = F.max(F.col("_tech_valid_to").isNull().cast("int")) == 1
    ended = F.when(~is_open, F.max("_tech_valid_to")).alias("stored_end")  # of a deleted key
    newest = stored.groupBy(*keys).agg(F.max("change_seq").alias("stored_seq"), ended)
    opened = stored.select(*keys, "change_seq", F.col("_tech_row_hash").alias("stored_hash"))
    writes = changed.select(*keys).distinct().withColumn("is_written", F.lit(True))  # noqa: FBT003
    marks = points.select(*keys, "change_seq", "after_upsert", F.lit(True).alias("is_point"))  # noqa: FBT003
    pending = (
        mark(history, keys)
        .join(newest, key_list, "left")
        .join(writes, key_list, "left")
        .join(opened, [*keys, "change_seq"], "left")
        .join(marks, [*keys, "change_seq"], "left")
    )
    before_its_end = change_time(F.col("change_seq")) < F.col("stored_end")
    late = F.coalesce((F.col("change_seq") < F.col("stored_seq")) | before_its_end, F.lit(False))  # noqa: FBT003
    without_effect = F.when(late, Outcome.OLDER.value).otherwise(Outcome.EQUAL.value)
    same_content = F.when(F.col("stored_hash") == F.col("_tech_row_hash"), Outcome.EQUAL.value).otherwise(
        Outcome.REDERIVED.value
    )
    outcome = (
        F.when(F.col("early_outcome").isNotNull(), F.col("early_outcome"))
        .when(F.col("conflicts_before"), Outcome.CONFLICTING.value)
        .when(F.col("known_before"), Outcome.EQUAL.value)
        .when(F.col("stored_hash").isNotNull(), same_content)
        .when(F.col("is_written").isNull() | F.col("is_point").isNull(), without_effect)
        .when(is_operation(Operation.DELETE), Outcome.DELETED.value)
        .when(late, Outcome.WOVEN_IN.value)
        .when(F.col("after_upsert"), Outcome.CLOSED.value)
        .otherwise(Outcome.INSERTED.value)
    )
    return pending.select("_tech_batch_id", ABSENCE, outcome.alias("outcome"))
