"""Which health rule is asked of which table: read its facts, ask, keep the outcomes. Loads nothing.

The asset checks, `dwh health` and `dwh maintain` all come through here. What is healthy is judged in `quality.health`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dwh_pipeline.contracts.health import (
    Collect,
    DriverFacts,
    FailedLoad,
    FileFacts,
    HealthOutcome,
    InputVersion,
    KeyFacts,
    KeyUse,
    Limits,
    MergeSourceFacts,
    Need,
    RepairFacts,
    RetentionFacts,
    Rule,
    Status,
    StreamFacts,
)
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.errors import SettingsError, TableNotFoundError, WarehouseError
from dwh_pipeline.lake import catalog, checkpoint, facts, ledger, plans, writes
from dwh_pipeline.lake.facts import TableDetail
from dwh_pipeline.lake.lease import left_behind
from dwh_pipeline.loads import gold_load, ingest_activity, recovery, silver
from dwh_pipeline.loads.checks import CHECKS, STREAM_CHECKS, Check, Severity, StreamCheck
from dwh_pipeline.loads.delivered import Delivered, changes_of, read_delivered
from dwh_pipeline.loads.place import Place
from dwh_pipeline.quality import health as rules
from dwh_pipeline.quality.expectations import Finding
from dwh_pipeline.sap.fields import SAP_TABLES, SapTable
from dwh_pipeline.sap.operations import operation_rank
from dwh_pipeline.sap.profiles import own_order
from dwh_pipeline.tables import bronze, dim_customer, health_history, load_ledger, registry
from dwh_pipeline.tables.silver import SilverTable

# What brings rows of a table together by a key. The key of a bronze table is that of SAP (`_bronze_key`); joins with
# currencies are left out, since that side is always broadcast.
KEY_USES: Mapping[str, KeyUse] = {
    "silver.customer": KeyUse(("client_id", "customer_id"), "the order of the versions of a customer"),
    "silver.sales_order": KeyUse(
        ("client_id", "customer_id"), "the join with customer versions", "gold.dim_customer", "is_current"
    ),
    "silver.sales_order_line": KeyUse(("client_id", "order_id"), "the join with headers", "silver.sales_order"),
    "gold.fct_order_line": KeyUse(
        ("customer_key",), "the join with its dimension", dim_customer.CONTRACT.qualified_name
    ),
}
# The tests that prove, for every table of a schema, that loading again changes nothing.
PROVEN_BY: Mapping[str, str] = {
    "bronze": "integration/test_lost_checkpoints.py::"
    "test_c03_thirty_events_are_there_once_whatever_happens_to_the_checkpoint",
    "silver": "integration/test_any_order.py::test_a_load_without_anything_new_makes_no_version",
    "gold": "integration/test_any_order.py::test_a_load_without_anything_new_makes_no_version",
}
_NEWEST = 20  # of each rule and table, for trends
_DELIVERY_BYTES = 500  # one delivery with its counts, or one file with its path, on the driver


@dataclass(frozen=True, slots=True)
class Examination:
    """The tables of a place, looked at once: what several rules need of a table is read for the first of them."""

    place: Place
    limits: Limits
    _details: dict[str, TableDetail] = field(default_factory=dict)
    _delivered: dict[str, Delivered] = field(default_factory=dict)

    def detail(self, contract: TableContract) -> TableDetail:
        """What Delta tells of a table."""
        name = contract.qualified_name
        if name not in self._details:
            self._details[name] = facts.detail(self.place.spark, self.place.name(contract))
        return self._details[name]

    def delivered(self, table: SapTable) -> Delivered:
        """What its bronze table holds of an SAP table."""
        if table.name not in self._delivered:
            source = self.place.name(bronze.contract_of(table))
            self._delivered[table.name] = read_delivered(self.place.spark, source, table)
        return self._delivered[table.name]

    def rows(self, qualified_name: str) -> DataFrame:
        """The rows of a table."""
        return catalog.read(self.place.spark, f"{self.place.catalog}.{qualified_name}")


@dataclass(frozen=True, slots=True)
class Kept:
    """An outcome of the past: when (UTC, to the second), the status, and the number that the rule is about."""

    rule: str
    table: str
    at: datetime
    status: Status
    measure: float


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A rule and a table of which it is asked."""

    rule: Rule
    contract: TableContract
    ask: Callable[[Examination], HealthOutcome]


