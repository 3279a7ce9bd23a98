"""Bronze: every delivered row as it came, with where it came from and what change it is. Append-only.

One contract per SAP table; delivered columns follow the technical ones and are added as they appear. Reading values
belongs to silver.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import LOADED_AT, ROW_HASH, Column, StoredAs, TableContract
from dwh_pipeline.sap.feeds import Feed
from dwh_pipeline.sap.fields import SAP_TABLES, SapTable
from dwh_pipeline.sap.profiles import operation

# Technical columns come first: Delta keeps statistics for the first 32 columns, and SAP tables have hundreds.
TECHNICAL = (
    Column("change_seq", "STRING", "Position of the change in its feed; NULL if the delivered values give none"),
    Column("change_op", "STRING", "I initial, U upsert, D delete, M archive, B before-image"),
    Column("_tech_batch_id", "STRING", "The delivery: folder path below the feed"),
    Column("_tech_source_file", "STRING", "The file, relative to the landing root"),
    Column("_tech_row_number", "BIGINT", "Position in the file; 1 is the first row"),
    ROW_HASH,
    LOADED_AT,
    Column("_corrupt_record", "STRING", "The raw record where it could not be split into columns"),
    Column("_tech_snapshot_seq", "STRING", "Position of the full snapshot that the row is part of; NULL in a delta"),
    Column("_tech_source_columns", "STRING", "The columns that the file has, as bronze names them"),
    Column("_tech_source_size", "BIGINT", "Bytes of the file when it was read"),
)
TECHNICAL_NAMES = tuple(column.name for column in TECHNICAL)

# Where the interpretation of a feed is kept, so that silver needs nothing but bronze (table properties).
FEED_PROPERTIES = "dwh.feed."


def _contract(table: SapTable) -> TableContract:
    schema, name = table.bronze_name.split(".")
    return TableContract(
        schema=schema,
        name=name,
        description=f"Changes of {table.name} as delivered: SAP field names, every column a string",
        columns=TECHNICAL,
        primary_key=("_tech_source_file", "_tech_row_number"),
        stored_as=StoredAs.APPEND,
    )


CONTRACTS: dict[str, TableContract] = {name: _contract(table) for name, table in SAP_TABLES.items()}


def contract_of(table: SapTable) -> TableContract:
    """The contract of `bronze.sap_<table>`."""
    return CONTRACTS[table.name]


def build(delivered: DataFrame, feed: Feed) -> DataFrame:
    """Delivered rows (`lake.landing.read_files`) with the technical columns.

    An operation code that the profile does not know gives `change_op` NULL; the load stops on it.
    """
    profile = feed.source_profile
    data = [name for name in delivered.columns if name not in TECHNICAL_NAMES]
    # NULL fields drop out of the JSON, so a column that other files do not have leaves the hash as it is.
    content = F.to_json(F.struct(*(F.col(f"`{name}`") for name in sorted(data))))
    technical = {
        "change_seq": profile.change_seq(feed.order),
        "change_op": operation(profile),
        "_tech_row_hash": F.sha2(F.concat_ws("|", content, "_corrupt_record"), 256),
        "_tech_loaded_at": F.current_timestamp(),
        "_tech_snapshot_seq": F.lit(None).cast("string"),
    }
    return delivered.select(
        *((technical[name] if name in technical else F.col(name)).alias(name) for name in TECHNICAL_NAMES),
        *(f"`{name}`" for name in data),
    )


def in_snapshots(rows: DataFrame, positions: Mapping[str, str]) -> DataFrame:
    """Rows of `build` with the position of the full snapshot that their delivery is (delivery -> position)."""
    position = F.create_map(*(F.lit(text) for pair in positions.items() for text in pair))
    return rows.withColumn("_tech_snapshot_seq", F.try_element_at(position, F.col("_tech_batch_id")))


def typed_columns(table: SapTable, present: list[str]) -> list[str]:
    """Select expressions of the typed view: canonical names for the fields that bronze has, then technical columns."""
    names = {name.upper(): name for name in present}
    fields = [f"`{names[field.name]}` AS `{field.canonical}`" for field in table.fields if field.name in names]
    return [*fields, *(name for name in TECHNICAL_NAMES if name.upper() in names)]


def feed_properties(feed: Feed) -> dict[str, str]:
    """What silver has to know of a feed to read its values, as table properties of bronze."""
    interpretation = {
        "name": feed.name,
        "profile": feed.profile,
        "date_format": feed.date_format,
        "decimal": feed.decimal.value,
        "amounts": feed.amounts.value,
    }
    return {FEED_PROPERTIES + key: value for key, value in interpretation.items()}
