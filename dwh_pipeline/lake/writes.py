"""The write primitives: append, merge, replace where different. There is no other way to write.

Each answers with what it did in numbers, and makes no commit where nothing would change. Which rows a table should have
is decided in `tables`; the fourth primitive, the ledger, is in `ledger`.
"""

from dataclasses import dataclass
from functools import reduce
from operator import and_
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import Written
from dwh_pipeline.contracts.table import LOADED_AT, TableContract
from dwh_pipeline.errors import ContractViolationError, OvertakenError
from dwh_pipeline.lake import catalog

_CHANGE = "_change"


@dataclass(frozen=True, slots=True)
class TableChange:
    """A planned write: `changes` holds the rows that differ, with `_change` insert, update or delete.

    The rows are computed once and kept by Spark as long as the frame lives. Nothing has been written.
    """

    table: str
    contract: TableContract
    changes: DataFrame
    inserted: int
    updated: int
    deleted: int

    @property
    def is_empty(self) -> bool:
        """Whether the table is already as it should be."""
        return self.inserted + self.updated + self.deleted == 0

    @property
    def would_write(self) -> Written:
        """What carrying it out writes, as numbers."""
        return Written(self.inserted, self.updated, self.deleted)

    def applied_to(self, stored: DataFrame | None) -> DataFrame:
        """The compared columns of all rows that the table holds afterwards. `stored`: those before, None for none."""
        columns = self.contract.compared_columns
        written = self.changes.where(F.col(_CHANGE) != "delete").select(*columns)
        if stored is None:
            return written
        same_key = reduce(and_, (_same_key(self.contract, key, "t", "s") for key in self.contract.primary_key))
        left = stored.alias("t").join(self.changes.alias("s"), same_key, "left_anti")
        return left.select(*columns).unionByName(written)


def append(spark: SparkSession, table: str, contract: TableContract, rows: DataFrame) -> None:
    """Add rows in one commit; columns that the table does not have are added to it."""
    catalog.ensure(spark, table, contract)
    rows.write.format("delta").mode("append").option("mergeSchema", "true").saveAsTable(table)


def plan_change(
    spark: SparkSession,
    table: str,
    contract: TableContract,
    wanted: DataFrame,
    *,
    stored: DataFrame | None = None,
) -> TableChange:
    """What has to change so that the table holds `wanted`. Writes nothing.

    `stored` is the part of the table that `wanted` is to replace (default: all of it): its rows that `wanted` lacks are
    planned as deletions. Rows are matched by the primary key and compared in every column but `_tech_loaded_at`.

    Raises:
        ContractViolationError: `wanted` has not the columns of the contract.
    """
    _check_columns(contract, wanted)
    keys = contract.primary_key
    wanted_rows = _as_row(wanted, contract)
    if stored is None and not catalog.exists(spark, table):
        changes = wanted_rows.select(F.lit("insert").alias(_CHANGE), "row.*")
    else:
        stored_rows = _as_row(catalog.read(spark, table) if stored is None else stored, contract)
        same_key = reduce(and_, (_same_key(contract, key, "w", "s") for key in keys))
        change = (
            F.when(F.col("s.row").isNull(), "insert")
            .when(F.col("w.row").isNull(), "delete")
            .when(F.col("w.row") != F.col("s.row"), "update")
        )
        joined = wanted_rows.alias("w").join(stored_rows.alias("s"), same_key, "full_outer")
        differing = joined.select(change.alias(_CHANGE), F.coalesce("w.row", "s.row").alias("row"))
        changes = differing.where(F.col(_CHANGE).isNotNull()).select(_CHANGE, "row.*")
    # Not a cache: Delta refuses a MERGE whose source is one, since a cache may be filled while it runs.
    changes = changes.localCheckpoint()
    counts = {row[_CHANGE]: row["count"] for row in changes.groupBy(_CHANGE).count().collect()}
    return TableChange(
        table, contract, changes, counts.get("insert", 0), counts.get("update", 0), counts.get("delete", 0)
    )