def chosen(only_rules: tuple[str, ...] = (), only_tables: tuple[str, ...] = ()) -> tuple[HealthCheck, ...]:
    """The rules and the expectations, all of them or those of these names.

    Raises:
        SettingsError: there is no such rule or table; names those that there are.
    """
    every = (*HEALTH_CHECKS, *EXPECTATIONS)
    for option, given, known in (
        ("--rule", only_rules, dict.fromkeys(check.rule.name for check in every)),
        ("--table", only_tables, dict.fromkeys(check.contract.qualified_name for check in every)),
    ):
        for name in given:
            if name not in known:
                raise SettingsError(option, f"{name!r} is not known; choose from {', '.join(known)}")
    return tuple(
        check
        for check in every
        if (not only_rules or check.rule.name in only_rules)
        and (not only_tables or check.contract.qualified_name in only_tables)
    )


def examine(
    place: Place, limits: Limits, checks: Iterable[HealthCheck], *, tell: Callable[[str], None] = lambda _: None
) -> list[HealthOutcome]:
    """Ask the rules, in order. What cannot be asked is an ERROR, so that one damaged table hides no other.

    `tell` is told the name of what is asked next.

    Raises:
        TableNotFoundError: not one table is there: the lake is another one than was meant.
    """
    tables = [place.name(contract) for contract in registry.LOADED]
    if not any(catalog.exists(place.spark, table) for table in tables):
        raise TableNotFoundError(tables[0])
    examination = Examination(place, limits)
    outcomes = []
    for check in checks:
        tell(f"{check.rule.name} of {check.contract.qualified_name}")
        outcomes.append(_answer(examination, check))
    return outcomes


def record(place: Place, outcomes: Iterable[HealthOutcome]) -> None:
    """Keep the outcomes of the health rules in `ops.health_history`, in one commit; expectations have no trend.

    An outcome that is as it was the last time still holds and is not written again: asking changes nothing.
    """
    contract, checked_at = health_history.CONTRACT, datetime.now(UTC)
    last = _last_kept(place)
    rows = [
        {
            "checked_at": checked_at,
            "rule": outcome.rule.name,
            "table_name": outcome.table,
            "status": outcome.status.value,
            "measure": outcome.measure,
            "message": outcome.message,
            "measures": json.dumps(dict(outcome.measures)),
        }
        for outcome in outcomes
        if outcome.rule in rules.RULES
        and last.get((outcome.rule.name, outcome.table)) != (outcome.status.value, outcome.measure, outcome.message)
    ]
    if not rows:
        return
    types = {"STRING": pa.string(), "DOUBLE": pa.float64(), "TIMESTAMP": pa.timestamp("us", "UTC")}
    schema = pa.schema([(column.name, types[column.type]) for column in contract.columns])
    table = pa.Table.from_pylist(rows, schema)
    writes.append(place.spark, place.name(contract), contract, place.spark.createDataFrame(table))


def _last_kept(place: Place) -> dict[tuple[str, str], tuple[str, float, str]]:
    """Status, measure and message that were kept last of every rule and table."""
    name = place.name(health_history.CONTRACT)
    if not catalog.exists(place.spark, name):
        return {}
    newest = F.max_by(F.struct("status", "measure", "message"), "checked_at").alias("newest")
    found = place.spark.table(name).groupBy("rule", "table_name").agg(newest).collect()
    return {(row["rule"], row["table_name"]): tuple(row["newest"]) for row in found}


