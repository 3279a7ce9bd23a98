"""Sales order line (VBAP): the newest state of every order line, deleted ones as tombstones.

`unit_price` is per one unit: SAP keeps the price per KPEIN units. It need not give the net value when multiplied.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import LOADED_AT, Column, StoredAs, TableContract
from dwh_pipeline.sap.fields import TCURX, VBAP
from dwh_pipeline.tables import scd1
from dwh_pipeline.tables.amounts import APPLIED_DECIMALS, shifted, stale_keys
from dwh_pipeline.tables.silver import Reference, SilverTable, field_columns

UNIT_PRICE = Column(
    "unit_price", "DECIMAL(20,9)", "NETPR / KPEIN: net price of one unit, in the currency's own decimals"
)

CONTRACT = TableContract(
    schema="silver",
    name="sales_order_line",
    description="Sales document items: newest state, amounts in the decimals of their currency",
    columns=(*field_columns(VBAP), UNIT_PRICE, APPLIED_DECIMALS, *scd1.STATE_COLUMNS, LOADED_AT),
    primary_key=("client_id", "order_id", "line_number"),
    stored_as=StoredAs.SCD1,
    upstream=(VBAP.bronze_name, TCURX.bronze_name),
)

_ATTRIBUTES = tuple(field.canonical for field in VBAP.attributes)


def build(history: DataFrame, reference: Reference) -> DataFrame:
    """Changes of VBAP (whole history of their keys) to one row per order line."""
    newest = scd1.fold(history, CONTRACT.primary_key, _ATTRIBUTES)
    priced = shifted(newest, VBAP, reference.decimals, reference.amounts)
    unit_price = (F.col("net_price") / F.col("price_unit_quantity")).cast(UNIT_PRICE.type)
    return priced.withColumn(UNIT_PRICE.name, unit_price).select(*CONTRACT.compared_columns)


TABLE = SilverTable(
    contract=CONTRACT,
    source=VBAP,
    build=build,
    outcomes=lambda history, stored, changed: scd1.outcomes(history, stored, changed, CONTRACT.primary_key),
    stale_keys=lambda stored, reference: stale_keys(
        stored, CONTRACT.primary_key, reference.decimals, reference.amounts
    ),
)
