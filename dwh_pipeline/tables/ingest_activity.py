"""Ingest activity: how many changes each feed has per five minutes, by when they happened. No reads or writes here."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import Column, StoredAs, TableContract
from dwh_pipeline.sap.profiles import change_time
from dwh_pipeline.tables import bronze

WINDOW = "5 minutes"

CONTRACT = TableContract(
    schema="ops",
    name="ingest_activity",
    description="Changes per feed and five minutes of when they happened; those without a time are left out",
    columns=(
        Column("source_table", "STRING", "The bronze table, schema.name", nullable=False),
        Column("window_start", "TIMESTAMP", "Start of the five minutes (UTC)", nullable=False),
        Column("window_end", "TIMESTAMP", "Their end, which is not part of them", nullable=False),
        Column("row_count", "BIGINT", "Rows of bronze whose change happened then", nullable=False),
    ),
    primary_key=("source_table", "window_start"),
    stored_as=StoredAs.REBUILT,
    upstream=tuple(contract.qualified_name for contract in bronze.CONTRACTS.values()),
)


def build(changes: DataFrame, source_table: str) -> DataFrame:
    """Windows of the rows of one bronze table, `source_table`. The rows may be those of a stream."""
    return (
        changes.select(change_time(F.col("change_seq")).alias("time"))
        .where(F.col("time").isNotNull())
        .groupBy(F.window("time", WINDOW))
        .count()
        .select(
            F.lit(source_table).alias("source_table"),
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            F.col("count").alias("row_count"),
        )
    )
