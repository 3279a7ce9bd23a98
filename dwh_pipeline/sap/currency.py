"""Amounts in the decimals of their own currency (table TCURX).

SAP stores every amount with two decimals and leaves the rest to TCURX: 300.00 JPY stored is 30,000 JPY. The shift
happens here and nowhere else, `actual = stored * 10^(2 - CURRDEC)`.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

DEFAULT_DECIMALS = 2
MOST_DECIMALS = 5  # no currency in TCURX has more


def in_own_decimals(amount: Column, decimals: Column, *, type_: str) -> Column:
    """The stored amount in the decimals of its currency, as `type_` (DECIMAL).

    `decimals` (INT) is CURRDEC of the currency; where it is NULL the amount is external already and stays as it is.
    """
    factors = F.array(*(F.lit(f"1E{2 - n}").cast("DECIMAL(10,5)") for n in range(MOST_DECIMALS + 1)))
    factor = F.element_at(factors, decimals + 1)
    return F.when(decimals.isNull(), amount).otherwise(amount * factor).cast(type_)
