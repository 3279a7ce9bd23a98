"""What a silver load needs to know of its table, as one value. The load itself is `loads.silver`."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from dwh_pipeline.contracts.table import Column, TableContract
from dwh_pipeline.sap.fields import SapTable
from dwh_pipeline.sap.values import Amounts


@dataclass(frozen=True, slots=True)
class Reference:
    """What a silver table depends on beside its own changes: decimals per currency, and how its feed writes amounts."""

    decimals: DataFrame
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class SilverTable:
    """A silver table.

    `build` makes its rows from the whole history of some keys. `outcomes(history, stored, changed)` tells where every
    pending change ended (`_tech_batch_id`, `_is_absence`, `outcome`). `stale_keys(stored, reference)` finds stored rows
    that would be derived differently now; None for a table that depends on nothing but its own changes.
    """

    contract: TableContract
    source: SapTable
    build: Callable[[DataFrame, Reference], DataFrame]
    outcomes: Callable[[DataFrame, DataFrame, DataFrame], DataFrame]
    stale_keys: Callable[[DataFrame, Reference], DataFrame] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The business key: what identifies a row at the source."""
        return tuple(field.canonical for field in self.source.keys)


def field_columns(table: SapTable) -> tuple[Column, ...]:
    """The fields of a SAP table as columns under their canonical names."""
    return tuple(
        Column(field.canonical, field.type, f"{field.name}: {field.description}", nullable=not field.key)
        for field in table.fields
    )