def newest_history(place: Place) -> list[Kept]:
    """What was kept of the newest examinations, at most `_NEWEST` of each rule and table, oldest first."""
    by_subject = Window.partitionBy("rule", "table_name").orderBy(F.col("checked_at").desc())
    rows = (
        catalog.read(place.spark, place.name(health_history.CONTRACT))
        .withColumn("position", F.row_number().over(by_subject))
        .where(F.col("position") <= _NEWEST)
        # In seconds: Python would read a TIMESTAMP in the time zone of the machine.
        .select("rule", "table_name", F.unix_seconds("checked_at"), "status", "measure", "position")
        .orderBy("rule", "table_name", F.desc("position"))
        .collect()
    )
    return [
        Kept(rule, table, datetime.fromtimestamp(at, UTC), Status(status), measure)
        for rule, table, at, status, measure, _ in rows
    ]


def file_facts(examination: Examination, contract: TableContract) -> FileFacts:
    """Facts of `files_are_not_small`: metadata alone."""
    return facts.files_of(examination.place.spark, contract.qualified_name, examination.detail(contract))


def retention_facts(examination: Examination, contract: TableContract) -> RetentionFacts:
    """Facts of `retention_is_safe`: metadata, and for a bronze table the offset of the stream that counts it."""
    spark, limits = examination.place.spark, examination.limits
    of = examination.detail(contract)
    has_feed = of.properties.get("delta.enableChangeDataFeed") == "true"
    readers = "a reader of the change data feed" if has_feed else "a consumer that lags"
    needs = [
        Need(f"{readers} (DWH_HEALTH__CONSUMER_LAG_DAYS)", limits.consumer_lag_days),
        Need("a replay (DWH_HEALTH__REPLAY_WINDOW_DAYS)", limits.replay_window_days),
    ]
    for table in (table for table in SAP_TABLES.values() if bronze.contract_of(table) == contract):
        path = ingest_activity.checkpoint_of(examination.place, table)
        version = checkpoint.next_version(path)
        days = None if version is None else facts.days_since(spark, of.table, version)
        if days is not None:
            needs.append(Need(f"the stream {path.name}, which has yet to read version {version},", days))
    return facts.retention_of(spark, contract.qualified_name, of, tuple(needs))


def repair_facts(examination: Examination, contract: TableContract, failed: FailedLoad | None) -> RepairFacts:
    """Facts of `repair_is_ready`: after a failed load, log and one column of each input; else nothing is read."""
    place = examination.place
    inputs = []
    if failed is not None:
        since = datetime.fromisoformat(failed.since).replace(tzinfo=UTC)
        for name in (f"{place.catalog}.{upstream}" for upstream in contract.upstream):
            version = facts.version_at(place.spark, name, since) if catalog.exists(place.spark, name) else None
            readable = version is None or facts.is_readable(place.spark, name, version)
            inputs.append(InputVersion(name.partition(".")[2], version, readable))
    return RepairFacts(
        contract.qualified_name, PROVEN_BY.get(contract.schema), failed, tuple(inputs), _built_on(contract)
    )


def _answer(examination: Examination, check: HealthCheck) -> HealthOutcome:
    name = check.contract.qualified_name
    try:
        if not catalog.exists(examination.place.spark, examination.place.name(check.contract)):
            return rules.not_there(check.rule, name)
        return check.ask(examination)
    except (PySparkException, WarehouseError, OSError, ValueError) as error:  # a damaged file is one of the last two
        lines = str(error).splitlines()
        message = f"the rule cannot be asked: {lines[0] if lines else type(error).__name__}"
        return HealthOutcome(
            check.rule, name, Status.ERROR, message, 0.0, fixes=("find out why the table cannot be read",)
        )


def _built_on(contract: TableContract) -> tuple[str, ...]:
    """The table, and all that is built on it, in the order of loading."""
    found = {contract.qualified_name}
    for other in registry.LOADED:
        if found & set(other.upstream):
            found.add(other.qualified_name)
    return tuple(other.qualified_name for other in registry.LOADED if other.qualified_name in found)


def _key_facts(examination: Examination, contract: TableContract, use: KeyUse) -> KeyFacts:
    """One aggregation by the key, and one of the other side of a join."""
    spark = examination.place.spark
    dimension = None if use.dimension is None else examination.rows(use.dimension).where(use.dimension_rows)
    adaptive = facts.why_not_split(spark, use, examination.detail(contract).bytes)
    rows = examination.rows(contract.qualified_name)
    return facts.keys_of(rows, contract.qualified_name, use, dimension=dimension, adaptive=adaptive)


