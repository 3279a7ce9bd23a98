"""The health rules on facts made by hand: what is healthy, what is not, and what is exactly on the line.

And what their outcomes lead to: the upkeep of a table, and an exit code.
"""

from dataclasses import replace

import pytest

from dwh_pipeline.contracts.health import (
    MIB,
    Broadcast,
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
    Status,
    StreamFacts,
)
from dwh_pipeline.quality.health import (
    RULES,
    driver_is_safe,
    files_are_not_small,
    in_words,
    merge_source_has_one_row_per_key,
    no_key_is_hot,
    not_there,
    repair_is_ready,
    retention_is_safe,
    stream_can_recover,
)
from dwh_pipeline.quality.maintenance import Upkeep, actions
from dwh_pipeline.reports import exit_code

_LIMITS = Limits()
_HEALTHY, _NOTED, _WARN, _ERROR = Status.HEALTHY, Status.NOTED, Status.WARN, Status.ERROR

_JOIN = KeyUse(("client_id", "customer_id"), "join with the customer", "gold.dim_customer")
_WINDOW = KeyUse(("order_id",), "window over the changes of an order")

_FILES = FileFacts("silver.customer", files=1, bytes=3 * 1024)
_RETENTION = RetentionFacts(
    "silver.customer", deleted_file_days=7, log_days=30, is_checked=True, needs=(Need("the stream", 7),)
)
_KEYS = KeyFacts(
    table="silver.sales_order",
    use=_JOIN,
    rows=10_000,
    blank_rows=0,
    unknown_rows=0,
    top_key="100 4711",
    top_rows=500,
    dimension_is_unique=True,
    adaptive=None,
)
_BATCH = MergeSourceFacts(
    table="bronze.kna1",
    target="silver.customer",
    is_pending=True,
    deliveries=1,
    rows=10,
    keys=9,
    repeats=0,
    conflicting=0,
    samples=(),
)
_STREAM = StreamFacts("bronze.kna1", "kna1", ())
_DRIVER = DriverFacts(
    table="gold.fct_order_line",
    broadcasts=(Broadcast("gold.dim_customer", 2 * MIB, is_forced=False),),
    collects=(Collect("outcomes by delivery", MIB),),
    memory_bytes=1024 * MIB,
    max_result_bytes=512 * MIB,
    broadcast_bytes=10 * MIB,
)
_REPAIR = RepairFacts(
    table="silver.customer",
    proof="test_crash_points",
    failed=None,
    inputs=(InputVersion("bronze.kna1", 4, is_readable=True),),
    would_run=("silver.customer", "gold.dim_customer"),
)
_FAILED = FailedLoad("process 17 on etl", "2024-05-01 10:00:00", "the disk is full")


@pytest.mark.parametrize(
    ("files", "size", "status"),
    [
        pytest.param(0, 0, _HEALTHY, id="no files"),
        pytest.param(1, 3 * 1024, _HEALTHY, id="one tiny file"),
        pytest.param(31, 31 * 1024, _HEALTHY, id="one file fewer than many"),
        pytest.param(5_000, 5_000 * 40 * 1024, _WARN, id="thousands of small files"),
        pytest.param(32, 32 * 16 * MIB - 1, _WARN, id="a byte under 16 MiB on average"),
        pytest.param(32, 32 * 16 * MIB, _NOTED, id="exactly 16 MiB on average"),
        pytest.param(32, 32 * 64 * MIB - 1, _NOTED, id="a byte under 64 MiB on average"),
        pytest.param(32, 32 * 64 * MIB, _HEALTHY, id="exactly 64 MiB on average"),
    ],
)
def test_h01_only_many_files_that_are_small_on_average_are_a_problem(files: int, size: int, status: Status) -> None:
    assert files_are_not_small(replace(_FILES, files=files, bytes=size), _LIMITS).status is status


def test_h01_a_table_without_files_has_an_average_of_0() -> None:
    outcome = files_are_not_small(replace(_FILES, files=0, bytes=0, small_files=0), _LIMITS)
    assert outcome.measures["average_bytes"] == 0
    assert "under 16 MiB" not in outcome.message


