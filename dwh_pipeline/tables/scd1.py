"""Type 1 with tombstones: the newest state of every key, from all its changes.

The state is a pure function of the set of changes: attributes of the newest upsert, deletion and archiving of the
newest change. So it does not matter in which order or how often changes arrive.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import Outcome
from dwh_pipeline.contracts.table import CHANGE_SEQ, ROW_HASH
from dwh_pipeline.contracts.table import Column as ContractColumn
from dwh_pipeline.sap.operations import UPSERTS, Operation, is_operation
from dwh_pipeline.tables.changes import ABSENCE, effective, mark, order_of_change

STATE_COLUMNS = (
    ContractColumn(
        "is_deleted", "BOOLEAN", "The newest change is a deletion; the row stays as a tombstone", nullable=False
    ),
    ContractColumn("is_archived", "BOOLEAN", "The newest change is an archiving; revenue stays", nullable=False),
    CHANGE_SEQ,
    ROW_HASH,
)


def fold(history: DataFrame, keys: tuple[str, ...], attributes: tuple[str, ...]) -> DataFrame:
    """One row per key: attributes of the newest upsert; `is_deleted`, `is_archived`, `change_seq` of the newest change.

    `_tech_row_hash` is that of the newest upsert; attributes of a key that was never upserted are NULL.
    """
    values = F.struct(order_of_change().alias("order"), F.struct("_tech_row_hash", *attributes).alias("row"))
    newest = F.max(F.struct(order_of_change().alias("order"), F.col("change_op")))
    newest_upsert = F.max(F.when(is_operation(*UPSERTS), values))
    folded = effective(history).groupBy(*keys).agg(newest.alias("newest"), newest_upsert.alias("upsert"))
    return folded.select(
        *keys,
        *(F.col(f"upsert.row.{name}").alias(name) for name in attributes),
        (F.col("newest.change_op") == Operation.DELETE.value).alias("is_deleted"),
        (F.col("newest.change_op") == Operation.ARCHIVE.value).alias("is_archived"),
        F.col("newest.order.change_seq").alias("change_seq"),
        F.col("upsert.row._tech_row_hash").alias("_tech_row_hash"),
    )


def outcomes(history: DataFrame, stored: DataFrame, changed: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """The outcome of every pending change: columns `_tech_batch_id`, `_is_absence` and `outcome`.

    `stored` holds the rows of the touched keys as they are before the load, `changed` the rows that the load writes.
    """
    before = stored.select(
        *keys,
        F.col("change_seq").alias("stored_seq"),
        F.when(F.col("is_deleted"), 2).when(F.col("is_archived"), 1).otherwise(0).alias("stored_rank"),
    )
    writes = changed.select(*keys, F.lit(True).alias("is_written"))  # noqa: FBT003
    pending = mark(history, keys).join(before, list(keys), "left").join(writes, list(keys), "left")
    newer = F.when(is_operation(Operation.DELETE), Outcome.DELETED.value).otherwise(Outcome.UPDATED.value)
    first = F.when(is_operation(Operation.DELETE), Outcome.DELETED.value).otherwise(Outcome.INSERTED.value)
    outcome = (
        F.when(F.col("early_outcome").isNotNull(), F.col("early_outcome"))
        .when(~F.col("is_newest"), Outcome.COLLAPSED.value)
        .when(F.col("stored_seq").isNull(), first)
        .when(_position("change_seq", F.col("rank")) > _position("stored_seq", F.col("stored_rank")), newer)
        .when(F.col("conflicts_before"), Outcome.CONFLICTING.value)
        .when(
            F.col("change_seq") == F.col("stored_seq"),
            F.when(F.col("is_written"), Outcome.REDERIVED.value).otherwise(Outcome.EQUAL.value),
        )
        .when(F.col("is_written"), Outcome.UPDATED.value)
        .otherwise(Outcome.OLDER.value)
    )
    return pending.select("_tech_batch_id", ABSENCE, outcome.alias("outcome"))


def _position(seq: str, rank: Column) -> Column:
    return F.struct(F.col(seq).alias("seq"), rank.cast("int").alias("rank"))
