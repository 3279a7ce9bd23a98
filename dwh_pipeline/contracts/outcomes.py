"""What a load did with the rows it read, in numbers: the vocabulary of the ledger.

Every row read ends in exactly one outcome. How a row gets its outcome belongs to `tables`.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from dwh_pipeline.errors import LedgerMismatchError


class Outcome(StrEnum):
    """Where a row that was read ended."""

    INSERTED = "inserted"
    UPDATED = "updated"
    CLOSED = "closed"
    WOVEN_IN = "woven_in"
    DELETED = "deleted"
    OLDER = "older"
    EQUAL = "equal"
    REDERIVED = "rederived"
    CONFLICTING = "conflicting"
    COLLAPSED = "collapsed"
    QUARANTINED = "quarantined"

    @property
    def words(self) -> str:
        """The outcome as people read it."""
        return self.value.replace("_", " ")


OUTCOME_MEANINGS: dict[Outcome, str] = {
    Outcome.INSERTED: "first change of a key, or (SCD2) a version opened after a deletion",
    Outcome.UPDATED: "a newer change of a known key, or an older upsert that fills in the attributes of a deleted one",
    Outcome.CLOSED: "SCD2: a newer change that closed a version and opened the next",
    Outcome.WOVEN_IN: "SCD2: a late change that opened a version inside the known history",
    Outcome.DELETED: "a deletion that took effect",
    Outcome.OLDER: "older than what is stored and without effect",
    Outcome.EQUAL: "the change that is stored already, or a change that alters nothing",
    Outcome.REDERIVED: "the change that is stored already, whose derived values (currency, profile) are now others",
    Outcome.CONFLICTING: "same key and change_seq as another row but other content; the larger content hash stays",
    Outcome.COLLAPSED: "a duplicate, an older change of the same key in the same load, or a before-image",
    Outcome.QUARANTINED: "cannot be taken; kept in ops.quarantine with its reason",
}


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """The outcomes of one delivery in one load. `batch_id` None: rows derived again without a delivery of their own.

    `absent`: keys that were deleted because the delivery, a full snapshot, lacks them. They are no rows that were read.

    Raises:
        LedgerMismatchError: the outcomes do not add up to the rows read.
    """

    table: str
    batch_id: str | None
    is_replay: bool
    rows_read: int
    outcomes: dict[Outcome, int]
    absent: int = 0

    def __post_init__(self) -> None:
        counted = sum(self.outcomes.values())
        if counted != self.rows_read:
            raise LedgerMismatchError(self.table, self.batch_id, rows_read=self.rows_read, rows_counted=counted)


@dataclass(frozen=True, slots=True)
class Written:
    """What one write did to its table. `version` is the Delta version it made, None if there was nothing to write."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    version: int | None = None


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What one load of one table did, or would do, for people, the ledger and the Dagster page.

    `rows` is what the table holds afterwards, `held` the deliveries that a bronze table holds, `new_columns` what came
    to the columns that it had before, `files` how many it took, `skipped` those of which it needs nothing: without
    rows, or redelivered. `streamed` has the rows that a stream read of other tables (`schema.name`).
    """

    table: str
    rows: int
    written: Written
    deliveries: tuple[DeliveryCounts, ...]
    started_at: datetime
    seconds: float
    held: tuple[str, ...] = ()
    new_columns: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    files: int = 0
    streamed: dict[str, int] = field(default_factory=dict)

    @property
    def absent(self) -> int:
        """Keys that all deliveries of this load deleted because they, full snapshots, lack them."""
        return sum(delivery.absent for delivery in self.deliveries)

    @property
    def rows_read(self) -> int:
        """Rows read over all deliveries of this load, or by its streams."""
        return sum(delivery.rows_read for delivery in self.deliveries) + sum(self.streamed.values())

    @property
    def rows_per_second(self) -> float:
        """Rows read in a second of this load."""
        return self.rows_read / self.seconds if self.seconds else 0.0

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """The outcomes of all deliveries of this load together, without those that did not occur."""
        totals = {outcome: sum(d.outcomes.get(outcome, 0) for d in self.deliveries) for outcome in Outcome}
        return {outcome: count for outcome, count in totals.items() if count}
