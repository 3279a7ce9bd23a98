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
from dwh_pipeline.loads.delivered import Delivered, changes_of, history_of, read_delivered
from dwh_pipeline.sap.fields import TCURX
from dwh_pipeline.tables import load_ledger, quarantine
from dwh_pipeline.tables.amounts import DECIMALS_COLUMNS, decimals_by_currency
from dwh_pipeline.tables.changes import ABSENCE, LOCATION
from dwh_pipeline.tables.silver import Reference, SilverTable

# A matched row is updated only by a newer change, or derived again from an equal one. The plan decides so already; this
# keeps a plan that a newer load has overtaken from taking rows back. A version of SCD2 is no such row: a late change
# that becomes the first version rightly lowers the change_seq of the version that starts the history.
_GUARDS = {StoredAs.SCD1: "t.change_seq IS NULL OR s.change_seq >= t.change_seq", StoredAs.SCD2: None}

# Keys that are broadcast lie in the memory of the driver: a million of three fields took 130 MB there, and about as
# much again while they were collected, and a load does so twice. Half of that fits into the default heap beside the
# rest; and with more keys than this, moving the stored rows to them was no slower.
MOST_BROADCAST_KEYS = 500_000


@dataclass(frozen=True, slots=True)
class SilverPlan:
    """What a load would do: nothing has been written. `deliveries` adds up, or the plan could not be made.

    `stored` are the rows of the table before, None if it is not there; `change` is None if nothing is pending.
    """

    table: SilverTable
    target: str
    source_id: str | None
    stored: DataFrame | None
    change: writes.TableChange | None
    rejected: DataFrame | None
    stored_rejected: DataFrame | None
    deliveries: tuple[DeliveryCounts, ...]
    started_at: datetime

    def rows_after(self, spark: SparkSession) -> DataFrame:
        """The rows that the table would hold, without the time of loading."""
        contract = self.table.contract
        if self.change is not None:
            return self.change.applied_to(self.stored)
        rows = catalog.empty(spark, contract.columns) if self.stored is None else self.stored
        return rows.select(*contract.compared_columns)


def run(spark: SparkSession, source: str, target: str, table: SilverTable, batch_id: str | None = None) -> LoadReport:
    """Load everything that is pending in bronze `source` into silver `target`, or replay one delivery.

    Raises:
        TableNotFoundError: bronze is not there yet.
        DeliveryNotFoundError: bronze does not hold the delivery `batch_id`.
        LedgerMismatchError: rows were lost or counted twice; nothing was written.
        OvertakenError: another load changed the table meanwhile; run again.
    """
    delivered = read_delivered(spark, source, table.source)
    deliveries = None if batch_id is None else (batch_id,)
    currencies = currencies_beside(spark, source, table)
    return apply(spark, plan(spark, delivered, currencies, target, table, deliveries=deliveries))


def plan(
    spark: SparkSession,
    delivered: Delivered,
    currencies: Delivered | None,
    target: str,
    table: SilverTable,
    *,
    deliveries: tuple[str, ...] | None = None,
) -> SilverPlan:
    """What loading the pending deliveries (None) or these would do. Reads only. Raises as `run` does.

    `currencies` is what TCURX delivered; None if it is not there or the table has no amounts.
    """
    started_at = datetime.now(UTC)
    held = delivered.held
    for delivery in deliveries or ():
        if delivery not in held:
            raise DeliveryNotFoundError(delivered.source, delivery, tuple(sorted(held)))
    stored = catalog.read(spark, target) if catalog.exists(spark, target) else None
    loaded = loaded_rows(spark, delivered, target, table)
    pending = delivered.not_loaded(loaded) if deliveries is None else deliveries

    reference = _reference(spark, currencies, delivered)
    stale_keys = table.stale_keys(stored, reference) if table.stale_keys and stored is not None else None
    stale = 0 if stale_keys is None else stale_keys.count()
    stale_keys = stale_keys if stale else None
    if not pending and stale_keys is None:
        return SilverPlan(table, target, delivered.table_id, stored, None, None, None, (), started_at)

    is_pending = F.col("_tech_batch_id").isin(list(pending))
    # Kept (as long as the frame lives), so that the values of all columns are read, and planned, once.
    arrived = changes_of(delivered, delivered.rows.where(is_pending)).localCheckpoint(eager=False)
    touched = arrived.where(F.col("reason").isNull()).select(*table.keys).distinct()
    if stale_keys is not None:
        touched = touched.unionByName(stale_keys).distinct()
    at_most = sum(held[delivery] for delivery in pending) + stale  # touched keys: known without counting them
    every = arrived
    if set(held) != set(pending):
        earlier = changes_of(delivered, delivered.rows.where(~is_pending))
        # A snapshot says something of every key that is known.
        takes_all = any(delivery in pending for _, delivery in delivered.snapshots)
        earlier = earlier if takes_all else rows_of_keys(earlier, touched, table.keys, at_most=at_most)
        every = arrived.unionByName(earlier.localCheckpoint(eager=False))
        if takes_all:
            touched, at_most = every.select(*table.keys).distinct(), sum(held.values())
    history = history_of(delivered, every).withColumn("_pending", is_pending)
    if stored is None:
        before = catalog.empty(spark, table.contract.columns)
    else:
        before = rows_of_keys(stored, touched, table.keys, at_most=at_most)

    change = writes.plan_change(spark, target, table.contract, table.build(history, reference), stored=before)
    rejected = arrived.where(F.col("reason").isNotNull()).select(
        F.lit(table.source.bronze_name).alias("source_table"), *LOCATION, "reason", "raw_record"
    )
    counted, absent = _counts(table.outcomes(history, before, change.changes), rejected)
    name = table.contract.qualified_name
    counts = [
        DeliveryCounts(name, id_, id_ in loaded, held[id_], counted.get(id_, {}), absent.get(id_, 0)) for id_ in pending
    ]
    if stale_keys is not None:
        taken = history.where("_pending").select(*table.keys).distinct()
        counts += _derived_again(table, stale_keys.join(taken, list(table.keys), "left_anti").count())
    stored_rejected = _stored_rejected(spark, target, table, pending)
    # Most loads reject nothing and never did: then there is nothing to compare.
    rejects_differ = any(Outcome.QUARANTINED in counts for counts in counted.values()) or not stored_rejected.isEmpty()
    return SilverPlan(
        table=table,
        target=target,
        source_id=delivered.table_id,
        stored=stored,
        change=change,
        rejected=rejected if rejects_differ else None,
        stored_rejected=stored_rejected,
        deliveries=tuple(counts),
        started_at=started_at,
    )


