"""Customer dimension: one row per customer version, and one unknown member for facts whose customer is not there."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import LOADED_AT, StoredAs, TableContract
from dwh_pipeline.contracts.table import Column as ContractColumn
from dwh_pipeline.sap.fields import KNA1
from dwh_pipeline.tables import customer
from dwh_pipeline.tables.scd2 import DAWN
from dwh_pipeline.tables.silver import field_columns

UNKNOWN_KEY = "-1"

_ATTRIBUTES = tuple(field for field in KNA1.attributes if field.tracked)

CONTRACT = TableContract(
    schema="gold",
    name="dim_customer",
    description="Customers as facts see them: one row per version, and the unknown member (customer_key -1)",
    columns=(
        ContractColumn(
            "customer_key", "STRING", "Hash of client, customer and valid_from; -1 is unknown", nullable=False
        ),
        *(ContractColumn(column.name, column.type, column.description) for column in field_columns(KNA1)[:2]),
        *(ContractColumn(field.canonical, field.type, f"{field.name}: {field.description}") for field in _ATTRIBUTES),
        ContractColumn("valid_from", "TIMESTAMP", "Start of the version (UTC, inclusive)", nullable=False),
        ContractColumn("valid_to", "TIMESTAMP", "End of the version (UTC, exclusive); NULL while it is open"),
        ContractColumn("is_current", "BOOLEAN", "Whether the version is open", nullable=False),
        LOADED_AT,
    ),
    primary_key=("customer_key",),
    stored_as=StoredAs.REBUILT,
    upstream=(customer.CONTRACT.qualified_name,),
)


def build(customers: DataFrame) -> DataFrame:
    """Versions of `silver.customer` as dimension rows.

    The personal fields of a customer whose newest version is blocked (CVP_XBLCK, business purpose completed) are hidden
    in every version.
    """
    newest = Window.partitionBy("client_id", "customer_id").orderBy(F.desc("_tech_valid_from"))
    blocked = F.first("is_gdpr_blocked").over(newest.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    marked = customers.withColumn("_blocked", F.coalesce(blocked, F.lit(False)))  # noqa: FBT003
    versions = marked.select(
        customer_key().alias("customer_key"),
        "client_id",
        "customer_id",
        *(
            F.when(~F.col("_blocked"), F.col(field.canonical)).alias(field.canonical)
            if field.personal
            else field.canonical
            for field in _ATTRIBUTES
        ),
        F.col("_tech_valid_from").alias("valid_from"),
        F.col("_tech_valid_to").alias("valid_to"),
        F.col("_tech_is_current").alias("is_current"),
    )
    return versions.unionByName(_unknown_member(customers), allowMissingColumns=True)


def customer_key() -> Column:
    """The key (STRING) of a version of `silver.customer`: the same for the same version, wherever it is computed."""
    parts = ("client_id", "customer_id", "_tech_valid_from")
    return F.md5(F.concat_ws("|", *(F.col(part).cast("string") for part in parts)))


def _unknown_member(customers: DataFrame) -> DataFrame:
    return customers.sparkSession.range(1).select(
        F.lit(UNKNOWN_KEY).alias("customer_key"),
        F.lit(DAWN).cast("timestamp").alias("valid_from"),
        F.lit(True).alias("is_current"),  # noqa: FBT003
    )
