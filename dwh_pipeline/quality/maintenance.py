"""Which upkeep a table needs and whether somebody still needs what it would remove: pure functions over facts.

Doing it belongs to `lake.maintenance`.
"""

from dataclasses import dataclass
from enum import StrEnum

from dwh_pipeline.contracts.health import FileFacts, HealthOutcome, Limits, Status


class Upkeep(StrEnum):
    """What can be done to a table without changing a row, in the order in which it is done."""

    OPTIMIZE = "OPTIMIZE"
    PURGE = "PURGE"
    VACUUM = "VACUUM"


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do to a table (`schema.name`), why, and what speaks against it; None: it may be done."""

    table: str
    upkeep: Upkeep
    why: str
    refused: str | None = None


def actions(
    files: FileFacts,
    *,
    rows: int,
    unused_files: int,
    small: HealthOutcome,
    retention: HealthOutcome,
    repair: HealthOutcome | None,
    limits: Limits,
) -> tuple[Action, ...]:
    """What a table needs, and what speaks against it.

    `small`, `retention` and `repair` are the outcomes of `files_are_not_small`, `retention_is_safe` and
    `repair_is_ready` (None for a table that no load of its own writes). `rows` are those that the table has,
    `unused_files` those that a VACUUM would remove.
    """
    # After a failed load its inputs are looked at as they were; nothing that could take them away is done.
    failed = None if repair is None or repair.status is Status.HEALTHY else f"repair_is_ready: {repair.message}"
    unsafe = None if retention.status is Status.HEALTHY else f"retention_is_safe: {retention.message}"
    found = []
    if small.status is not Status.HEALTHY:
        found.append(Action(files.table, Upkeep.OPTIMIZE, small.message, failed))
    deleted = files.deleted_rows or 0
    if deleted and deleted >= (rows + deleted) * limits.purge_deleted_share:
        why = f"{deleted} of {rows + deleted} rows are marked as deleted in {files.deletion_vectors} deletion vectors"
        found.append(Action(files.table, Upkeep.PURGE, why, failed))
    if unused_files:
        found.append(Action(files.table, Upkeep.VACUUM, f"{unused_files} files are no longer used", unsafe or failed))
    return tuple(found)
