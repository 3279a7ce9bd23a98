"""The whole warehouse, table by table: what `dwh run` does and what the assets do one at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from dwh_pipeline.contracts.outcomes import LoadReport
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.lake import catalog
from dwh_pipeline.lake.landing import read_feeds
from dwh_pipeline.loads import bronze_load, gold_load, silver_customer, silver_sales_order, silver_sales_order_line
from dwh_pipeline.sap.fields import SAP_TABLES, SapTable
from dwh_pipeline.tables import bronze, customer, registry, sales_order, sales_order_line
from dwh_pipeline.tables.silver import SilverTable


@dataclass(frozen=True, slots=True)
class Place:
    """Where a warehouse is: session, landing root, checkpoint root, catalog."""

    spark: SparkSession
    landing: Path
    checkpoints: Path
    catalog: str = catalog.DEFAULT_CATALOG

    def name(self, contract: TableContract) -> str:
        """The full name of a table here."""
        return f"{self.catalog}.{contract.qualified_name}"


@dataclass(frozen=True, slots=True)
class Step:
    """The load of one table."""

    contract: TableContract
    run: Callable[[Place], LoadReport]


def _bronze_step(table: SapTable) -> Step:
    def run(place: Place) -> LoadReport:
        feed = next((feed for feed in read_feeds(place.landing) if feed.sap_table is table), None)
        target = place.name(bronze.contract_of(table))
        return bronze_load.run(
            place.spark, table, feed, landing=place.landing, checkpoints=place.checkpoints, target=target
        )

    return Step(bronze.contract_of(table), run)


def _silver_step(table: SilverTable, load: Callable[[SparkSession, str, str], LoadReport]) -> Step:
    return Step(
        table.contract,
        lambda place: load(place.spark, place.name(bronze.contract_of(table.source)), place.name(table.contract)),
    )


def _gold_step(contract: TableContract) -> Step:
    return Step(contract, lambda place: gold_load.run_table(place.spark, place.catalog, contract))


INGEST: tuple[Step, ...] = tuple(map(_bronze_step, SAP_TABLES.values()))
SILVER: tuple[Step, ...] = (
    _silver_step(customer.TABLE, silver_customer.run),
    _silver_step(sales_order.TABLE, silver_sales_order.run),
    _silver_step(sales_order_line.TABLE, silver_sales_order_line.run),
)
GOLD: tuple[Step, ...] = tuple(map(_gold_step, registry.GOLD))


def run(place: Place) -> Iterator[LoadReport]:
    """Load every table, one after the other, and tell of each when it is done.

    Raises:
        WarehouseError: what stopped a table. Tables before it are loaded, and running again goes on from there.
    """
    for step in (*INGEST, *SILVER):
        yield step.run(place)
    yield from gold_load.run(place.spark, place.catalog)
