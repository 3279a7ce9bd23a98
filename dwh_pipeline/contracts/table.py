"""What a table promises: its columns, its key, how it is stored and what it is built from.

Plain Python, readable without Spark. How rows are made belongs to `tables`, how they are written to `lake`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class StoredAs(StrEnum):
    """How a table takes new rows. The names are those of Spark's declarative pipelines and of Kimball."""

    APPEND = "append"
    SCD1 = "scd type 1"
    SCD2 = "scd type 2"
    REBUILT = "replaced where different"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `type` is Spark SQL DDL, for example `DECIMAL(20,5)`."""

    name: str
    type: str
    description: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class TableContract:
    """One table of the warehouse.

    `primary_key` names the columns that identify a row; those of them that are declared not nullable are never NULL.
    `upstream` names the tables (`schema.name`) it is built from.

    Raises:
        ValueError: the primary key names a column that is not declared, or a column is declared twice.
    """

    schema: str
    name: str
    description: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    stored_as: StoredAs
    upstream: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = self.column_names
        unknown = [key for key in self.primary_key if key not in names]
        if unknown:
            raise ValueError(f"{self.qualified_name}: primary key columns {unknown} are not declared")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{self.qualified_name}: columns {twice} are declared twice")

    @property
    def qualified_name(self) -> str:
        """`schema.name`, without a catalog."""
        return f"{self.schema}.{self.name}"

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns in the order in which the table has them."""
        return tuple(column.name for column in self.columns)

    @property
    def compared_columns(self) -> tuple[str, ...]:
        """The columns that two runs must agree on: all but the time of loading."""
        return tuple(name for name in self.column_names if name != LOADED_AT.name)

    @property
    def required_columns(self) -> tuple[str, ...]:
        """The columns that are never NULL."""
        return tuple(column.name for column in self.columns if not column.nullable)

    def column(self, name: str) -> Column:
        """The declared column of that name; KeyError if there is none."""
        return self._by_name()[name]

    def _by_name(self) -> Mapping[str, Column]:
        return {column.name: column for column in self.columns}


LOADED_AT = Column(
    "_tech_loaded_at", "TIMESTAMP", "When this row was last written; the only column that two runs may differ in"
)
CHANGE_SEQ = Column(
    "change_seq",
    "STRING",
    "Position of the change in its feed: text of one width per source profile, so that text order is change order",
    nullable=False,
)
ROW_HASH = Column("_tech_row_hash", "STRING", "SHA-256 of the delivered business values, before any currency shift")
