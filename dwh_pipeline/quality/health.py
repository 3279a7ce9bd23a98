"""The health rules: each a pure function from facts to an outcome, whose fixes are in the order to try.

Reading facts belongs to `lake`, choosing the tables to `loads.health`, showing answers to `defs` and the command line.
"""

from dwh_pipeline.contracts.health import (
    DriverFacts,
    FileFacts,
    HealthOutcome,
    KeyFacts,
    Limits,
    MergeSourceFacts,
    RepairFacts,
    RetentionFacts,
    Rule,
    Status,
    StreamFacts,
)

FILES_ARE_NOT_SMALL = Rule(
    "files_are_not_small",
    "The table has few data files, or files that are large enough",
    "data files",
)
RETENTION_IS_SAFE = Rule(
    "retention_is_safe",
    "Removed files and the log are kept for as long as somebody needs them, and Delta's own check is on",
    "days that removed files are kept",
)
NO_KEY_IS_HOT = Rule(
    "no_key_is_hot",
    "No key by which rows are brought together has a large share of the rows",
    "share of the top key",
)
MERGE_SOURCE_HAS_ONE_ROW_PER_KEY = Rule(
    "merge_source_has_one_row_per_key",
    "The batch that is loaded next (else the last one) has each change once and with one content",
    "repeated and conflicting rows",
)
STREAM_CAN_RECOVER = Rule(
    "stream_can_recover",
    "The checkpoint of the stream is whole and its own; otherwise its next ingest stops",
    "problems of the checkpoint",
)
DRIVER_IS_SAFE = Rule(
    "driver_is_safe",
    "What a load broadcasts and collects fits the driver",
    "bytes broadcast",
)
REPAIR_IS_READY = Rule(
    "repair_is_ready",
    "The last load came to its end, or all that its repair relies on is there",
    "things in the way",
)
RULES = (
    FILES_ARE_NOT_SMALL,
    RETENTION_IS_SAFE,
    NO_KEY_IS_HOT,
    MERGE_SOURCE_HAS_ONE_ROW_PER_KEY,
    STREAM_CAN_RECOVER,
    DRIVER_IS_SAFE,
    REPAIR_IS_READY,
)

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def not_there(rule: Rule, table: str) -> HealthOutcome:
    """A table that has not been made yet has nothing wrong with it."""
    return HealthOutcome(rule, table, Status.HEALTHY, "is not there yet", 0.0)


def files_are_not_small(facts: FileFacts, limits: Limits) -> HealthOutcome:
    """Small files: only many files with a small average are a problem. Empty and tiny tables pass."""
    average = facts.average_bytes
    many = facts.files >= limits.small_files_min_count
    status = (
        Status.WARN
        if many and average < limits.small_file_bytes
        else Status.NOTED
        if many and average < limits.good_file_bytes
        else Status.HEALTHY
    )
    share = (
        "" if facts.small_files is None or not facts.files else f", {facts.small_files / facts.files:.0%} under 16 MiB"
    )
    return HealthOutcome(
        rule=FILES_ARE_NOT_SMALL,
        table=facts.table,
        status=status,
        message=f"{_number(facts.files, 'file')}, {in_words(facts.bytes)}, {in_words(average)} on average{share}",
        measure=float(facts.files),
        measures={
            "files": facts.files,
            "bytes": facts.bytes,
            "average_bytes": round(average),
            **({} if facts.small_files is None else {"files_under_16_mib": facts.small_files}),
            **({} if facts.deletion_vectors is None else {"deletion_vectors": facts.deletion_vectors}),
        },
        fixes=()
        if status is Status.HEALTHY
        else (
            "compact the files first: dwh maintain --apply (OPTIMIZE)",
            "let fewer, larger deliveries arrive, or raise max_files_per_trigger of the feed",
            "VACUUM is no cure: it removes only files that the table no longer uses",
        ),
    )