def test_h01_small_files_are_compacted_first_and_vacuum_is_said_to_be_no_cure() -> None:
    outcome = files_are_not_small(replace(_FILES, files=5_000, bytes=200_000_000, small_files=4_000), _LIMITS)
    assert "5000 files" in outcome.message
    assert "80% under 16 MiB" in outcome.message
    assert "OPTIMIZE" in outcome.fixes[0]
    assert "VACUUM is no cure" in outcome.fixes[-1]


def test_files_are_judged_by_the_limits_that_are_set() -> None:
    strict = Limits(small_files_min_count=2, small_file_bytes=1024, good_file_bytes=2048)
    assert files_are_not_small(replace(_FILES, files=2, bytes=2047), strict).status is _WARN
    assert files_are_not_small(replace(_FILES, files=2, bytes=2048), strict).status is _NOTED
    assert files_are_not_small(replace(_FILES, files=2, bytes=4096), strict).status is _HEALTHY


@pytest.mark.parametrize(
    ("deleted_file_days", "log_days", "status"),
    [(7.0, 30.0, _HEALTHY), (7.0, 7.0, _HEALTHY), (6.9, 30.0, _WARN), (7.0, 6.9, _WARN), (8.0, 30.0, _HEALTHY)],
)
def test_retention_is_enough_when_it_is_as_long_as_the_longest_need(
    deleted_file_days: float, log_days: float, status: Status
) -> None:
    facts = replace(_RETENTION, deleted_file_days=deleted_file_days, log_days=log_days)
    assert retention_is_safe(facts, _LIMITS).status is status


def test_retention_that_is_too_short_names_the_need_and_is_raised_before_a_vacuum() -> None:
    outcome = retention_is_safe(replace(_RETENTION, deleted_file_days=6.9), _LIMITS)
    assert "removed files are kept for 6.9 days, but the stream needs 7" in outcome.message
    raises, vacuums = outcome.fixes
    assert "raise retention before any VACUUM" in raises
    assert "'delta.deletedFileRetentionDuration' = 'interval 7 days'" in raises
    assert "then VACUUM" in vacuums


def test_the_retention_that_a_fix_asks_for_meets_a_need_of_part_of_a_day_and_never_shortens_the_log() -> None:
    outcome = retention_is_safe(replace(_RETENTION, needs=(Need("a replay", 9.2), Need("the stream", 1))), _LIMITS)
    assert "'delta.deletedFileRetentionDuration' = 'interval 10 days'" in outcome.fixes[0]
    assert "'delta.logRetentionDuration' = 'interval 30 days'" in outcome.fixes[0]
    assert "the stream" not in outcome.message


def test_the_retention_that_a_fix_asks_for_never_shortens_removed_files() -> None:
    outcome = retention_is_safe(replace(_RETENTION, deleted_file_days=40, log_days=5), _LIMITS)
    assert outcome.status is _WARN
    assert "'delta.deletedFileRetentionDuration' = 'interval 40 days'" in outcome.fixes[0]


def test_a_retention_check_that_is_off_is_an_error_however_long_files_are_kept() -> None:
    outcome = retention_is_safe(replace(_RETENTION, is_checked=False), _LIMITS)
    assert outcome.status is _ERROR
    assert "check is off" in outcome.message
    assert [fix for fix in outcome.fixes if "retentionDurationCheck.enabled to true" in fix] == list(outcome.fixes)


def test_a_retention_check_is_switched_on_before_retention_is_raised() -> None:
    outcome = retention_is_safe(replace(_RETENTION, is_checked=False, deleted_file_days=1), _LIMITS)
    assert outcome.status is _ERROR
    assert ["Check" in outcome.fixes[0], "raise retention" in outcome.fixes[1]] == [True, True]


def test_retention_that_nobody_needs_is_enough() -> None:
    assert retention_is_safe(replace(_RETENTION, needs=(), deleted_file_days=0), _LIMITS).status is _HEALTHY


