"""The guarded load of a silver table: plan what the pending deliveries do, then do it.

One mechanism for all silver tables. The keys that a delivery touches are folded again from their whole bronze history,
compared with what is stored, and the rows that differ are written in one commit. What a table makes of its changes is
told by its `SilverTable`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import DeliveryCounts, LoadReport, Outcome, Written
from dwh_pipeline.contracts.table import StoredAs
from dwh_pipeline.errors import DeliveryNotFoundError
from dwh_pipeline.lake import catalog, ledger, writes
from dwh_pipeline.sap.fields import TCURX, SapTable
from dwh_pipeline.sap.values import Amounts, Decimal, ValueFormat
from dwh_pipeline.tables import bronze, load_ledger, quarantine
from dwh_pipeline.tables.changes import LOCATION, read_changes
from dwh_pipeline.tables.currencies import DECIMALS_COLUMNS, decimals_by_currency
from dwh_pipeline.tables.silver import Reference, SilverTable

# A matched row is updated only by a newer change, or derived again from an equal one. The plan decides so already; this
# keeps a plan that a newer load has overtaken from taking rows back. A version of SCD2 is no such row: a late change
# that becomes the first version rightly lowers the change_seq of the version that starts the history.
_GUARDS = {StoredAs.SCD1: "s.change_seq >= t.change_seq", StoredAs.SCD2: None}


@dataclass(frozen=True, slots=True)
class SilverPlan:
    """What a load would do: nothing has been written. `deliveries` adds up, or the plan could not be made."""

    table: SilverTable
    target: str
    change: writes.TableChange | None
    rejected: DataFrame | None
    stored_rejected: DataFrame | None
    deliveries: tuple[DeliveryCounts, ...]
    started_at: datetime
    kept: tuple[DataFrame, ...] = ()

    def close(self) -> None:
        """Release what the plan keeps in memory."""
        for frame in self.kept:
            frame.unpersist()


def run(spark: SparkSession, source: str, target: str, table: SilverTable, batch_id: str | None = None) -> LoadReport:
    """Load everything that is pending in bronze `source` into silver `target`, or replay one delivery.

    Raises:
        TableNotFoundError: bronze is not there yet.
        DeliveryNotFoundError: bronze does not hold the delivery `batch_id`.
        LedgerMismatchError: rows were lost or counted twice; nothing was written.
        OvertakenError: another load changed the table meanwhile; run again.
    """
    return apply(spark, plan(spark, source, target, table, batch_id))


def plan(spark: SparkSession, source: str, target: str, table: SilverTable, batch_id: str | None = None) -> SilverPlan:
    """What `run` would do. Reads only. Raises as `run` does."""
    started_at = datetime.now(UTC)
    delivered = catalog.read(spark, source)
    loaded = ledger.loaded_rows(spark, _ledger(target), table.contract.qualified_name)
    held = ledger.delivered_rows(delivered)
    if batch_id is not None and batch_id not in held:
        raise DeliveryNotFoundError(source, batch_id, tuple(sorted(held)))
    stored = catalog.read(spark, target) if catalog.exists(spark, target) else None
    # A table that is not there has taken nothing, whatever the ledger remembers of one that was.
    done = loaded if stored is not None else {}
    pending = [batch_id] if batch_id is not None else sorted(id_ for id_, rows in held.items() if done.get(id_) != rows)

    value_format = _value_format(spark, source)
    reference = _reference(spark, source, table, value_format)
    stale_keys = _if_any(table.stale_keys(stored, reference)) if table.stale_keys and stored is not None else None
    if not pending and stale_keys is None:
        return SilverPlan(table, target, None, None, None, (), started_at)

    is_pending = F.col("_tech_batch_id").isin(pending)
    arrived = _changes(delivered.where(is_pending), table.source, value_format).persist()
    good = _good(arrived, pending=True)
    touched = good.select(*table.keys).distinct()
    if stale_keys is not None:
        touched = touched.unionByName(stale_keys).distinct()
    history, kept = good, [arrived]
    if set(held) != set(pending):
        earlier = _of_keys(_changes(delivered.where(~is_pending), table.source, value_format), touched, table).persist()
        history = good.unionByName(_good(earlier, pending=False))
        kept.append(earlier)
    before = _of_keys(stored, touched, table) if stored is not None else catalog.empty(spark, table.contract.columns)

    change = writes.plan_change(spark, target, table.contract, table.build(history, reference), stored=before)
    rejected = arrived.where(F.col("reason").isNotNull()).select(
        F.lit(table.source.bronze_name).alias("source_table"), *LOCATION, "reason", "raw_record"
    )
    counted = _counts(table.outcomes(history, before, change.changes), rejected)
    deliveries = [
        DeliveryCounts(table.contract.qualified_name, id_, id_ in loaded, held[id_], counted.get(id_, {}))
        for id_ in pending
    ]
    if stale_keys is not None:
        deliveries += _derived_again(table, stale_keys.join(good, list(table.keys), "left_anti").count())
    stored_rejected = _stored_rejected(spark, target, source, pending)
    # Most loads reject nothing and never did: then there is nothing to compare.
    rejects_differ = any(Outcome.QUARANTINED in counts for counts in counted.values()) or not stored_rejected.isEmpty()
    return SilverPlan(
        table=table,
        target=target,
        change=change,
        rejected=rejected if rejects_differ else None,
        stored_rejected=stored_rejected,
        deliveries=tuple(deliveries),
        started_at=started_at,
        kept=tuple(kept),
    )


def apply(spark: SparkSession, planned: SilverPlan) -> LoadReport:
    """Carry out a plan: quarantine, then the table in one commit, then the ledger.

    The ledger comes last, so a crash anywhere leaves the delivery pending, and loading it again changes nothing that is
    right already.
    """
    table, contract = planned.table, planned.table.contract
    quarantined = catalog.sibling(planned.target, quarantine.CONTRACT.qualified_name)
    for name, described in (
        (planned.target, contract),
        (quarantined, quarantine.CONTRACT),
        (_ledger(planned.target), load_ledger.CONTRACT),
    ):
        catalog.ensure(spark, name, described)
    written = Written()
    if planned.change is not None:
        if planned.rejected is not None:
            writes.replace_where_different(
                spark, quarantined, quarantine.CONTRACT, planned.rejected, stored=planned.stored_rejected
            )
        written = writes.apply_change(spark, planned.change, guard=_GUARDS[contract.stored_as])
        ledger.record(
            spark,
            _ledger(planned.target),
            load_ledger.CONTRACT,
            uuid4().hex,
            planned.deliveries,
            started_at=planned.started_at,
            finished_at=datetime.now(UTC),
        )
    planned.close()
    finished_at = datetime.now(UTC)
    return LoadReport(
        table=table.contract.qualified_name,
        rows=spark.table(planned.target).count(),
        written=written,
        deliveries=planned.deliveries,
        started_at=planned.started_at,
        seconds=(finished_at - planned.started_at).total_seconds(),
    )


def _good(changes: DataFrame, *, pending: bool) -> DataFrame:
    return changes.where(F.col("reason").isNull()).drop("reason", "raw_record").withColumn("_pending", F.lit(pending))


def read_bronze_changes(spark: SparkSession, source: str, table: SapTable) -> DataFrame:
    """The changes in a bronze table that can be taken, with their values read as its feed declares.

    Raises:
        TableNotFoundError: bronze is not there yet.
    """
    changes = _changes(catalog.read(spark, source), table, _value_format(spark, source))
    return changes.where(F.col("reason").isNull())


def _value_format(spark: SparkSession, source: str) -> ValueFormat:
    kept = catalog.properties(spark, source, bronze.FEED_PROPERTIES)
    defaults = ValueFormat()
    return ValueFormat(
        date_format=kept.get(f"{bronze.FEED_PROPERTIES}date_format", defaults.date_format),
        decimal=Decimal(kept.get(f"{bronze.FEED_PROPERTIES}decimal", defaults.decimal)),
        amounts=Amounts(kept.get(f"{bronze.FEED_PROPERTIES}amounts", defaults.amounts)),
    )


def _reference(spark: SparkSession, source: str, table: SilverTable, value_format: ValueFormat) -> Reference:
    """Decimals per currency from the TCURX beside `source`; none if the table has no amounts or TCURX is not there."""
    tcurx = catalog.sibling(source, TCURX.bronze_name)
    if TCURX.bronze_name not in table.contract.upstream or not catalog.exists(spark, tcurx):
        return Reference(catalog.empty(spark, DECIMALS_COLUMNS), value_format.amounts)
    return Reference(decimals_by_currency(read_bronze_changes(spark, tcurx, TCURX)), value_format.amounts)


def _if_any(keys: DataFrame) -> DataFrame | None:
    """The keys, or None if there are none."""
    return None if keys.isEmpty() else keys


def _of_keys(rows: DataFrame, keys: DataFrame, table: SilverTable) -> DataFrame:
    """The rows of these keys. The keys are few beside the table, so they go to the rows."""
    return rows.join(F.broadcast(keys), list(table.keys), "left_semi")


def _changes(delivered: DataFrame, source: SapTable, value_format: ValueFormat) -> DataFrame:
    """Bronze rows as changes, with `reason`, and `raw_record` where there is one."""
    data = [name for name in delivered.columns if name not in bronze.TECHNICAL_NAMES]
    as_json = F.to_json(F.struct(*(f"`{name}`" for name in data)))
    raw_record = F.coalesce("_corrupt_record", as_json) if "_corrupt_record" in delivered.columns else as_json
    typed = bronze.typed_columns(source, delivered.columns)
    changes = read_changes(delivered.select(*map(F.expr, typed), raw_record.alias("raw_record")), source, value_format)
    return changes.withColumn("raw_record", F.when(F.col("reason").isNotNull(), F.col("raw_record")))


def _stored_rejected(spark: SparkSession, target: str, source: str, pending: list[str]) -> DataFrame:
    table = catalog.sibling(target, quarantine.CONTRACT.qualified_name)
    if not catalog.exists(spark, table):
        return catalog.empty(spark, quarantine.CONTRACT.columns)
    name = ".".join(source.split(".")[-2:])
    return spark.table(table).where((F.col("source_table") == name) & F.col("_tech_batch_id").isin(pending))


def _counts(outcomes: DataFrame, rejected: DataFrame) -> dict[str, dict[Outcome, int]]:
    every = outcomes.unionByName(rejected.select("_tech_batch_id", F.lit(Outcome.QUARANTINED.value).alias("outcome")))
    counts: dict[str, dict[Outcome, int]] = {}
    for row in every.groupBy("_tech_batch_id", "outcome").count().collect():
        counts.setdefault(row["_tech_batch_id"], {})[Outcome(row["outcome"])] = row["count"]
    return counts


def _derived_again(table: SilverTable, rows: int) -> list[DeliveryCounts]:
    """Rows that no pending delivery touches, written again because what they depend on has changed."""
    if not rows:
        return []
    return [
        DeliveryCounts(
            table.contract.qualified_name, None, is_replay=False, rows_read=rows, outcomes={Outcome.REDERIVED: rows}
        )
    ]


def _ledger(target: str) -> str:
    return catalog.sibling(target, load_ledger.CONTRACT.qualified_name)