def retention_is_safe(facts: RetentionFacts, _limits: Limits) -> HealthOutcome:
    """Retention against needs: a VACUUM must not remove what somebody reads, nor the log expire before."""
    kept = {"removed files": facts.deleted_file_days, "the log": facts.log_days}
    short = [
        f"{what} are kept for {days:g} days, but {need.who} needs {need.days:.3g}".replace("the log are", "the log is")
        for what, days in kept.items()
        for need in facts.needs
        if days < need.days
    ]
    status = Status.ERROR if not facts.is_checked else Status.WARN if short else Status.HEALTHY
    unchecked = (
        [] if facts.is_checked else ["Delta's retention check is off, so a VACUUM may remove files of running reads"]
    )
    longest = max((need.days for need in facts.needs), default=0.0)
    days = max(longest, facts.deleted_file_days)  # never less than now, also where only the log is too short
    set_check = "set spark.databricks.delta.retentionDurationCheck.enabled to true (DWH_SPARK_CONF)"
    raise_it = (
        "raise retention before any VACUUM: ALTER TABLE "
        f"{facts.table} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval {_whole(days)} days', "
        f"'delta.logRetentionDuration' = 'interval {_whole(max(days, facts.log_days))} days')"
    )
    return HealthOutcome(
        rule=RETENTION_IS_SAFE,
        table=facts.table,
        status=status,
        message="; ".join([*unchecked, *short])
        or f"removed files are kept for {facts.deleted_file_days:g} days, the log for {facts.log_days:g}; "
        f"the longest need is {longest:.3g} days",
        measure=facts.deleted_file_days,
        measures={
            "deleted_file_days": facts.deleted_file_days,
            "log_days": facts.log_days,
            **{f"needed by {need.who}": round(need.days, 3) for need in facts.needs},
        },
        fixes=(
            *(() if facts.is_checked else (set_check,)),
            *((raise_it, "let the consumer catch up, then VACUUM: dwh maintain") if short else ()),
        ),
    )


def no_key_is_hot(facts: KeyFacts, limits: Limits) -> HealthOutcome:
    """Skew: the share of the top key among the rows that have a key. Blank and unknown keys are told apart."""
    keyed = facts.rows - facts.blank_rows - facts.unknown_rows
    share = facts.top_rows / keyed if keyed else 0.0
    key = ", ".join(facts.use.columns)
    status = Status.HEALTHY
    if facts.rows >= limits.hot_key_min_rows and share > limits.hot_key_note_share:
        status = Status.WARN if share > limits.hot_key_warn_share else Status.NOTED
    apart = [f"too few rows to judge (under {limits.hot_key_min_rows})"] if facts.rows < limits.hot_key_min_rows else []
    apart += [
        f"{count / facts.rows:.1%} of all rows have {what}"
        for count, what in ((facts.blank_rows, "a blank key"), (facts.unknown_rows, "the unknown key"))
        if count
    ]
    top = f"{facts.top_key} has {share:.1%} of {keyed} rows" if facts.top_key is not None else "no row has a key"
    return HealthOutcome(
        rule=NO_KEY_IS_HOT,
        table=facts.table,
        status=status,
        message=f"{key} ({facts.use.work}): " + "; ".join([top, *apart]),
        measure=share,
        measures={
            "rows": facts.rows,
            "blank_rows": facts.blank_rows,
            "unknown_rows": facts.unknown_rows,
            "top_key": facts.top_key or "",
            "top_rows": facts.top_rows,
            "top_share": round(share, 4),
        },
        fixes=() if status is Status.HEALTHY else _skew_fixes(facts),
    )


def _skew_fixes(facts: KeyFacts) -> tuple[str, ...]:
    adaptive = (
        "adaptive execution can split this join: leave it on and look at the slowest task before anything else"
        if facts.adaptive is None
        else f"see whether adaptive execution can split it; as things are it will not: {facts.adaptive}"
    )
    unique = {
        True: (f"the key is unique in {facts.use.dimension}, so row counts after the join can be trusted",),
        False: (f"the key is not unique in {facts.use.dimension}: mend that first, row counts after the join mislead",),
        None: (),
    }[facts.dimension_is_unique]
    salting = (
        "salt the key only then: spread the top key over some suffixes on both sides of the join"
        if facts.use.dimension is not None
        else "salting does not help, since all rows of a key have to meet; look at why the source repeats this key"
    )
    return (adaptive, *unique, salting)