@pytest.mark.parametrize(
    ("rows", "top_rows", "status"),
    [
        pytest.param(10_000, 500, _HEALTHY, id="exactly 5 %"),
        pytest.param(10_000, 501, _NOTED, id="above 5 %"),
        pytest.param(10_000, 1_000, _NOTED, id="exactly 10 %"),
        pytest.param(10_000, 1_001, _WARN, id="above 10 %"),
        pytest.param(9_999, 9_999, _HEALTHY, id="a row fewer than are judged"),
    ],
)
def test_a_key_is_hot_above_its_share_of_enough_rows(rows: int, top_rows: int, status: Status) -> None:
    assert no_key_is_hot(replace(_KEYS, rows=rows, top_rows=top_rows), _LIMITS).status is status


def test_too_few_rows_are_said_to_be_too_few() -> None:
    assert "too few rows to judge" in no_key_is_hot(replace(_KEYS, rows=9_999), _LIMITS).message
    assert "too few rows" not in no_key_is_hot(_KEYS, _LIMITS).message


def test_h03_blank_and_unknown_keys_are_told_apart_and_are_not_hot_keys() -> None:
    blank = no_key_is_hot(replace(_KEYS, blank_rows=6_000, top_rows=200), _LIMITS)
    unknown = no_key_is_hot(replace(_KEYS, unknown_rows=6_000, top_rows=200), _LIMITS)
    assert [blank.status, unknown.status] == [_HEALTHY, _HEALTHY]
    assert "60.0% of all rows have a blank key" in blank.message
    assert "60.0% of all rows have the unknown key" in unknown.message
    assert [blank.measures["blank_rows"], unknown.measures["unknown_rows"]] == [6_000, 6_000]


def test_the_share_of_a_key_is_that_among_the_rows_that_have_one() -> None:
    outcome = no_key_is_hot(replace(_KEYS, blank_rows=3_000, unknown_rows=3_000, top_rows=1_000), _LIMITS)
    assert outcome.measure == 0.25
    assert outcome.status is _WARN


@pytest.mark.parametrize("blank_rows", [0, 10_000])
def test_a_table_in_which_no_row_has_a_key_has_no_hot_key(blank_rows: int) -> None:
    facts = replace(_KEYS, rows=blank_rows, blank_rows=blank_rows, top_key=None, top_rows=0)
    outcome = no_key_is_hot(facts, _LIMITS)
    assert [outcome.status, outcome.measure] == [_HEALTHY, 0.0]
    assert "no row has a key" in outcome.message


def test_for_a_hot_key_adaptive_execution_is_named_before_salting_and_so_is_why_it_will_not_help() -> None:
    fixes = no_key_is_hot(replace(_KEYS, top_rows=5_000, adaptive="the join is switched off"), _LIMITS).fixes
    assert "adaptive execution" in fixes[0]
    assert fixes[0].endswith("it will not: the join is switched off")
    assert "salt the key only then" in fixes[-1]
    able = no_key_is_hot(replace(_KEYS, top_rows=5_000), _LIMITS).fixes
    assert "adaptive execution can split this join" in able[0]


def test_a_hot_key_that_is_not_unique_in_its_dimension_is_mended_there_before_it_is_salted() -> None:
    fixes = no_key_is_hot(replace(_KEYS, top_rows=5_000, dimension_is_unique=False), _LIMITS).fixes
    assert "the key is not unique in gold.dim_customer: mend that first" in fixes[1]
    assert "the key is unique in gold.dim_customer" in no_key_is_hot(replace(_KEYS, top_rows=5_000), _LIMITS).fixes[1]


def test_a_hot_key_of_a_window_is_not_salted() -> None:
    facts = replace(_KEYS, use=_WINDOW, top_rows=5_000, dimension_is_unique=None)
    assert "salting does not help" in no_key_is_hot(facts, _LIMITS).fixes[-1]


@pytest.mark.parametrize(
    ("repeats", "conflicting", "status"),
    [(0, 0, _HEALTHY), (1, 0, _NOTED), (0, 1, _WARN), (5, 1, _WARN)],
)
def test_repeats_in_a_batch_are_noted_and_conflicts_warned_of(repeats: int, conflicting: int, status: Status) -> None:
    outcome = merge_source_has_one_row_per_key(replace(_BATCH, repeats=repeats, conflicting=conflicting), _LIMITS)
    assert outcome.status is status
    assert outcome.measure == repeats + conflicting