def apply_change(spark: SparkSession, plan: TableChange, *, guard: str | None = None) -> Written:
    """Carry out a planned write in one commit, or in none if there is nothing to do.

    `guard` is a condition on target `t` and source `s` under which a matched row may be updated: it keeps a plan that
    was overtaken by a newer one from rolling rows back.

    Raises:
        OvertakenError: the table is no longer what the plan was made for; running again makes a new plan.
    """
    table = plan.table
    catalog.ensure(spark, table, plan.contract)
    if plan.is_empty:
        return Written()
    view = f"changes_{uuid4().hex}"
    plan.changes.createOrReplaceTempView(view)
    affected = spark.sql(_merge_statement(plan, view, guard)).collect()[0]["num_affected_rows"]
    spark.catalog.dropTempView(view)
    if affected != plan.inserted + plan.updated + plan.deleted:
        raise OvertakenError(table)
    return Written(plan.inserted, plan.updated, plan.deleted, catalog.last_commit(spark))


def _merge_statement(plan: TableChange, view: str, guard: str | None) -> str:
    """MERGE with only the clauses that the plan needs: one that only inserts is a much cheaper one for Delta."""
    contract = plan.contract
    matched = " AND ".join(f"t.`{key}` {_operator(contract, key)} s.`{key}`" for key in contract.primary_key)
    values = {name: f"s.`{name}`" for name in contract.compared_columns}
    if LOADED_AT.name in contract.column_names:
        values[LOADED_AT.name] = "current_timestamp()"
    clauses = [f"MERGE INTO {plan.table} t USING {view} s ON {matched}"]
    if plan.deleted:
        clauses.append(f"WHEN MATCHED AND s.{_CHANGE} = 'delete' THEN DELETE")
    if plan.updated:
        updates = ", ".join(f"t.`{name}` = {value}" for name, value in values.items())
        clauses.append(
            f"WHEN MATCHED AND s.{_CHANGE} = 'update'{f' AND ({guard})' if guard else ''} THEN UPDATE SET {updates}"
        )
    if plan.inserted:
        names = ", ".join(f"`{name}`" for name in values)
        clauses.append(
            f"WHEN NOT MATCHED AND s.{_CHANGE} = 'insert' "  # noqa: S608
            f"THEN INSERT ({names}) VALUES ({', '.join(values.values())})"
        )
    return " ".join(clauses)


def replace_where_different(
    spark: SparkSession, table: str, contract: TableContract, wanted: DataFrame, *, stored: DataFrame | None = None
) -> Written:
    """Make the table (or the part `stored` of it) hold exactly `wanted`, touching only rows that differ."""
    return apply_change(spark, plan_change(spark, table, contract, wanted, stored=stored))


def _as_row(rows: DataFrame, contract: TableContract) -> DataFrame:
    """The compared columns as one struct, beside the key. NULL equals NULL inside a struct."""
    return rows.select(*contract.primary_key, F.struct(*contract.compared_columns).alias("row"))


def _same_key(contract: TableContract, key: str, one: str, other: str) -> Column:
    left, right = F.col(f"{one}.{key}"), F.col(f"{other}.{key}")
    return left.eqNullSafe(right) if contract.column(key).nullable else left == right


def _operator(contract: TableContract, key: str) -> str:
    """A key column that may be NULL (an unknown month) is matched null-safe; NULL never reaches the others."""
    return "<=>" if contract.column(key).nullable else "="


def _check_columns(contract: TableContract, rows: DataFrame) -> None:
    missing = tuple(name for name in contract.compared_columns if name not in rows.columns)
    unexpected = tuple(name for name in rows.columns if name not in contract.column_names)
    if missing or unexpected:
        raise ContractViolationError(contract.qualified_name, missing=missing, unexpected=unexpected)
