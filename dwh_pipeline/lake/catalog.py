"""Names of tables: made on first use under the lake root, found again by any later session.

With a lake root in the session (`LAKE_ROOT`), `<catalog>.<schema>.<table>` is the folder `<lake>/<schema>/<table>`, so two
sessions share a lake without a metastore. Without one, names belong to the catalog alone (Hive, Unity). Rows are
written by `writes`.
"""

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from dwh_pipeline.contracts.table import StoredAs, TableContract
from dwh_pipeline.errors import TableNotFoundError

LAKE_ROOT = "spark.dwh.lake"
DEFAULT_CATALOG = "spark_catalog"
SCHEMAS = ("bronze", "silver", "gold", "ops")

_PROPERTIES = {"delta.enableDeletionVectors": "true"}


def use_lake(spark: SparkSession, root: Path) -> None:
    """Names resolve under this root from now on. Names that another root had in this session are forgotten."""
    before = spark.conf.get(LAKE_ROOT, None)
    if before == str(root):
        return
    if before is not None:
        for schema in SCHEMAS:
            _forget_names(spark, f"{DEFAULT_CATALOG}.{schema}")
    root.mkdir(parents=True, exist_ok=True)
    spark.conf.set(LAKE_ROOT, str(root))


def sibling(table: str, qualified_name: str) -> str:
    """`schema.name` in the catalog of `table`, which is `catalog.schema.name` or `schema.name`."""
    catalog = table.split(".")[0] if table.count(".") == 2 else DEFAULT_CATALOG  # noqa: PLR2004
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


def ensure(spark: SparkSession, table: str, contract: TableContract) -> None:
    """Create the table with the columns of its contract. Does nothing, and makes no version, where it exists."""
    if exists(spark, table):
        return
    _ensure_schema(spark, table)
    columns = ", ".join(
        f"`{column.name}` {column.type}{'' if column.nullable else ' NOT NULL'} COMMENT {_quoted(column.description)}"
        for column in contract.columns
    )
    append_only = {"delta.appendOnly": "true"} if contract.stored_as is StoredAs.APPEND else {}
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in (_PROPERTIES | append_only).items())
    location = _location(spark, table)
    spark.sql(
        f"CREATE TABLE {table} ({columns}) USING DELTA COMMENT {_quoted(contract.description)} "
        + (f"LOCATION '{location}' " if location else "")
        + f"TBLPROPERTIES ({properties})"
    )


def version(spark: SparkSession, table: str) -> int:
    """The newest Delta version of the table."""
    return int(spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").select("version").collect()[0][0])


def properties(spark: SparkSession, table: str, prefix: str) -> dict[str, str]:
    """The table properties that start with the prefix, without it."""
    rows = spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
    return {row["key"].removeprefix(prefix): row["value"] for row in rows if row["key"].startswith(prefix)}


def set_properties(spark: SparkSession, table: str, prefix: str, wanted: dict[str, str]) -> None:
    """Set table properties under the prefix; makes no version where they are so already."""
    if properties(spark, table, prefix) != wanted:
        pairs = ", ".join(f"'{prefix}{key}' = {_quoted(value)}" for key, value in wanted.items())
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({pairs})")


def create_view(spark: SparkSession, view: str, source: str, columns: list[str]) -> None:
    """A view in the session's catalog over a table: `columns` are select expressions."""
    _ensure_schema(spark, view)
    spark.sql(f"CREATE OR REPLACE VIEW {view} AS SELECT {', '.join(columns)} FROM {source}")


def _forget_names(spark: SparkSession, schema: str) -> None:
    """Drop the names of external tables and views; their files stay. Managed tables are not ours and stay too."""
    if not spark.catalog.databaseExists(schema):
        return
    for entry in spark.catalog.listTables(schema):
        if entry.tableType != "MANAGED":
            spark.sql(f"DROP {'VIEW' if entry.tableType == 'VIEW' else 'TABLE'} {schema}.`{entry.name}`")


def _location(spark: SparkSession, table: str) -> Path | None:
    root = spark.conf.get(LAKE_ROOT, None)
    return None if root is None else Path(root).joinpath(*table.split(".")[-2:])


def _ensure_schema(spark: SparkSession, table: str) -> None:
    schema = table.rpartition(".")[0]
    location = _location(spark, table)
    # With a place of its own, no schema makes Spark create a warehouse folder where the program was started.
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}" + (f" LOCATION '{location.parent}'" if location else ""))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