def test_a_conflict_is_answered_with_the_total_order_before_the_source_is_asked() -> None:
    outcome = merge_source_has_one_row_per_key(replace(_BATCH, conflicting=1, samples=("key 1",)), _LIMITS)
    assert "total order change_seq, operation (upsert, archiving, deletion), larger content hash" in outcome.fixes[0]
    assert "ask the source" in outcome.fixes[1]
    assert outcome.samples == ("key 1",)


def test_a_batch_is_said_to_be_pending_or_loaded_or_not_there() -> None:
    assert "1 delivery pending" in merge_source_has_one_row_per_key(_BATCH, _LIMITS).message
    assert "loaded last" in merge_source_has_one_row_per_key(replace(_BATCH, is_pending=False), _LIMITS).message
    nothing = merge_source_has_one_row_per_key(replace(_BATCH, deliveries=0, rows=0, keys=0), _LIMITS)
    assert nothing.status is _HEALTHY
    assert "nothing has been delivered" in nothing.message


@pytest.mark.parametrize("problems", [0, 1, 2])
def test_a_stream_with_any_problem_is_an_error(problems: int) -> None:
    facts = replace(_STREAM, problems=tuple((f"problem {n}", "start a new checkpoint") for n in range(problems)))
    outcome = stream_can_recover(facts, _LIMITS)
    assert outcome.status is (_ERROR if problems else _HEALTHY)
    assert outcome.measure == problems


def test_a_stream_is_looked_at_and_its_safe_repair_said_once_before_it_is_applied() -> None:
    facts = replace(_STREAM, problems=(("offsets are gone", "begin anew"), ("commits are gone", "begin anew")))
    outcome = stream_can_recover(facts, _LIMITS)
    assert outcome.message == "offsets are gone; commits are gone"
    assert outcome.fixes == (
        "look: dwh recover-stream kna1",
        "repair: begin anew",
        "let it be done: dwh recover-stream kna1 --apply",
    )


@pytest.mark.parametrize(
    ("size", "is_forced", "status"),
    [
        pytest.param(2 * MIB, False, _HEALTHY, id="Spark decided"),
        pytest.param(2 * MIB, True, _NOTED, id="forced, small"),
        pytest.param(10 * MIB, True, _NOTED, id="forced, exactly the threshold"),
        pytest.param(10 * MIB + 1, True, _WARN, id="forced, a byte over the threshold"),
        pytest.param(256 * MIB, False, _HEALTHY, id="exactly a quarter of the memory"),
        pytest.param(256 * MIB + 1, False, _WARN, id="a byte over a quarter of the memory"),
    ],
)
def test_a_broadcast_is_too_large_over_the_threshold_if_forced_and_over_its_share_of_memory(
    size: int, is_forced: bool, status: Status
) -> None:
    facts = replace(_DRIVER, broadcasts=(Broadcast("gold.dim_customer", size, is_forced),))
    assert driver_is_safe(facts, _LIMITS).status is status


def test_a_forced_broadcast_names_the_table_the_side_and_its_size_and_its_hint_goes_first() -> None:
    outcome = driver_is_safe(
        replace(_DRIVER, broadcasts=(Broadcast("gold.dim_customer", 11 * MIB, is_forced=True),)), _LIMITS
    )
    assert outcome.table == "gold.fct_order_line"
    assert (
        "forced broadcast of gold.dim_customer (11.0 MiB) is over autoBroadcastJoinThreshold (10.0 MiB)"
        in outcome.message
    )
    assert "take the broadcast hint out" in outcome.fixes[0]


def test_h03_a_forced_broadcast_that_has_grown_to_3_gib_is_warned_of() -> None:
    grown = replace(_DRIVER, broadcasts=(Broadcast("gold.dim_customer", 3 * 1024 * MIB, is_forced=True),))
    outcome = driver_is_safe(grown, _LIMITS)
    assert outcome.status is _WARN
    assert "gold.dim_customer (3.0 GiB) is over 25% of the driver's memory (1.0 GiB)" in outcome.message


@pytest.mark.parametrize(
    ("max_result_bytes", "status"),
    [(0, _WARN), (512 * MIB, _HEALTHY), (1024 * MIB, _HEALTHY), (1024 * MIB + 1, _WARN)],
)
def test_max_result_size_has_to_keep_a_collect_within_the_memory(max_result_bytes: int, status: Status) -> None:
    assert driver_is_safe(replace(_DRIVER, max_result_bytes=max_result_bytes), _LIMITS).status is status


