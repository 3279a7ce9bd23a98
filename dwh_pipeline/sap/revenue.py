"""What counts as revenue: document categories and the sign of a line. The one place that knows.

After SAP's sales document categories (VBTYP). ECC has one character, S/4HANA up to four; the codes below are the same
in both.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

# VBTYP -> sign. Free-of-charge orders count with what they cost, which is nothing.
REVENUE_SIGN: dict[str, int] = {"C": 1, "I": 1, "L": 1, "H": -1, "K": -1}
NO_REVENUE: dict[str, str] = {"A": "inquiry", "B": "quotation", "E": "scheduling agreement", "G": "contract"}


def revenue_amount(net_value: Column, *, category: Column, is_return: Column, is_rejected: Column) -> Column:
    """The signed revenue of a line; 0 for rejected lines and for categories that are no revenue or not known.

    A return is negative once, whether its category, its item or both say so.
    """
    counts = category.isin(list(REVENUE_SIGN)) & ~is_rejected
    signed = F.when(is_negative(category, is_return), -net_value).otherwise(net_value)
    return F.when(counts, signed).otherwise(0)


def is_negative(category: Column, is_return: Column) -> Column:
    """Whether a line takes revenue back (BOOLEAN)."""
    returns = [code for code, sign in REVENUE_SIGN.items() if sign < 0]
    return F.coalesce(category.isin(returns), F.lit(False)) | is_return  # noqa: FBT003


def is_known_category(category: Column) -> Column:
    """Whether the category is one of those above (BOOLEAN); a line without one is not known."""
    return F.coalesce(category.isin([*REVENUE_SIGN, *NO_REVENUE]), F.lit(False))  # noqa: FBT003
