"""Sales order (VBAK): the newest state of every sales document header, deleted ones as tombstones."""

from pyspark.sql import DataFrame

from dwh_pipeline.contracts.table import LOADED_AT, StoredAs, TableContract
from dwh_pipeline.sap.fields import TCURX, VBAK
from dwh_pipeline.tables import scd1
from dwh_pipeline.tables.amounts import APPLIED_DECIMALS, shifted, stale_keys
from dwh_pipeline.tables.silver import Reference, SilverTable, field_columns

CONTRACT = TableContract(
    schema="silver",
    name="sales_order",
    description="Sales document headers: newest state, amounts in the decimals of their currency",
    columns=(*field_columns(VBAK), APPLIED_DECIMALS, *scd1.STATE_COLUMNS, LOADED_AT),
    primary_key=("client_id", "order_id"),
    stored_as=StoredAs.SCD1,
    upstream=(VBAK.bronze_name, TCURX.bronze_name),
)

_ATTRIBUTES = tuple(field.canonical for field in VBAK.attributes)


def build(history: DataFrame, reference: Reference) -> DataFrame:
    """Changes of VBAK (whole history of their keys) to one row per order."""
    newest = scd1.fold(history, CONTRACT.primary_key, _ATTRIBUTES)
    return shifted(newest, VBAK, reference.decimals, reference.amounts).select(*CONTRACT.compared_columns)


TABLE = SilverTable(
    contract=CONTRACT,
    source=VBAK,
    build=build,
    outcomes=lambda history, stored, changed: scd1.outcomes(history, stored, changed, CONTRACT.primary_key),
    stale_keys=lambda stored, reference: stale_keys(
        stored, CONTRACT.primary_key, reference.decimals, reference.amounts
    ),
)