def _bronze_key(table: SapTable, rows: DataFrame) -> KeyUse:
    names = {name.upper(): name for name in rows.columns}
    keys = tuple(names[key.name] for key in table.keys if key.name in names)
    return KeyUse(keys, "the fold of a key from all its changes")


def _merge_source_facts(examination: Examination, table: SilverTable) -> MergeSourceFacts:
    """One aggregation over the batch by key and change."""
    place, delivered = examination.place, examination.delivered(table.source)
    loaded = silver.loaded_rows(place.spark, delivered, place.name(table.contract), table)
    pending = delivered.not_loaded(loaded)
    name = table.contract.qualified_name
    batch = pending or ledger.newest_load(place.spark, place.name(load_ledger.CONTRACT), name)
    rows = delivered.rows.where(F.col("_tech_batch_id").isin(list(batch)))
    changes = changes_of(delivered, rows).where("reason IS NULL")
    changes = changes.withColumns({"rank": operation_rank(), "own_order": own_order(F.col("change_seq"))})
    count, keys, repeats, conflicting, samples = facts.repeats_of(changes, table.keys)
    return MergeSourceFacts(
        table=bronze.contract_of(table.source).qualified_name,
        target=name,
        is_pending=bool(pending),
        deliveries=len(batch),
        rows=count,
        keys=keys,
        repeats=repeats,
        conflicting=conflicting,
        samples=samples,
    )


def _stream_facts(examination: Examination, table: SapTable) -> StreamFacts:
    """Files of the checkpoint alone."""
    name = bronze.contract_of(table).qualified_name
    feed = examination.place.feed_of(table)
    if feed is None:
        return StreamFacts(name, table.name, ())
    problems = recovery.problems_of(examination.place, feed)
    return StreamFacts(name, feed.name, tuple((problem.what, problem.repair.value) for problem in problems))


def _driver_facts(
    examination: Examination, contract: TableContract, frame: DataFrame | None, *collects: Collect
) -> DriverFacts:
    """The plan of a build, which is not run."""
    memory, max_result, threshold = facts.driver_limits(examination.place.spark)
    broadcasts = plans.broadcasts(frame, threshold) if frame is not None else ()
    return DriverFacts(contract.qualified_name, broadcasts, collects, memory, max_result, threshold)


def _collect(count: int, what: str) -> Collect:
    return Collect(f"{count} {what}", count * _DELIVERY_BYTES)


def _on_any(contract: TableContract) -> tuple[HealthCheck, ...]:
    return (
        HealthCheck(
            rules.FILES_ARE_NOT_SMALL,
            contract,
            lambda e: rules.files_are_not_small(file_facts(e, contract), e.limits),
        ),
        HealthCheck(
            rules.RETENTION_IS_SAFE,
            contract,
            lambda e: rules.retention_is_safe(retention_facts(e, contract), e.limits),
        ),
    )


def _on_loaded(contract: TableContract) -> tuple[HealthCheck, ...]:
    def repair(e: Examination) -> HealthOutcome:
        failed = left_behind(e.place.lease_of(contract))
        return rules.repair_is_ready(repair_facts(e, contract, failed), e.limits)

    return (*_on_any(contract), HealthCheck(rules.REPAIR_IS_READY, contract, repair))


def _on_bronze(table: SapTable) -> tuple[HealthCheck, ...]:
    contract = bronze.contract_of(table)

    def key(e: Examination) -> HealthOutcome:
        use = _bronze_key(table, e.rows(contract.qualified_name))
        if not use.columns:  # nothing was ever delivered
            return rules.not_there(rules.NO_KEY_IS_HOT, contract.qualified_name)
        return rules.no_key_is_hot(_key_facts(e, contract, use), e.limits)

    def driver(e: Examination) -> HealthOutcome:
        files = e.rows(contract.qualified_name).agg(F.count_distinct("_tech_source_file")).collect()[0][0]
        return rules.driver_is_safe(_driver_facts(e, contract, None, _collect(files, "paths of files")), e.limits)

    return (
        *_on_loaded(contract),
        HealthCheck(rules.NO_KEY_IS_HOT, contract, key),
        HealthCheck(
            rules.STREAM_CAN_RECOVER, contract, lambda e: rules.stream_can_recover(_stream_facts(e, table), e.limits)
        ),
        HealthCheck(rules.DRIVER_IS_SAFE, contract, driver),
    )