def test_no_limit_of_results_is_said_to_be_unlimited() -> None:
    assert "maxResultSize (unlimited)" in driver_is_safe(replace(_DRIVER, max_result_bytes=0), _LIMITS).message


@pytest.mark.parametrize(("size", "status"), [(256 * MIB, _HEALTHY), (256 * MIB + 1, _WARN)])
def test_a_collect_may_take_half_of_max_result_size(size: int, status: Status) -> None:
    outcome = driver_is_safe(replace(_DRIVER, collects=(Collect("files of a feed", size),)), _LIMITS)
    assert outcome.status is status
    assert "files of a feed" in outcome.message


@pytest.mark.parametrize(("threshold", "status"), [(-1, _HEALTHY), (256 * MIB, _HEALTHY), (256 * MIB + 1, _WARN)])
def test_the_threshold_itself_must_not_allow_more_than_its_share_of_memory(threshold: int, status: Status) -> None:
    assert driver_is_safe(replace(_DRIVER, broadcast_bytes=threshold), _LIMITS).status is status


def test_a_limit_of_the_driver_is_raised_last() -> None:
    fixes = driver_is_safe(replace(_DRIVER, max_result_bytes=0), _LIMITS).fixes
    assert ["raise" in fix for fix in fixes] == [False] * (len(fixes) - 1) + [True]


def test_a_table_whose_last_load_came_to_its_end_is_ready() -> None:
    assert repair_is_ready(_REPAIR, _LIMITS).status is _HEALTHY
    assert repair_is_ready(replace(_REPAIR, inputs=()), _LIMITS).status is _HEALTHY


def test_a_failed_load_names_its_cause_and_what_would_run() -> None:
    outcome = repair_is_ready(replace(_REPAIR, failed=_FAILED), _LIMITS)
    assert outcome.status is _WARN
    assert "process 17 on etl since 2024-05-01 10:00:00 UTC" in outcome.message
    assert outcome.message.endswith("the disk is full")
    assert outcome.fixes[0].startswith("find the cause")
    assert "silver.customer, gold.dim_customer are loaded again" in outcome.fixes[2]


def test_a_load_without_an_error_is_said_to_be_killed() -> None:
    assert "it was killed" in repair_is_ready(replace(_REPAIR, failed=replace(_FAILED, error=None)), _LIMITS).message


def test_an_input_that_is_gone_is_named_with_its_version() -> None:
    gone = InputVersion("bronze.kna1", 4, is_readable=False)
    outcome = repair_is_ready(replace(_REPAIR, failed=_FAILED, inputs=(gone,)), _LIMITS)
    assert [outcome.status, outcome.measure] == [_WARN, 2.0]
    assert "bronze.kna1 can no longer be read as it was then (version 4)" in outcome.message
    assert "raise its retention" in outcome.fixes[-1]


def test_a_table_without_a_proof_is_not_ready() -> None:
    outcome = repair_is_ready(replace(_REPAIR, proof=None), _LIMITS)
    assert outcome.status is _WARN
    assert "name the test" in outcome.fixes[0]


_OUTCOMES = [
    *(files_are_not_small(replace(_FILES, files=32, bytes=32 * size * MIB), _LIMITS) for size in (1, 16, 64)),
    *(
        retention_is_safe(replace(_RETENTION, deleted_file_days=days, is_checked=is_checked), _LIMITS)
        for days in (6, 7)
        for is_checked in (True, False)
    ),
    *(
        no_key_is_hot(replace(_KEYS, top_rows=rows, dimension_is_unique=unique), _LIMITS)
        for rows in (500, 1_000, 2_000)
        for unique in (True, False, None)
    ),
    *(
        merge_source_has_one_row_per_key(replace(_BATCH, repeats=repeats, conflicting=conflicting), _LIMITS)
        for repeats in (0, 1)
        for conflicting in (0, 1)
    ),
    *(stream_can_recover(replace(_STREAM, problems=problems), _LIMITS) for problems in ((), (("gone", "anew"),))),
    *(
        driver_is_safe(
            replace(_DRIVER, max_result_bytes=most, broadcasts=(Broadcast("kna1", MIB, is_forced=forced),)), _LIMITS
        )
        for most in (0, MIB * 512)
        for forced in (True, False)
    ),
    *(
        repair_is_ready(
            replace(_REPAIR, proof=proof, failed=failed, inputs=(InputVersion("bronze.kna1", 4, readable),)), _LIMITS
        )
        for proof in ("a test", None)
        for failed in (_FAILED, None)
        for readable in (True, False)
    ),
    *(not_there(rule, "silver.customer") for rule in RULES),
]


