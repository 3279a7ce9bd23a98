"""The ledger as the memory of the loads: what was loaded, hence what is pending. The fourth write primitive.

Kept in the lake, so that losing Dagster's history changes nothing.
"""

from datetime import datetime

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import DeliveryCounts, Outcome
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.lake import catalog
from dwh_pipeline.lake.writes import append


def loaded_rows(
    spark: SparkSession, ledger: str, table: str, *, source_id: str | None, table_id: str | None
) -> dict[str, int]:
    """Per delivery, how many rows the newest load of it from this bronze table into this table had read.

    The ids are Delta's: what was loaded from or into a table that has been made anew since does not count.
    """
    if source_id is None or table_id is None or not catalog.exists(spark, ledger):
        return {}
    rows = spark.table(ledger)
    if not {"source_id", "table_id"} <= set(rows.columns):  # written before these columns were there
        return {}
    loads = rows.where(
        (F.col("table_name") == table)
        & (F.col("source_id") == source_id)
        & (F.col("table_id") == table_id)
        & F.col("_tech_batch_id").isNotNull()
    )
    newest = loads.groupBy("_tech_batch_id").agg(F.max_by("rows_read", "finished_at").alias("rows_read"))
    return {row["_tech_batch_id"]: row["rows_read"] for row in newest.collect()}


def newest_load(spark: SparkSession, ledger: str, table: str) -> tuple[str, ...]:
    """The deliveries of the newest load of a table; none if there was none."""
    if not catalog.exists(spark, ledger):
        return ()
    of_table = spark.table(ledger).where((F.col("table_name") == table) & F.col("_tech_batch_id").isNotNull())
    newest = of_table.groupBy("load_id").agg(
        F.max("finished_at").alias("finished_at"), F.collect_set("_tech_batch_id").alias("deliveries")
    )
    found = newest.agg(F.max_by("deliveries", "finished_at")).collect()[0][0]
    return tuple(sorted(found or ()))


def record(
    spark: SparkSession,
    ledger: str,
    contract: TableContract,
    load_id: str,
    deliveries: tuple[DeliveryCounts, ...],
    *,
    source_id: str | None,
    table_id: str,
    started_at: datetime,
    finished_at: datetime,
) -> None:
    """Append one row per delivery. A load that read nothing leaves no trace."""
    if not deliveries:
        return
    rows = [
        {
            "load_id": load_id,
            "table_name": delivery.table,
            "_tech_batch_id": delivery.batch_id,
            "is_replay": delivery.is_replay,
            "rows_read": delivery.rows_read,
            **{outcome.value: delivery.outcomes.get(outcome, 0) for outcome in Outcome},
            "absent": delivery.absent,
            "source_id": source_id,
            "table_id": table_id,
            "started_at": started_at,
            "finished_at": finished_at,
        }
        for delivery in deliveries
    ]
    types = {"STRING": pa.string(), "BOOLEAN": pa.bool_(), "BIGINT": pa.int64(), "TIMESTAMP": pa.timestamp("us", "UTC")}
    schema = pa.schema([(column.name, types[column.type]) for column in contract.columns])
    append(spark, ledger, contract, spark.createDataFrame(pa.Table.from_pylist(rows, schema)))