def merge_source_has_one_row_per_key(facts: MergeSourceFacts, _limits: Limits) -> HealthOutcome:
    """Duplicates in the batch of a MERGE before it is reduced: exact repeats apart from conflicts."""
    status = Status.WARN if facts.conflicting else Status.NOTED if facts.repeats else Status.HEALTHY
    batch = "pending" if facts.is_pending else "loaded last"
    message = (
        f"{_number(facts.deliveries, 'delivery', 'deliveries')} {batch} for {facts.target}: "
        f"{_number(facts.rows, 'row')} of {_number(facts.keys, 'key')}, {_number(facts.repeats, 'exact repeat')}, "
        f"{_number(facts.conflicting, 'conflicting change')}"
        if facts.deliveries
        else f"nothing has been delivered for {facts.target}"
    )
    return HealthOutcome(
        rule=MERGE_SOURCE_HAS_ONE_ROW_PER_KEY,
        table=facts.table,
        status=status,
        message=message,
        measure=float(facts.repeats + facts.conflicting),
        measures={
            "rows": facts.rows,
            "keys": facts.keys,
            "repeats": facts.repeats,
            "conflicting_changes": facts.conflicting,
        },
        fixes=()
        if status is Status.HEALTHY
        else (
            "nothing is lost: one row per key is taken by the total order change_seq, operation (upsert, archiving, "
            "deletion), larger content hash",
            *(
                ("ask the source which content is right, and have it delivered again with a newer change_seq",)
                if facts.conflicting
                else ()
            ),
            *(("have the extraction looked at that delivers rows twice",) if facts.repeats else ()),
        ),
        samples=facts.samples,
    )


def stream_can_recover(facts: StreamFacts, _limits: Limits) -> HealthOutcome:
    """The checkpoint of an ingest: with any problem the next ingest stops."""
    return HealthOutcome(
        rule=STREAM_CAN_RECOVER,
        table=facts.table,
        status=Status.ERROR if facts.problems else Status.HEALTHY,
        message="; ".join(what for what, _ in facts.problems) or "the checkpoint is whole and its own",
        measure=float(len(facts.problems)),
        fixes=(
            f"look: dwh recover-stream {facts.feed}",
            *dict.fromkeys(f"repair: {repair}" for _, repair in facts.problems),
            f"let it be done: dwh recover-stream {facts.feed} --apply",
        )
        if facts.problems
        else (),
    )


def driver_is_safe(facts: DriverFacts, limits: Limits) -> HealthOutcome:
    """Broadcasts and collects against what the driver has. Sizes are Spark's estimates."""
    problems = _driver_problems(facts, limits)
    forced_ones = [one for one in facts.broadcasts if one.is_forced]
    status = Status.WARN if problems else Status.NOTED if forced_ones else Status.HEALTHY
    broadcast = sum(one.bytes for one in facts.broadcasts)
    planned = ", ".join(f"{one.side} ({in_words(one.bytes)})" for one in facts.broadcasts) or "nothing"
    collected = ", ".join(f"{one.what} ({in_words(one.bytes)})" for one in facts.collects) or "counts alone"
    return HealthOutcome(
        rule=DRIVER_IS_SAFE,
        table=facts.table,
        status=status,
        message="; ".join(problems) or f"broadcast: {planned}; collected: {collected}",
        measure=float(broadcast),
        measures={
            "broadcast_bytes": broadcast,
            "forced_broadcasts": len(forced_ones),
            "collect_bytes": sum(one.bytes for one in facts.collects),
            "driver_memory_bytes": facts.memory_bytes,
            "max_result_bytes": facts.max_result_bytes,
            "auto_broadcast_bytes": facts.broadcast_bytes,
        },
        fixes=()
        if status is Status.HEALTHY
        else (
            *(("take the broadcast hint out of the build, so that Spark decides by size",) if forced_ones else ()),
            "collect less: aggregate in Spark, and take counts and a few samples",
            "lower spark.sql.autoBroadcastJoinThreshold, so that large sides are shuffled",
            "raise DWH_DRIVER_MEMORY or spark.driver.maxResultSize last",
        ),
    )


