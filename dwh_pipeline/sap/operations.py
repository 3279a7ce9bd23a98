"""The operations a change can be, whatever its replication tool calls them.

Bronze keeps the letter of this enum in `change_op`; which delivered code means which operation is the business of the
source profile.
"""

from enum import StrEnum

from pyspark.sql import Column
from pyspark.sql import functions as F


class Operation(StrEnum):
    """One change of one row."""

    INITIAL = "I"
    UPSERT = "U"
    DELETE = "D"
    ARCHIVE = "M"
    BEFORE_IMAGE = "B"


UPSERTS: tuple[Operation, ...] = (Operation.INITIAL, Operation.UPSERT)


def is_operation(*operations: Operation) -> Column:
    """True where `change_op` is one of the operations."""
    return F.col("change_op").isin([operation.value for operation in operations])


def operation_rank() -> Column:
    """Order of two changes of one key with the same `change_seq`: upsert, archive, delete (INT)."""
    return F.when(is_operation(Operation.DELETE), 2).when(is_operation(Operation.ARCHIVE), 1).otherwise(0)
