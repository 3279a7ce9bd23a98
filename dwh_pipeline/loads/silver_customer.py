"""The load of silver.customer."""

from pyspark.sql import SparkSession

from dwh_pipeline.contracts.outcomes import LoadReport
from dwh_pipeline.loads import silver
from dwh_pipeline.tables import customer


def run(spark: SparkSession, source: str, target: str, batch_id: str | None = None) -> LoadReport:
    """Load what is pending in `source` into `target`, or replay the delivery `batch_id`; see `silver.run`."""
    return silver.run(spark, source, target, customer.TABLE, batch_id)
