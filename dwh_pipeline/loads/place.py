"""Where a warehouse is, as one value that every load of it is given."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.lake import catalog
from dwh_pipeline.lake.landing import read_feeds
from dwh_pipeline.lake.lease import lease_file
from dwh_pipeline.sap.feeds import Feed
from dwh_pipeline.sap.fields import SapTable


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

    def feed_of(self, table: SapTable) -> Feed | None:
        """The feed that delivers the SAP table; None if there is none."""
        return next((feed for feed in read_feeds(self.landing) if feed.sap_table is table), None)

    def checkpoint_of(self, table: SapTable) -> Path:
        """The checkpoint of the stream into the bronze table. It depends on nothing but the table."""
        return self.checkpoints / table.name.lower()

    def lease_of(self, contract: TableContract) -> Path:
        """The lease of a table: held by whoever loads or maintains it."""
        return lease_file(self.checkpoints, contract.qualified_name)
