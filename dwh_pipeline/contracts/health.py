"""What the health rules are told and what they answer: facts, limits, outcomes, in plain Python.

Facts are numbers that were read already; reading them belongs to `lake`, judging them to `quality.health`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MIB = 1024 * 1024
SAMPLES = 20  # the most things that an answer names


class Status(StrEnum):
    """How a table does by one rule, from best to worst."""

    HEALTHY = "healthy"
    NOTED = "noted"
    WARN = "warn"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """0 is the best."""
        return list(Status).index(self)


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a rule begins to note, to warn and to ask for a repair. Settings, as `DWH_HEALTH__<FIELD>`.

    Shares are parts of 1, times are days, sizes are bytes.
    """

    small_files_min_count: int = 32
    small_file_bytes: int = 16 * MIB
    good_file_bytes: int = 64 * MIB
    purge_deleted_share: float = 0.1
    consumer_lag_days: float = 7.0
    replay_window_days: float = 7.0
    hot_key_warn_share: float = 0.10
    hot_key_note_share: float = 0.05
    hot_key_min_rows: int = 10_000
    broadcast_memory_share: float = 0.25
    collect_result_share: float = 0.5


@dataclass(frozen=True, slots=True)
class Rule:
    """A question that is asked of tables.

    `name` is the sentence that is true when it passes; `measure` says what the number of an outcome counts.
    """

    name: str
    description: str
    measure: str


@dataclass(frozen=True, slots=True)
class HealthOutcome:
    """The answer of a rule for one table (`schema.name`).

    `measure` is the number that the rule is about, `measures` are all numbers, `fixes` what to do, in the order to try,
    `samples` up to a few things that are meant.
    """

    rule: Rule
    table: str
    status: Status
    message: str
    measure: float
    measures: Mapping[str, float | str] = field(default_factory=dict)
    fixes: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The data files of a table, from its metadata. None: the metadata does not tell.

    `small_files` counts those under 16 MiB, `deleted_rows` rows that are marked as deleted in deletion vectors.
    """

    table: str
    files: int
    bytes: int
    small_files: int | None = None
    deleted_rows: int | None = None
    deletion_vectors: int | None = None

    @property
    def average_bytes(self) -> float:
        """Bytes of a file; 0 for a table without files."""
        return self.bytes / self.files if self.files else 0.0


@dataclass(frozen=True, slots=True)
class Need:
    """Somebody who needs removed files or old log entries for some days, in words."""

    who: str
    days: float


@dataclass(frozen=True, slots=True)
class RetentionFacts:
    """How long a table keeps removed files and its log, and who needs them for how long.

    `is_checked`: Delta refuses a VACUUM below the retention of the table.
    """

    table: str
    deleted_file_days: float
    log_days: float
    is_checked: bool
    needs: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class KeyUse:
    """Columns that rows are brought together by: `work` is a join, or a window, or an aggregation, in words.

    `dimension` is the table (`schema.name`) on the other side of a join, None for other work; `dimension_rows` is a
    condition that those of its rows fulfil which one row can meet.
    """

    columns: tuple[str, ...]
    work: str
    dimension: str | None = None
    dimension_rows: str = "true"


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """How rows spread over a key. Blank (NULL or empty) and unknown (-1) keys are counted apart, not as keys.

    `dimension_is_unique`: whether the key is unique on the other side of a join; None where there is none.
    `adaptive`: why adaptive execution would not split the work on the key, in words; None if it can.
    """

    table: str
    use: KeyUse
    rows: int
    blank_rows: int
    unknown_rows: int
    top_key: str | None
    top_rows: int
    dimension_is_unique: bool | None
    adaptive: str | None


@dataclass(frozen=True, slots=True)
class MergeSourceFacts:
    """The batch that a MERGE into `target` takes from a bronze table, before it is reduced to one row per key.

    `is_pending`: it is not loaded yet; otherwise it is what was loaded last. `repeats` counts rows that are in it
    already (key, order that the source tells, kind of operation and content), `conflicting` changes (key, `change_seq`
    and kind of operation) that have several contents.
    """

    table: str
    target: str
    is_pending: bool
    deliveries: int
    rows: int
    keys: int
    repeats: int
    conflicting: int
    samples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What is wrong with the checkpoint of the stream into a bronze table: what and the safe repair, in words."""

    table: str
    feed: str
    problems: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A side of a join that Spark plans to send to every task: the tables it is made of, and its estimated size.

    `is_forced`: by a hint of the code, whatever its size.
    """

    side: str
    bytes: int
    is_forced: bool


@dataclass(frozen=True, slots=True)
class Collect:
    """Rows that a load brings to the driver, in words, and about how many bytes they are."""

    what: str
    bytes: int


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What the load of a table asks of the driver, and what the driver is given. Sizes are bytes.

    `max_result_bytes` 0 is no limit; `broadcast_bytes` (autoBroadcastJoinThreshold) below 0 is never.
    """

    table: str
    broadcasts: tuple[Broadcast, ...]
    collects: tuple[Collect, ...]
    memory_bytes: int
    max_result_bytes: int
    broadcast_bytes: int


@dataclass(frozen=True, slots=True)
class FailedLoad:
    """A load that did not come to its end: who ran it, since when (UTC), and the error; None if it was killed."""

    holder: str
    since: str
    error: str | None


@dataclass(frozen=True, slots=True)
class InputVersion:
    """A table that a failed load read, the Delta version it had then, and whether that can still be read.

    `version` is None if the table was not there.
    """

    table: str
    version: int | None
    is_readable: bool


@dataclass(frozen=True, slots=True)
class RepairFacts:
    """What a repair of a table would rely on.

    `proof` names the test that proves the write idempotent; None if there is none. `would_run` are the tables that a
    re-execution loads.
    """

    table: str
    proof: str | None
    failed: FailedLoad | None
    inputs: tuple[InputVersion, ...]
    would_run: tuple[str, ...]
