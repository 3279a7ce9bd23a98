"""Names of tables: made on first use under the lake root, found again by any later session.

With a lake root in the session (`LAKE_ROOT`), `<catalog>.<schema>.<table>` is the folder `<lake>/<schema>/<table>`, so
two sessions share a lake without a metastore. Without one, names belong to the catalog alone (Hive, Unity). Rows are
written by `writes`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import Column, StoredAs, TableContract
from dwh_pipeline.errors import TableNotFoundError

LAKE_ROOT = "spark.dwh.lake"
DEFAULT_CATALOG = "spark_catalog"
SCHEMAS = ("bronze", "silver", "gold", "ops")

# With deletion vectors a MERGE need not write whole files anew, but Delta lists the files of the table twice for each
# query. So a table to which rows are only added goes without.
_APPEND_ONLY = {"delta.appendOnly": "true"}
_CHANGING = {"delta.enableDeletionVectors": "true"}


def use_lake(spark: SparkSession, root: Path) -> None:
    """Names resolve under this root from now on. Names that another root had in this session are forgotten."""
    before = spark.conf.get(LAKE_ROOT, None)
    if before == str(root):
        return
    if before is not None:
        for schema in SCHEMAS:
            _forget_names(spark, f"{DEFAULT_CATALOG}.{schema}", Path(before))
    spark.conf.set(LAKE_ROOT, str(root))


def sibling(table: str, qualified_name: str) -> str:
    """`schema.name` in the catalog of `table`, which is `catalog.schema.name` or `schema.name`."""
    catalog = table.split(".", maxsplit=1)[0] if table.count(".") == 2 else DEFAULT_CATALOG  # noqa: PLR2004
    return f"{catalog}.{qualified_name}"


def exists(spark: SparkSession, table: str) -> bool:
    """Whether the table is there, in the session's catalog or under the lake root (then it is registered)."""
    if spark.catalog.tableExists(table):
        return True
    location = _location(spark, table)
    if location is None or not (location / "_delta_log").is_dir():
        return False
    _ensure_schema(spark, table)
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} USING DELTA LOCATION '{location}'")
    return True


def read(spark: SparkSession, table: str) -> DataFrame:
    """The rows of a table.

    Raises:
        TableNotFoundError: it is not there yet.
    """
    if not exists(spark, table):
        raise TableNotFoundError(table)
    return spark.table(table)


def empty(spark: SparkSession, columns: tuple[Column, ...]) -> DataFrame:
    """No rows with these columns. Unlike an empty Python list, this starts no Python worker."""
    return spark.range(0).select(*(F.lit(None).cast(column.type).alias(column.name) for column in columns))


def ensure(
    spark: SparkSession, table: str, contract: TableContract, properties: Mapping[str, str] | None = None
) -> None:
    """Create the table with the columns of its contract. Does nothing, and makes no version, where it exists.

    `properties` are further table properties for a table that is created.
    """
    if exists(spark, table):
        return
    _ensure_schema(spark, table)
    columns = ", ".join(
        f"`{column.name}` {column.type}{'' if column.nullable else ' NOT NULL'} COMMENT {_quoted(column.description)}"
        for column in contract.columns
    )
    pairs = {**(_APPEND_ONLY if contract.stored_as is StoredAs.APPEND else _CHANGING), **(properties or {})}
    location = _location(spark, table)
    spark.sql(
        f"CREATE TABLE {table} ({columns}) USING DELTA COMMENT {_quoted(contract.description)} "
        + (f"LOCATION '{location}' " if location else "")
        + f"TBLPROPERTIES ({_pairs(pairs)})"
    )


def table_id(spark: SparkSession, table: str) -> str:
    """The id that Delta gave the table when it was made (Delta protocol, Change Metadata)."""
    return str(spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]["id"])


def last_commit(spark: SparkSession) -> int:
    """The Delta version that the newest commit of this session made."""
    return int(spark.conf.get("spark.databricks.delta.lastCommitVersionInSession") or 0)


def properties(spark: SparkSession, table: str, prefix: str) -> dict[str, str]:
    """The table properties that start with the prefix, under their full names."""
    rows = spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
    return {row["key"]: row["value"] for row in rows if row["key"].startswith(prefix)}


def set_properties(spark: SparkSession, table: str, prefix: str, wanted: Mapping[str, str]) -> None:
    """Set table properties that start with the prefix; makes no version where they are so already."""
    if properties(spark, table, prefix) != wanted:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({_pairs(wanted)})")


def create_view(spark: SparkSession, view: str, source: str, columns: list[str]) -> None:
    """A view in the session's catalog over a table: `columns` are select expressions."""
    _ensure_schema(spark, view)
    spark.sql(f"CREATE OR REPLACE VIEW {view} AS SELECT {', '.join(columns)} FROM {source}")  # noqa: S608


def _forget_names(spark: SparkSession, schema: str, root: Path) -> None:
    """Drop the names of the views of a schema, and of its tables in the lake at `root`; the files stay."""
    if not spark.catalog.databaseExists(schema):
        return
    views = {row["viewName"] for row in spark.sql(f"SHOW VIEWS IN {schema}").collect()}
    tables = spark.sql(f"SHOW TABLES IN {schema}").where("NOT isTemporary").collect()
    for name in (row["tableName"] for row in tables):
        if name in views:
            spark.sql(f"DROP VIEW {schema}.`{name}`")
        elif root.joinpath(schema.rsplit(".", maxsplit=1)[-1], name, "_delta_log").is_dir():
            spark.sql(f"DROP TABLE {schema}.`{name}`")


def _location(spark: SparkSession, table: str) -> Path | None:
    root = spark.conf.get(LAKE_ROOT, None)
    return None if root is None else Path(root).joinpath(*table.split(".")[-2:])


def _ensure_schema(spark: SparkSession, table: str) -> None:
    schema = table.rpartition(".")[0]
    location = _location(spark, table)
    # With a place of its own, no schema makes Spark create a warehouse folder where the program was started.
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}" + (f" LOCATION '{location.parent}'" if location else ""))


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{key}' = {_quoted(value)}" for key, value in properties.items())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
