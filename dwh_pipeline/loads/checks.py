"""Which expectations hold of which table: read the table, ask, answer. Dagster and the gold guard use the same ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import StoredAs, TableContract
from dwh_pipeline.errors import ExpectationFailedError
from dwh_pipeline.lake import catalog, checkpoint
from dwh_pipeline.loads import recovery, silver
from dwh_pipeline.loads.delivered import changes_of, history_of, read_delivered
from dwh_pipeline.loads.place import Place
from dwh_pipeline.quality import expectations
from dwh_pipeline.quality.expectations import Finding
from dwh_pipeline.sap.feeds import Feed
from dwh_pipeline.sap.fields import SAP_TABLES, SapTable
from dwh_pipeline.sap.operations import Operation, is_operation
from dwh_pipeline.sap.profiles import change_time
from dwh_pipeline.sap.revenue import is_known_category
from dwh_pipeline.tables import (
    agg_revenue_month,
    bronze,
    dim_customer,
    fct_order_line,
    load_ledger,
    sales_order,
    sales_order_line,
    scd1,
    scd2,
)
from dwh_pipeline.tables.registry import GOLD, SILVER
from dwh_pipeline.tables.silver import SilverTable


class Severity(StrEnum):
    """How bad it is when a check fails."""

    WARN = "WARN"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class Check:
    """An expectation of one table.

    `ask(spark, catalog)` reads what it needs and answers. `blocking`: nothing may be built on the table while it does
    not hold; the others are for people to look at, an `ERROR` sooner than a `WARN`.
    """

    contract: TableContract
    name: str
    description: str
    ask: Callable[[SparkSession, str], Finding]
    blocking: bool = True
    severity: Severity = Severity.ERROR


@dataclass(frozen=True, slots=True)
class StreamCheck:
    """An expectation of the stream into a bronze table: `ask` names up to a few things that break it."""

    table: SapTable
    name: str
    description: str
    ask: Callable[[Place, Feed], Finding]


def require_healthy(spark: SparkSession, catalog_name: str, tables: set[str]) -> None:
    """Every blocking expectation of these tables (`schema.name`) holds.

    Raises:
        ExpectationFailedError: names the table, the expectation and the number of rows that break it.
        TableNotFoundError: a table is not there yet.
    """
    for check in (check for check in CHECKS if check.blocking and check.contract.qualified_name in tables):
        finding = check.ask(spark, catalog_name)
        if not finding.passed:
            raise ExpectationFailedError(check.contract.qualified_name, check.name, finding.failing_rows)


def _rows(spark: SparkSession, catalog_name: str, contract: TableContract) -> DataFrame:
    return catalog.read(spark, f"{catalog_name}.{contract.qualified_name}")


def _key_checks(contract: TableContract) -> tuple[Check, ...]:
    never_null = tuple(key for key in contract.primary_key if not contract.column(key).nullable)
    return (
        Check(
            contract,
            "primary_key_is_unique",
            f"No two rows have the same {', '.join(contract.primary_key)}",
            lambda spark, catalog_name: expectations.primary_key_is_unique(
                _rows(spark, catalog_name, contract), contract.primary_key
            ),
        ),
        Check(
            contract,
            "key_is_not_null",
            f"No row has NULL in {', '.join(never_null)}",
            lambda spark, catalog_name: expectations.key_is_not_null(_rows(spark, catalog_name, contract), never_null),
        ),
    )


def _version_checks(contract: TableContract, business_key: tuple[str, ...]) -> tuple[Check, ...]:
    return (
        Check(
            contract,
            "one_current_version",
            "A key has one current version, or none if it is deleted",
            lambda spark, catalog_name: expectations.one_current_version(
                _rows(spark, catalog_name, contract), business_key
            ),
        ),
        Check(
            contract,
            "intervals_do_not_overlap",
            "At each instant a key has at most one version",
            lambda spark, catalog_name: expectations.intervals_do_not_overlap(
                _rows(spark, catalog_name, contract), business_key
            ),
        ),
    )


def _settled(spark: SparkSession, catalog_name: str, table: SilverTable) -> tuple[DataFrame, DataFrame]:
    """The stored rows, and the whole history, of the keys of which nothing is pending.

    A key that a pending delivery touches is folded again by its load, so it says nothing now: the table may lack the
    delivery, but also hold it, if a load died between table and ledger, or a replay of another delivery has folded the
    key from all that bronze holds. A pending full snapshot touches every key.
    """
    target = f"{catalog_name}.{table.contract.qualified_name}"
    stored = catalog.read(spark, target)
    delivered = read_delivered(spark, f"{catalog_name}.{table.source.bronze_name}", table.source)
    changes = changes_of(delivered)
    pending = delivered.not_loaded(silver.loaded_rows(spark, delivered, target, table))
    if any(delivery in pending for _, delivery in delivered.snapshots):
        stored, changes = stored.limit(0), changes.limit(0)
    elif pending:
        touched = changes.where(F.col("_tech_batch_id").isin(list(pending))).select(*table.keys)
        stored, changes = (rows.join(touched, list(table.keys), "left_anti") for rows in (stored, changes))
    return stored, history_of(delivered, changes)


def _agreement_checks(table: SilverTable) -> tuple[Check, ...]:
    """Versions against the changes that they are made from, by other ways than `tables.scd2`."""
    tracked = tuple(field.canonical for field in table.source.attributes if field.tracked)

    def ask_open_version(spark: SparkSession, catalog_name: str) -> Finding:
        versions, history = _settled(spark, catalog_name, table)
        # Archiving is no state of a customer: it neither ends a version nor brings one back.
        newest = scd1.fold(history.where(~is_operation(Operation.ARCHIVE)), table.keys, tracked)
        return expectations.open_version_equals_newest_change(versions, newest, table.keys, tracked)

    def ask_gaps(spark: SparkSession, catalog_name: str) -> Finding:
        versions, history = _settled(spark, catalog_name, table)
        deletions = history.where(is_operation(Operation.DELETE))
        return expectations.no_gap_but_a_deletion(versions, deletions, table.keys, scd2.DAWN)

    return (
        Check(
            table.contract,
            "open_version_equals_newest_change",
            "The open version of a key is what its newest change says, and a deleted key has none; keys of deliveries "
            "that are not loaded yet are left out",
            ask_open_version,
            blocking=False,
        ),
        Check(
            table.contract,
            "no_gap_but_a_deletion",
            "Where a key has no version it was deleted, by a change or because a full snapshot lacks it; keys of "
            "deliveries that are not loaded yet are left out",
            ask_gaps,
            blocking=False,
        ),
    )


def _fact_checks() -> tuple[Check, ...]:
    contract = fct_order_line.CONTRACT
    return (
        Check(
            contract,
            "line_has_one_customer_version",
            "An order line has the customer version of the end of its document date, of which there is one, or the "
            "unknown member if there is none",
            lambda spark, catalog_name: expectations.line_has_one_customer_version(
                _rows(spark, catalog_name, contract),
                _rows(spark, catalog_name, dim_customer.CONTRACT),
                contract.primary_key,
                dim_customer.UNKNOWN_KEY,
            ),
            blocking=False,
        ),
        Check(
            contract,
            "fact_has_the_lines_of_silver",
            "The fact has the order lines of silver that are not deleted, with their quantities, and no others",
            lambda spark, catalog_name: expectations.fact_has_the_lines_of_silver(
                _rows(spark, catalog_name, contract),
                _rows(spark, catalog_name, sales_order_line.CONTRACT),
                contract.primary_key,
            ),
            blocking=False,
        ),
        Check(
            contract,
            "header_totals_equal_items",
            "The net value of an order is the sum over its items that are neither rejected nor statistical, to one "
            "smallest unit of the currency; names order, total and sum",
            lambda spark, catalog_name: expectations.header_totals_equal_items(
                _rows(spark, catalog_name, sales_order.CONTRACT),
                _rows(spark, catalog_name, sales_order_line.CONTRACT),
                sales_order.CONTRACT.primary_key,
            ),
            blocking=False,
            severity=Severity.WARN,
        ),
    )


def _aggregate_check() -> Check:
    contract = agg_revenue_month.CONTRACT
    return Check(
        contract,
        "aggregate_equals_fact",
        "The monthly revenue is exactly the sum over the fact",
        lambda spark, catalog_name: expectations.aggregate_equals_fact(
            _rows(spark, catalog_name, contract),
            agg_revenue_month.build(_rows(spark, catalog_name, fct_order_line.CONTRACT)),
            contract.compared_columns,
        ),
    )


def _conflict_check(table: SapTable) -> Check:
    keys = tuple(field.canonical for field in table.keys)

    def ask(spark: SparkSession, catalog_name: str) -> Finding:
        changes = changes_of(read_delivered(spark, f"{catalog_name}.{table.bronze_name}", table))
        content = F.to_json(F.struct(*(field.canonical for field in table.attributes)))
        return expectations.changes_have_one_content(
            changes.where(F.col("reason").isNull()).withColumn("content", content), keys
        )

    return Check(
        bronze.contract_of(table),
        "changes_have_one_content",
        "No two changes of one key have the same change_seq but other content; names key and contents, the one that "
        "stays first",
        ask,
        blocking=False,
        severity=Severity.WARN,
    )


def _columns_check(table: SapTable) -> Check:
    contract = bronze.contract_of(table)
    return Check(
        contract,
        "files_have_the_same_columns",
        "All files that hold more than deletions have the same columns; names the columns that only some have",
        lambda spark, catalog_name: expectations.files_have_the_same_columns(_rows(spark, catalog_name, contract)),
        blocking=False,
        severity=Severity.WARN,
    )


def _counter_check(table: SilverTable) -> Check:
    contract, source = table.contract, bronze.contract_of(table.source)

    def ask(spark: SparkSession, catalog_name: str) -> Finding:
        loads = _rows(spark, catalog_name, load_ledger.CONTRACT).where(F.col("table_name") == contract.qualified_name)
        newest = _rows(spark, catalog_name, source).groupBy("_tech_batch_id").agg(F.max("change_seq").alias("newest"))
        is_counter = change_time(F.col("newest")).isNull() & ~F.col("newest").rlike("^0*$")
        return expectations.some_change_is_newer(loads, newest.where(is_counter).select("_tech_batch_id"))

    return Check(
        contract,
        "counters_do_not_restart",
        "No delivery that is ordered by a counter had only changes older than what was there: then the counter "
        "probably started again (sequence_restarts in feeds.toml)",
        ask,
        blocking=False,
    )


def _category_check() -> Check:
    contract = sales_order.CONTRACT
    return Check(
        contract,
        "document_category_is_known",
        "Every order that is not deleted has a document category of which it is known whether it is revenue",
        lambda spark, catalog_name: expectations.every_row_has(
            _rows(spark, catalog_name, contract).where("NOT is_deleted"),
            is_known_category(F.col("document_category")),
            contract.primary_key,
        ),
        blocking=False,
        severity=Severity.WARN,
    )


def _currency_check() -> Check:
    contract = fct_order_line.CONTRACT
    return Check(
        contract,
        "currency_is_known",
        "Every order line has a currency, its own or that of its order; without one it is in no total of a currency",
        lambda spark, catalog_name: expectations.every_row_has(
            _rows(spark, catalog_name, contract), F.col("currency").isNotNull(), contract.primary_key
        ),
        blocking=False,
        severity=Severity.WARN,
    )


def _found(broken: Sequence[str]) -> Finding:
    return Finding(len(broken), tuple(broken[: expectations.SAMPLES]))


def _checkpoint_is_recoverable(place: Place, feed: Feed) -> Finding:
    return _found([f"{p.what}; repair: {p.repair}" for p in checkpoint.problems(place.checkpoint_of(feed.sap_table))])


def _checkpoint_belongs_to_one_stream(place: Place, feed: Feed) -> Finding:
    id_ = catalog.table_id(place.spark, place.name(bronze.contract_of(feed.sap_table)))
    path = place.checkpoint_of(feed.sap_table)
    return _found(
        [f"{p.what}; repair: {p.repair}" for p in checkpoint.passport_problems(path, feed=feed.name, target_id=id_)]
    )


_STREAM_CHECKS: dict[str, tuple[str, Callable[[Place, Feed], Finding]]] = {
    "checkpoint_is_recoverable": (
        "The checkpoint has what Spark needs to go on; dwh recover-stream repairs it",
        _checkpoint_is_recoverable,
    ),
    "checkpoint_belongs_to_one_stream": (
        "The passport of the checkpoint names this feed, this bronze table and this query",
        _checkpoint_belongs_to_one_stream,
    ),
    "backlog_is_empty": (
        "Bronze holds or skips every complete file of the landing area",
        lambda place, feed: _found([file.relative for file in recovery.backlog(place, feed)]),
    ),
    "no_file_changed_after_ingest": (
        "Every file that is still there has the size that it had when bronze took it",
        lambda place, feed: _found([file.relative for file in recovery.changed(place, feed)]),
    ),
}
STREAM_CHECKS: tuple[StreamCheck, ...] = tuple(
    StreamCheck(table, name, description, ask)
    for table in SAP_TABLES.values()
    for name, (description, ask) in _STREAM_CHECKS.items()
)

CHECKS: tuple[Check, ...] = (
    *(make(table) for table in SAP_TABLES.values() for make in (_conflict_check, _columns_check)),
    *(check for table in SILVER for check in _key_checks(table.contract)),
    *(
        check
        for table in SILVER
        if table.contract.stored_as is StoredAs.SCD2
        for check in (*_version_checks(table.contract, table.keys), *_agreement_checks(table))
    ),
    *(_counter_check(table) for table in SILVER),
    *(check for contract in GOLD for check in _key_checks(contract)),
    _category_check(),
    _currency_check(),
    *_fact_checks(),
    _aggregate_check(),
)
