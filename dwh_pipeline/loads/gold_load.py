"""The load of gold: three pure builds, each written only where it differs.

The builds are module-level functions that are looked up when they are called, one per table. Before anything is
built, the guard of silver is checked again: a blocking check of Dagster stops only its own run.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from dwh_pipeline.contracts.outcomes import LoadReport
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.lake import catalog, writes
from dwh_pipeline.loads.checks import require_healthy
from dwh_pipeline.tables import (
    agg_revenue_month,
    customer,
    dim_customer,
    fct_order_line,
    registry,
    sales_order,
    sales_order_line,
)

Read = Callable[[TableContract], DataFrame]


def build_dim_customer(read: Read) -> DataFrame:
    """Rows of `gold.dim_customer`; `read` gives the rows of a table by its contract."""
    return dim_customer.build(read(customer.CONTRACT))


def build_fct_order_line(read: Read) -> DataFrame:
    """Rows of `gold.fct_order_line`; `read` gives the rows of a table by its contract."""
    return fct_order_line.build(
        read(sales_order_line.CONTRACT), read(sales_order.CONTRACT), read(dim_customer.CONTRACT)
    )


def build_agg_revenue_month(read: Read) -> DataFrame:
    """Rows of `gold.agg_revenue_month`; `read` gives the rows of a table by its contract."""
    return agg_revenue_month.build(read(fct_order_line.CONTRACT))


def run(spark: SparkSession, catalog_name: str = catalog.DEFAULT_CATALOG) -> tuple[LoadReport, ...]:
    """Build the three gold tables in the order in which they depend on each other.

    Raises:
        TableNotFoundError: a silver table is not there yet.
        ExpectationFailedError: a silver table breaks an expectation; gold was left as it is.
    """
    built = {contract.qualified_name for contract in registry.GOLD}
    require_healthy(spark, catalog_name, {name for contract in registry.GOLD for name in contract.upstream} - built)
    return tuple(_write(spark, catalog_name, contract) for contract in registry.GOLD)


def run_table(spark: SparkSession, catalog_name: str, contract: TableContract) -> LoadReport:
    """Build one gold table from what is stored. Raises as `run` does, for the tables that it reads."""
    require_healthy(spark, catalog_name, set(contract.upstream))
    return _write(spark, catalog_name, contract)


def preview(
    spark: SparkSession, catalog_name: str, contract: TableContract, rows: Mapping[str, DataFrame]
) -> tuple[DataFrame, LoadReport]:
    """What one gold table would hold, and what its load would report. Nothing is written and no check is asked.

    `rows` is what the tables that it reads would hold, by `schema.name`.
    """
    started_at = datetime.now(UTC)
    table = f"{catalog_name}.{contract.qualified_name}"
    wanted = _build(contract, lambda other: rows[other.qualified_name])
    would = writes.plan_change(spark, table, contract, wanted).would_write
    report = LoadReport(
        table=contract.qualified_name,
        rows=wanted.count(),
        written=would,
        deliveries=(),
        started_at=started_at,
        seconds=(datetime.now(UTC) - started_at).total_seconds(),
    )
    return wanted, report


def rows_of(spark: SparkSession, catalog_name: str, contract: TableContract) -> DataFrame:
    """The rows that a gold table has once it is built from what is stored. Nothing is computed."""
    return _build(contract, lambda other: catalog.read(spark, f"{catalog_name}.{other.qualified_name}"))


def _write(spark: SparkSession, catalog_name: str, contract: TableContract) -> LoadReport:
    started_at = datetime.now(UTC)
    table = f"{catalog_name}.{contract.qualified_name}"
    written = writes.replace_where_different(spark, table, contract, rows_of(spark, catalog_name, contract))
    return LoadReport(
        table=contract.qualified_name,
        rows=catalog.read(spark, table).count(),
        written=written,
        deliveries=(),
        started_at=started_at,
        seconds=(datetime.now(UTC) - started_at).total_seconds(),
    )


def _build(contract: TableContract, read: Read) -> DataFrame:
    """The build of a table, looked up in this module when it is called, so that a test can put another in its place."""
    match contract.name:
        case "dim_customer":
            return build_dim_customer(read)
        case "fct_order_line":
            return build_fct_order_line(read)
        case "agg_revenue_month":
            return build_agg_revenue_month(read)
        case other:
            raise ValueError(f"gold has no build for {other}")