@pytest.mark.parametrize("outcome", _OUTCOMES, ids=lambda outcome: f"{outcome.rule.name} {outcome.status}")
def test_what_is_not_healthy_has_a_fix_and_what_is_healthy_has_none(outcome: HealthOutcome) -> None:
    assert bool(outcome.fixes) is (outcome.status is not _HEALTHY)


def test_every_rule_has_answers_that_are_healthy_and_that_are_not() -> None:
    judged = {(outcome.rule, outcome.status is _HEALTHY) for outcome in _OUTCOMES}
    assert judged == {(rule, is_healthy) for rule in RULES for is_healthy in (True, False)}


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (MIB, "1.0 MiB"), (-1, "-1 bytes")]
)
def test_sizes_are_told_in_the_largest_unit_that_they_fill(size: int, words: str) -> None:
    assert in_words(size) == words


def test_the_exit_code_is_that_of_the_worst_outcome() -> None:
    noted, warned = (
        merge_source_has_one_row_per_key(replace(_BATCH, repeats=1, conflicting=n), _LIMITS) for n in (0, 1)
    )
    wrong = stream_can_recover(replace(_STREAM, problems=(("offsets are gone", "begin anew"),)), _LIMITS)
    assert [exit_code([], strict=True), exit_code([noted], strict=True)] == [0, 0]
    assert [exit_code([noted, warned], strict=strict) for strict in (False, True)] == [0, 1]
    assert [exit_code([warned, wrong, noted], strict=strict) for strict in (False, True)] == [2, 2]


@pytest.mark.parametrize(
    ("rows", "retention", "repair", "planned"),
    [
        pytest.param(90, _RETENTION, _REPAIR, dict.fromkeys(Upkeep), id="exactly the share of deleted rows"),
        pytest.param(91, _RETENTION, _REPAIR, {Upkeep.OPTIMIZE: None, Upkeep.VACUUM: None}, id="a row too many"),
        pytest.param(
            90,
            replace(_RETENTION, deleted_file_days=1),
            _REPAIR,
            {Upkeep.OPTIMIZE: None, Upkeep.PURGE: None, Upkeep.VACUUM: "retention_is_safe"},
            id="files are removed too early",
        ),
        pytest.param(
            90,
            _RETENTION,
            replace(_REPAIR, failed=_FAILED),
            dict.fromkeys(Upkeep, "repair_is_ready"),
            id="after a failed load",
        ),
    ],
)
def test_upkeep_is_refused_where_somebody_needs_what_it_would_remove(
    rows: int, retention: RetentionFacts, repair: RepairFacts, planned: dict[Upkeep, str | None]
) -> None:
    files = FileFacts("silver.customer", 40, 40_000, small_files=40, deleted_rows=10, deletion_vectors=3)
    found = actions(
        files,
        rows=rows,
        unused_files=5,
        small=files_are_not_small(files, _LIMITS),
        retention=retention_is_safe(retention, _LIMITS),
        repair=repair_is_ready(repair, _LIMITS),
        limits=_LIMITS,
    )
    assert {one.upkeep: one.refused and one.refused.split(":")[0] for one in found} == planned
    assert [one.upkeep for one in found] == [kind for kind in Upkeep if kind in planned]


def test_a_table_that_needs_nothing_has_no_upkeep() -> None:
    assert not actions(
        _FILES,
        rows=10,
        unused_files=0,
        small=files_are_not_small(_FILES, _LIMITS),
        retention=retention_is_safe(replace(_RETENTION, is_checked=False), _LIMITS),
        repair=None,
        limits=_LIMITS,
    )
