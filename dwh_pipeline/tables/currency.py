"""Currency (TCURX): how many decimals SAP stores the amounts of a currency with, deleted ones as tombstones.

A currency that is not listed has two. The orders read TCURX from bronze themselves, by the same `build`, so that no
silver table waits for another.
"""

from pyspark.sql import DataFrame

from dwh_pipeline.contracts.table import LOADED_AT, StoredAs, TableContract
from dwh_pipeline.sap.fields import TCURX
from dwh_pipeline.tables import scd1
from dwh_pipeline.tables.silver import Reference, SilverTable, field_columns

CONTRACT = TableContract(
    schema="silver",
    name="currency",
    description="Decimals of the currencies that do not have two: newest state",
    columns=(*field_columns(TCURX), *scd1.STATE_COLUMNS, LOADED_AT),
    primary_key=tuple(field.canonical for field in TCURX.keys),
    stored_as=StoredAs.SCD1,
    upstream=(TCURX.bronze_name,),
)

_ATTRIBUTES = tuple(field.canonical for field in TCURX.attributes)


def build(history: DataFrame, _reference: Reference | None = None) -> DataFrame:
    """Changes of TCURX (whole history of their keys) to one row per currency."""
    return scd1.fold(history, CONTRACT.primary_key, _ATTRIBUTES).select(*CONTRACT.compared_columns)


TABLE = SilverTable(
    contract=CONTRACT,
    source=TCURX,
    build=build,
    outcomes=lambda history, stored, changed: scd1.outcomes(history, stored, changed, CONTRACT.primary_key),
)
