"""Which expectations hold of which table: read the table, ask, answer. Dagster and the gold guard use the same ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import StoredAs, TableContract
from dwh_pipeline.errors import ExpectationFailedError
from dwh_pipeline.lake import catalog, checkpoint
from dwh_pipeline.loads import recovery
from dwh_pipeline.loads.delivered import changes_of, read_delivered
from dwh_pipeline.loads.place import Place
from dwh_pipeline.quality import expectations
from dwh_pipeline.quality.expectations import Finding
from dwh_pipeline.sap.feeds import Feed
from dwh_pipeline.sap.fields import SAP_TABLES, SapTable
from dwh_pipeline.sap.profiles import change_time
from dwh_pipeline.sap.revenue import is_known_category
from dwh_pipeline.tables import agg_revenue_month, bronze, fct_order_line, load_ledger, sales_order
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
        for check in _version_checks(table.contract, table.keys)
    ),
    *(_counter_check(table) for table in SILVER),
    *(check for contract in GOLD for check in _key_checks(contract)),
    _category_check(),
    _currency_check(),
    _aggregate_check(),
)
