"""What a bronze table holds, read as changes: the input of every silver load. Plans and writes belong to `silver`."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.lake import catalog
from dwh_pipeline.sap.fields import SapTable
from dwh_pipeline.sap.values import Amounts, Decimal, ValueFormat
from dwh_pipeline.tables import bronze
from dwh_pipeline.tables.changes import read_changes
from dwh_pipeline.tables.snapshots import Snapshots, with_absences


@dataclass(frozen=True, slots=True)
class Delivered:
    """The rows of a bronze table and what is known of them.

    `held` has the number of rows of every delivery, `snapshots` position and delivery of every full snapshot.
    `table_id` identifies the bronze table; None if it is not there yet and the rows are only about to be appended.
    """

    table: SapTable
    source: str
    rows: DataFrame
    value_format: ValueFormat
    held: Mapping[str, int]
    snapshots: Snapshots
    table_id: str | None

    def not_loaded(self, loaded: Mapping[str, int]) -> tuple[str, ...]:
        """The deliveries that are not loaded with all rows that they have; `loaded` has the rows that were."""
        return tuple(sorted(id_ for id_, rows in self.held.items() if loaded.get(id_) != rows))


def read_delivered(spark: SparkSession, source: str, table: SapTable) -> Delivered:
    """What the bronze table `source` holds of the SAP table.

    Raises:
        TableNotFoundError: bronze is not there yet.
    """
    rows = catalog.read(spark, source)
    return delivered_of(table, source, rows, kept_format(spark, source), catalog.table_id(spark, source))


def delivered_of(
    table: SapTable, source: str, rows: DataFrame, value_format: ValueFormat, table_id: str | None
) -> Delivered:
    """Rows of a bronze table with what one pass over them tells."""
    has_snapshots = "_tech_snapshot_seq" in rows.columns
    position = F.col("_tech_snapshot_seq") if has_snapshots else F.lit(None).cast("string")
    found = rows.groupBy("_tech_batch_id").agg(F.count("*").alias("rows"), F.max(position).alias("position")).collect()
    return Delivered(
        table=table,
        source=source,
        rows=rows,
        value_format=value_format,
        held={row["_tech_batch_id"]: row["rows"] for row in found},
        snapshots=tuple(sorted((row["position"], row["_tech_batch_id"]) for row in found if row["position"])),
        table_id=table_id,
    )


def kept_format(spark: SparkSession, source: str) -> ValueFormat:
    """How the values of a bronze table are read, from its table properties."""
    kept = catalog.properties(spark, source, bronze.FEED_PROPERTIES)
    defaults = ValueFormat()
    return ValueFormat(
        date_format=kept.get(f"{bronze.FEED_PROPERTIES}date_format", defaults.date_format),
        decimal=Decimal(kept.get(f"{bronze.FEED_PROPERTIES}decimal", defaults.decimal)),
        amounts=Amounts(kept.get(f"{bronze.FEED_PROPERTIES}amounts", defaults.amounts)),
    )


def changes_of(delivered: Delivered, rows: DataFrame | None = None) -> DataFrame:
    """Rows of the bronze table (default: all) as changes, with `reason` and, where there is one, `raw_record`."""
    rows = delivered.rows if rows is None else rows
    data = [name for name in rows.columns if name not in bronze.TECHNICAL_NAMES]
    as_json = F.to_json(F.struct(*(f"`{name}`" for name in data)))
    raw_record = F.coalesce("_corrupt_record", as_json) if "_corrupt_record" in rows.columns else as_json
    typed = rows.select(
        *map(F.expr, bronze.typed_columns(delivered.table, rows.columns)), raw_record.alias("raw_record")
    )
    changes = read_changes(typed.drop("_tech_source_columns"), delivered.table, delivered.value_format)
    return changes.withColumn("raw_record", F.when(F.col("reason").isNotNull(), F.col("raw_record")))


def history_of(delivered: Delivered, changes: DataFrame) -> DataFrame:
    """Changes that make up whole keys, without those that cannot be taken, with the absences from full snapshots."""
    keys = tuple(field.canonical for field in delivered.table.keys)
    return with_absences(changes, keys, delivered.snapshots)