def rows_of_everything(
    spark: SparkSession, delivered: Delivered, currencies: Delivered | None, table: SilverTable
) -> DataFrame:
    """The rows that the table has once everything in bronze is loaded. Nothing is computed."""
    history = history_of(delivered, changes_of(delivered))
    return table.build(history, _reference(spark, currencies, delivered))


def apply(spark: SparkSession, planned: SilverPlan) -> LoadReport:
    """Carry out a plan: quarantine, then the table in one commit, then the ledger.

    The ledger comes last, so a crash anywhere leaves the delivery pending, and loading it again changes nothing that is
    right already.
    """
    contract = planned.table.contract
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
            source_id=planned.source_id,
            table_id=catalog.table_id(spark, planned.target),
            started_at=planned.started_at,
            finished_at=datetime.now(UTC),
        )
    return _report(planned, spark.table(planned.target).count(), written)


def preview(planned: SilverPlan) -> LoadReport:
    """What carrying out the plan would report. Nothing is written."""
    rows = planned.stored.count() if planned.stored is not None else 0
    would = planned.change.would_write if planned.change is not None else Written()
    return _report(planned, rows + would.inserted - would.deleted, would)


def _report(planned: SilverPlan, rows: int, written: Written) -> LoadReport:
    return LoadReport(
        table=planned.table.contract.qualified_name,
        rows=rows,
        written=written,
        deliveries=planned.deliveries,
        started_at=planned.started_at,
        seconds=(datetime.now(UTC) - planned.started_at).total_seconds(),
    )


def loaded_rows(spark: SparkSession, delivered: Delivered, target: str, table: SilverTable) -> dict[str, int]:
    """Per delivery, how many rows of it `target` has taken from this bronze table, as the ledger tells."""
    return ledger.loaded_rows(
        spark,
        _ledger(target),
        table.contract.qualified_name,
        source_id=delivered.table_id,
        table_id=catalog.table_id(spark, target) if catalog.exists(spark, target) else None,
    )


def currencies_beside(spark: SparkSession, source: str, table: SilverTable) -> Delivered | None:
    """What TCURX beside `source` delivered; None if it is not there or the table has no amounts."""
    tcurx = catalog.sibling(source, TCURX.bronze_name)
    if TCURX.bronze_name not in table.contract.upstream or not catalog.exists(spark, tcurx):
        return None
    return read_delivered(spark, tcurx, TCURX)


def _reference(spark: SparkSession, currencies: Delivered | None, delivered: Delivered) -> Reference:
    decimals = (
        decimals_by_currency(history_of(currencies, changes_of(currencies)))
        if currencies is not None
        else catalog.empty(spark, DECIMALS_COLUMNS)
    )
    return Reference(decimals, delivered.value_format.amounts)


def rows_of_keys(rows: DataFrame, keys: DataFrame, names: tuple[str, ...], *, at_most: int) -> DataFrame:
    """The rows of these keys, which are no more than `at_most`.

    Few keys go to the rows. Spark has to be told: it takes keys that come from a checkpoint to be about as large as the
    table that they were read from, and would move all rows.
    """
    return rows.join(F.broadcast(keys) if at_most <= MOST_BROADCAST_KEYS else keys, list(names), "left_semi")


def _stored_rejected(spark: SparkSession, target: str, table: SilverTable, pending: tuple[str, ...]) -> DataFrame:
    quarantined = catalog.sibling(target, quarantine.CONTRACT.qualified_name)
    if not catalog.exists(spark, quarantined):
        return catalog.empty(spark, quarantine.CONTRACT.columns)
    of_pending = (F.col("source_table") == table.source.bronze_name) & F.col("_tech_batch_id").isin(list(pending))
    return spark.table(quarantined).where(of_pending)


def _counts(outcomes: DataFrame, rejected: DataFrame) -> tuple[dict[str, dict[Outcome, int]], dict[str, int]]:
    """Per delivery: rows by outcome, and keys that were deleted because a snapshot lacks them."""
    quarantined = rejected.select(
        "_tech_batch_id",
        F.lit(False).alias(ABSENCE),  # noqa: FBT003
        F.lit(Outcome.QUARANTINED.value).alias("outcome"),
    )
    counts: dict[str, dict[Outcome, int]] = {}
    absent: dict[str, int] = {}
    for row in outcomes.unionByName(quarantined).groupBy("_tech_batch_id", ABSENCE, "outcome").count().collect():
        if not row[ABSENCE]:
            counts.setdefault(row["_tech_batch_id"], {})[Outcome(row["outcome"])] = row["count"]
        elif row["outcome"] == Outcome.DELETED:
            absent[row["_tech_batch_id"]] = row["count"]
    return counts, absent


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
