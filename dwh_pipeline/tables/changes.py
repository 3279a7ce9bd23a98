"""Changes: rows of a typed view with their values read, the reason where one cannot be, and what each change is.

Shared by the silver tables. Turning changes into rows of a table belongs to `scd1` and `scd2`.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import Outcome
from dwh_pipeline.sap.fields import SapTable
from dwh_pipeline.sap.operations import UPSERTS, Operation, is_operation, operation_rank
from dwh_pipeline.sap.values import ValueFormat, reason, text, value

_MALFORMED = "malformed record: it does not split into the columns of its file"
_EXACT_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"  # JSON would stop at milliseconds
LOCATION = ("_tech_batch_id", "_tech_source_file", "_tech_row_number")
ABSENCE = "_is_absence"


def read_changes(typed: DataFrame, table: SapTable, value_format: ValueFormat) -> DataFrame:
    """Rows of a typed view (STRING columns under canonical names) as changes.

    Adds `_tech_row_hash` (STRING, SHA-256 of the values, NULL for deletions, whose other fields mean nothing) and
    `reason` (STRING): why the row cannot be taken, NULL if it can. A field that the view lacks is read as blank;
    further columns are passed through.
    """
    present = set(typed.columns)
    fields = table.fields
    delivered = {
        f.canonical: F.col(f.canonical) if f.canonical in present else F.lit(None).cast("string") for f in fields
    }
    technical = [name for name in typed.columns if name not in delivered]
    # Texts, values and reasons are separate steps over columns of their own (not over one struct, whose fields Spark
    # would write out again wherever they are used): so no expression is planned, or computed, twice.
    texts = [text(field, delivered[field.canonical]).alias(f"_text_{field.canonical}") for field in fields]
    raw = {field.canonical: F.col(f"_text_{field.canonical}") for field in fields}
    values = [value(field, raw[field.canonical], value_format).alias(field.canonical) for field in fields]
    read = typed.select(*texts, *technical).select(*values, *raw.values(), *technical)

    complaints = {f.canonical: reason(f, raw[f.canonical], F.col(f.canonical), value_format) for f in fields}
    has_values = is_operation(*UPSERTS)
    attributes = [field.canonical for field in table.attributes]
    key_problems = [
        problem
        for key in table.keys
        for problem in (
            complaints[key.canonical],
            F.when(F.col(key.canonical).isNull(), F.lit(f"null_key: {key.name} is missing")),
        )
    ]
    problems = [
        *([F.when(F.col("_corrupt_record").isNotNull(), F.lit(_MALFORMED))] if "_corrupt_record" in present else []),
        *key_problems,
        F.when(F.col("change_seq").isNull(), F.lit("change_seq: the delivered values give no order")),
        F.when(~_known_operation(), F.concat(F.lit("change_op is unknown: "), F.coalesce("change_op", F.lit("NULL")))),
        F.when(has_values, F.coalesce(F.lit(None), *(c for name in attributes if (c := complaints[name]) is not None))),
    ]
    content = F.sha2(F.to_json(F.struct(*attributes), {"timestampFormat": _EXACT_TIMESTAMP}), 256)
    return read.select(
        *(field.canonical for field in fields),
        *(name for name in technical if name != "_tech_row_hash"),
        F.when(has_values, content).alias("_tech_row_hash"),
        F.coalesce(*(problem for problem in problems if problem is not None)).alias("reason"),
    )


def order_of_change() -> Column:
    """The total order of the changes of one key: change_seq, operation, content. Nothing of it depends on arrival."""
    return F.struct(
        F.col("change_seq"), operation_rank().alias("rank"), F.coalesce("_tech_row_hash", F.lit("")).alias("hash")
    )


def effective(changes: DataFrame) -> DataFrame:
    """Changes that have an effect: before-images only repeat what was."""
    return changes.where(~is_operation(Operation.BEFORE_IMAGE))


def mark(history: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Changes of whole keys with `_pending` and `_is_absence` (BOOLEAN), and what each pending change is to the others.

    Adds `early_outcome` (STRING): collapsed or conflicting where that needs no look at the stored table, else NULL;
    `is_newest` (BOOLEAN): newest pending change of its key; `conflicts_before`, `known_before` (BOOLEAN): another
    delivery, loaded earlier, has the same change with other or with the same content. Only pending rows are returned.
    """
    # Everything below happens inside one key: moving the rows once is enough for all windows.
    narrow = history.select(*keys, "change_seq", "change_op", *LOCATION, "_tech_row_hash", "_pending", ABSENCE)
    narrow = narrow.repartition(*keys)
    is_before_image = is_operation(Operation.BEFORE_IMAGE)
    order = order_of_change()
    ranked = narrow.withColumns(
        {"_order": order, "rank": F.when(is_before_image, -1).otherwise(order["rank"]), "_hash": order["hash"]}
    )
    same_change = Window.partitionBy(*keys, "change_seq", "rank")
    same_content = Window.partitionBy(*keys, "change_seq", "rank", "_hash", "_pending").orderBy(*LOCATION[1:])
    same_seq = Window.partitionBy(*keys, "change_seq", "_pending")
    newest_first = Window.partitionBy(*keys, "_pending").orderBy(is_before_image, F.desc("_order"), *LOCATION[1:])
    marked = ranked.withColumns(
        {
            "_repeat": F.row_number().over(same_content),
            "_largest": F.max(F.when(F.col("_pending"), F.col("_hash"))).over(same_change),
            "_before": F.collect_set(F.when(~F.col("_pending"), F.col("_hash"))).over(same_change),
            "_top_rank": F.max("rank").over(same_seq),
            "is_newest": F.row_number().over(newest_first) == 1,
        }
    )
    early = (
        F.when((F.col("rank") < 0) | (F.col("_repeat") > 1), Outcome.COLLAPSED.value)
        .when(F.col("_hash") < F.col("_largest"), Outcome.CONFLICTING.value)
        .when(F.col("rank") < F.col("_top_rank"), Outcome.COLLAPSED.value)
    )
    known = F.array_contains("_before", F.col("_hash"))
    return marked.where("_pending").select(
        *keys,
        "change_seq",
        "change_op",
        "_tech_batch_id",
        "_tech_row_hash",
        ABSENCE,
        "rank",
        "is_newest",
        early.alias("early_outcome"),
        (F.size("_before") > known.cast("int")).alias("conflicts_before"),
        known.alias("known_before"),
    )


def _known_operation() -> Column:
    return F.coalesce(is_operation(*Operation), F.lit(False))  # noqa: FBT003