def _on_silver(table: SilverTable) -> tuple[HealthCheck, ...]:
    contract, source = table.contract, bronze.contract_of(table.source)

    def driver(e: Examination) -> HealthOutcome:
        delivered = e.delivered(table.source)
        currencies = silver.currencies_beside(e.place.spark, delivered.source, table)
        frame = silver.rows_of_everything(e.place.spark, delivered, currencies, table)
        collect = _collect(len(delivered.held), "deliveries with their counts")
        return rules.driver_is_safe(_driver_facts(e, contract, frame, collect), e.limits)

    return (
        *_on_loaded(contract),
        *_key_check(contract),
        HealthCheck(
            rules.MERGE_SOURCE_HAS_ONE_ROW_PER_KEY,
            source,
            lambda e: rules.merge_source_has_one_row_per_key(_merge_source_facts(e, table), e.limits),
        ),
        HealthCheck(rules.DRIVER_IS_SAFE, contract, driver),
    )


def _on_gold(contract: TableContract) -> tuple[HealthCheck, ...]:
    def driver(e: Examination) -> HealthOutcome:
        frame = gold_load.rows_of(e.place.spark, e.place.catalog, contract)
        return rules.driver_is_safe(_driver_facts(e, contract, frame), e.limits)

    return (*_on_loaded(contract), *_key_check(contract), HealthCheck(rules.DRIVER_IS_SAFE, contract, driver))


def _key_check(contract: TableContract) -> tuple[HealthCheck, ...]:
    use = KEY_USES.get(contract.qualified_name)
    if use is None:
        return ()
    return (
        HealthCheck(
            rules.NO_KEY_IS_HOT, contract, lambda e: rules.no_key_is_hot(_key_facts(e, contract, use), e.limits)
        ),
    )


HEALTH_CHECKS: tuple[HealthCheck, ...] = (
    *(check for table in SAP_TABLES.values() for check in _on_bronze(table)),
    *(check for table in registry.SILVER for check in _on_silver(table)),
    *(check for contract in registry.GOLD for check in _on_gold(contract)),
    *(check for contract in registry.OPS for check in _on_any(contract)),
)


def _expectation(check: Check) -> HealthCheck:
    rule = Rule(check.name, check.description, "failing rows")
    return HealthCheck(
        rule,
        check.contract,
        lambda e: _of_finding(rule, check.contract, check.severity, check.ask(e.place.spark, e.place.catalog)),
    )


def _stream_expectation(check: StreamCheck) -> HealthCheck:
    rule, contract = Rule(check.name, check.description, "failing things"), bronze.contract_of(check.table)

    def ask(e: Examination) -> HealthOutcome:
        feed = e.place.feed_of(check.table)
        finding = check.ask(e.place, feed) if feed is not None else Finding(0, ())
        return _of_finding(rule, contract, Severity.ERROR, finding)

    return HealthCheck(rule, contract, ask)


def _of_finding(rule: Rule, contract: TableContract, severity: Severity, finding: Finding) -> HealthOutcome:
    return HealthOutcome(
        rule=rule,
        table=contract.qualified_name,
        status=Status.HEALTHY if finding.passed else Status(severity.value.lower()),
        message="holds" if finding.passed else f"does not hold: {finding.failing_rows} {rule.measure}",
        measure=float(finding.failing_rows),
        fixes=() if finding.passed else ("look at what is named, find the cause and mend it", "run again: dwh run"),
        samples=finding.samples,
    )


# What has to be true of the rows of a table and of its stream, for those who want all answers in one place (CI).
EXPECTATIONS: tuple[HealthCheck, ...] = (*map(_expectation, CHECKS), *map(_stream_expectation, STREAM_CHECKS))