def _driver_problems(facts: DriverFacts, limits: Limits) -> list[str]:
    room = facts.memory_bytes * limits.broadcast_memory_share
    share, memory = f"{limits.broadcast_memory_share:.0%}", in_words(facts.memory_bytes)
    threshold = in_words(facts.broadcast_bytes)
    problems = []
    for one in facts.broadcasts:
        told = f"{'forced ' if one.is_forced else ''}broadcast of {one.side} ({in_words(one.bytes)})"
        if one.bytes > room:
            problems.append(f"{told} is over {share} of the driver's memory ({memory})")
        elif one.is_forced and one.bytes > facts.broadcast_bytes:
            problems.append(f"{told} is over autoBroadcastJoinThreshold ({threshold})")
    if facts.broadcast_bytes > room:
        problems.append(
            f"autoBroadcastJoinThreshold ({threshold}) lets Spark broadcast more than {share} of the driver's memory "
            f"({memory})"
        )
    if not 0 < facts.max_result_bytes <= facts.memory_bytes:
        limit = in_words(facts.max_result_bytes) if facts.max_result_bytes else "unlimited"
        problems.append(
            f"spark.driver.maxResultSize ({limit}) does not keep a collect from filling the driver's memory ({memory})"
        )
    most = facts.max_result_bytes * limits.collect_result_share
    return problems + [
        f"collecting {one.what} ({in_words(one.bytes)}) comes close to maxResultSize"
        for one in facts.collects
        if 0 < most < one.bytes
    ]


def repair_is_ready(facts: RepairFacts, _limits: Limits) -> HealthOutcome:
    """Whether the table can be loaded again: the last load ended well, or its inputs are still there."""
    gone = [one for one in facts.inputs if not one.is_readable]
    problems = [] if facts.proof else ["no test is named that proves its write idempotent"]
    if facts.failed is not None:
        ended = facts.failed.error or "it was killed"
        problems.append(
            f"the load by {facts.failed.holder} since {facts.failed.since} UTC did not come to its end: {ended}"
        )
    problems += [f"{one.table} can no longer be read as it was then (version {one.version})" for one in gone]
    would_run = ", ".join(facts.would_run)
    return HealthOutcome(
        rule=REPAIR_IS_READY,
        table=facts.table,
        status=Status.WARN if problems else Status.HEALTHY,
        message="; ".join(problems) or "the last load came to its end; loading again is safe and changes nothing",
        measure=float(len(problems)),
        measures={
            "proven_by": facts.proof or "",
            "would_run": would_run,
            "inputs": ", ".join(f"{one.table} version {one.version}" for one in facts.inputs),
        },
        fixes=(
            *(("name the test in loads/health.py, or write it",) if not facts.proof else ()),
            *(
                (
                    "find the cause: the message of the load, its log, or the run on the page",
                    "fix it",
                    f"re-execute from failure, or dwh run: {would_run} are loaded again from what is stored now",
                )
                if facts.failed
                else ()
            ),
            *(
                ("what an input was then is gone, so only its newest version can be used: raise its retention",)
                if gone
                else ()
            ),
        ),
    )


def in_words(size: float) -> str:
    """Bytes as people read them."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:  # noqa: PLR2004
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def _number(count: int, one: str, many: str | None = None) -> str:
    """A number and what it counts, as people write it."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def _whole(days: float) -> int:
    return -int(-days // 1)
