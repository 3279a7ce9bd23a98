"""Full snapshots: what one lacks was deleted by the time it was taken, also if an older change of it arrives later.

So an absence is derived from the set of changes, like everything else, and never stored as a change of its own. Which
deliveries are snapshots, and when they were taken, is told by bronze (`_tech_snapshot_seq`).
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dwh_pipeline.sap.operations import UPSERTS, Operation, is_operation
from dwh_pipeline.tables.changes import ABSENCE, order_of_change

Snapshots = tuple[tuple[str, str], ...]


def with_absences(changes: DataFrame, keys: tuple[str, ...], snapshots: Snapshots) -> DataFrame:
    """The changes that can be taken (those without a `reason`), and a deletion for each absence that has an effect.

    `changes` are whole histories of keys, with those that cannot be taken: a row whose value is wrong still says that
    its key was there. `snapshots` are position and delivery of every full snapshot. A key that is absent from a
    snapshot is deleted at its position, if its newest change before that is an upsert: an archived row stays archived,
    and a key that appears after the snapshot was not deleted by it. Adds `_is_absence` (BOOLEAN).
    """
    good = changes.where(F.col("reason").isNull()).drop("reason", "raw_record", "_tech_snapshot_seq")
    good = good.withColumn(ABSENCE, F.lit(False))  # noqa: FBT003
    if not snapshots:
        return good
    whole_key = Window.partitionBy(*keys)
    present = F.collect_set(F.when(F.col("_tech_snapshot_seq").isNotNull(), F.col("_tech_batch_id"))).over(whole_key)
    in_order = whole_key.orderBy("_order")
    taken = F.array(*(F.struct(F.lit(at).alias("at"), F.lit(id_).alias("id")) for at, id_ in sorted(snapshots)))
    placed = (
        changes.withColumn("_present", present)
        .where(F.col("reason").isNull() & ~is_operation(Operation.BEFORE_IMAGE))
        .withColumn("_order", order_of_change())
        .withColumn("_next_seq", F.lead("change_seq").over(in_order))
    )
    following = F.filter(
        taken,
        lambda one: (
            (one["at"] >= F.col("change_seq"))
            & (F.col("_next_seq").isNull() | (one["at"] < F.col("_next_seq")))
            & ~F.array_contains("_present", one["id"])
        ),
    )
    first = F.try_element_at(following, F.lit(1))
    absent = (
        placed.where(is_operation(*UPSERTS))
        .select(*keys, first.alias("_first"))
        .where(F.col("_first").isNotNull())
        .distinct()
    )
    derived = {
        "change_seq": F.col("_first.at"),
        "change_op": F.lit(Operation.DELETE.value),
        "_tech_batch_id": F.col("_first.id"),
        ABSENCE: F.lit(True),  # noqa: FBT003
    }
    return good.unionByName(
        absent.select(*keys, *(column.alias(name) for name, column in derived.items())), allowMissingColumns=True
    )
