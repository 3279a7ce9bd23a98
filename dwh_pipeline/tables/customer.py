"""Customer (KNA1): every version of every customer. SCD2; a deleted customer has no current version.

Untracked fields (who created the record and when, confirmations) keep the value of the change that opened the version.
"""

from pyspark.sql import DataFrame

from dwh_pipeline.contracts.table import LOADED_AT, StoredAs, TableContract
from dwh_pipeline.sap.fields import KNA1
from dwh_pipeline.tables import scd2
from dwh_pipeline.tables.silver import Reference, SilverTable, field_columns

CONTRACT = TableContract(
    schema="silver",
    name="customer",
    description="Customers with their history: one row per version, dated by when the change happened",
    columns=(*field_columns(KNA1), *scd2.VERSION_COLUMNS, LOADED_AT),
    primary_key=("client_id", "customer_id", "_tech_valid_from"),
    stored_as=StoredAs.SCD2,
    upstream=(KNA1.bronze_name,),
)

_KEYS = tuple(field.canonical for field in KNA1.keys)
_TRACKED = tuple(field.canonical for field in KNA1.attributes if field.tracked)


def build(history: DataFrame, _reference: Reference) -> DataFrame:
    """Changes of KNA1 (whole history of their keys) to the versions of the customers."""
    return scd2.versions(scd2.change_points(history, _KEYS, _TRACKED), _KEYS).select(*CONTRACT.compared_columns)


def outcomes(history: DataFrame, stored: DataFrame, changed: DataFrame) -> DataFrame:
    """Where every pending change ended: `_tech_batch_id`, `_is_absence`, `outcome`."""
    return scd2.outcomes(history, scd2.change_points(history, _KEYS, _TRACKED), stored, changed, _KEYS)


TABLE = SilverTable(contract=CONTRACT, source=KNA1, build=build, outcomes=outcomes)
