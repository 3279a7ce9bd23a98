"""Amounts in the decimals of their currency, and the rows whose decimals are others now. No table of its own.

The shift itself is `sap.currency.in_own_decimals`, the decimals are those of `currency`.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import Column as ContractColumn
from dwh_pipeline.sap.currency import DEFAULT_DECIMALS, in_own_decimals
from dwh_pipeline.sap.fields import Kind, SapTable
from dwh_pipeline.sap.values import Amounts
from dwh_pipeline.tables import currency

APPLIED_DECIMALS = ContractColumn(
    "currency_decimals", "INT", "CURRDEC that the amounts were shifted by; NULL if the feed delivers external amounts"
)
DECIMALS_COLUMNS = (
    ContractColumn("currency", "STRING", "Currency key"),
    ContractColumn("tcurx_decimals", "INT", "CURRDEC of the currency"),
)


def decimals_by_currency(changes: DataFrame) -> DataFrame:
    """`currency` (STRING) and `tcurx_decimals` (INT) of every currency that TCURX lists, from its changes."""
    listed = currency.build(changes).where(~F.col("is_deleted"))
    return listed.select("currency", F.col("currency_decimals").alias("tcurx_decimals"))


def applied_decimals(amounts: Amounts) -> Column:
    """The decimals to shift by: those of TCURX, 2 for any other currency, NULL where amounts are external already."""
    if amounts is Amounts.EXTERNAL:
        return F.lit(None).cast("int")
    return F.coalesce(F.col("tcurx_decimals"), F.lit(DEFAULT_DECIMALS))


def shifted(rows: DataFrame, table: SapTable, decimals: DataFrame, amounts: Amounts) -> DataFrame:
    """Rows with every amount of the SAP table in the decimals of `currency`, and `currency_decimals` beside them."""
    money = {field.canonical: field.type for field in table.fields if field.kind is Kind.AMOUNT}
    joined = rows.join(decimals, "currency", "left").withColumn(APPLIED_DECIMALS.name, applied_decimals(amounts))
    shift = {
        name: in_own_decimals(F.col(name), F.col(APPLIED_DECIMALS.name), type_=type_) for name, type_ in money.items()
    }
    return joined.withColumns(shift).drop("tcurx_decimals")


def stale_keys(stored: DataFrame, keys: tuple[str, ...], decimals: DataFrame, amounts: Amounts) -> DataFrame:
    """Keys of stored rows whose amounts were shifted by other decimals than they would be now."""
    joined = stored.select(*keys, "currency", APPLIED_DECIMALS.name).join(decimals, "currency", "left")
    return joined.where(~F.col(APPLIED_DECIMALS.name).eqNullSafe(applied_decimals(amounts))).select(*keys)
