"""Each health rule: a table that passes, one that does not, and one on the line. Plain facts, no Spark."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

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
from dwh_pipeline.quality import health
from dwh_pipeline.quality.maintenance import Upkeep, actions
from dwh_pipeline.reports import exit_code

_LIMITS = Limits()
_GIB = 1024 * MIB
_JOIN = KeyUse(("client_id", "order_id"), "the join with headers", "silver.sales_order")
_KEYS = KeyFacts("silver.sales_order_line", _JOIN, 100_000, 0, 0, "100 4711", 1_000, True, None)
_MERGE = MergeSourceFacts("bronze.sap_kna1", "silver.customer", True, 1, 10, 5, 0, 0, ())
_DRIVER = DriverFacts("gold.fct_order_line", (), (), 2 * _GIB, 256 * MIB, 10 * MIB)
_REPAIR = RepairFacts("gold.fct_order_line", "a test", None, (), ("gold.fct_order_line", "gold.agg_revenue_month"))
_FAILED = FailedLoad("process 7 on host", "2026-04-01 10:00:00", "the disk is full")


def _files(count: int, average: float) -> HealthOutcome:
    return health.files_are_not_small(FileFacts("t", count, round(count * average)), _LIMITS)


def _retention(kept: float, need: float, *, checked: bool = True) -> HealthOutcome:
    facts = RetentionFacts("gold.dim_customer", kept, 30.0, checked, (Need("a replay", need),))
    return health.retention_is_safe(facts, _LIMITS)


def _keys(**changed: Any) -> HealthOutcome:
    return health.no_key_is_hot(replace(_KEYS, **changed), _LIMITS)


def _merge(**changed: Any) -> HealthOutcome:
    return health.merge_source_has_one_row_per_key(replace(_MERGE, **changed), _LIMITS)


def _stream(*problems: tuple[str, str]) -> HealthOutcome:
    return health.stream_can_recover(StreamFacts("bronze.sap_vbak", "orders", problems), _LIMITS)


def _driver(**changed: Any) -> HealthOutcome:
    return health.driver_is_safe(replace(_DRIVER, **changed), _LIMITS)


def _forced(size: int) -> tuple[Broadcast, ...]:
    return (Broadcast("gold.dim_customer", size, is_forced=True),)


def _repair(**changed: Any) -> HealthOutcome:
    return health.repair_is_ready(replace(_REPAIR, **changed), _LIMITS)


_CASES: dict[str, tuple[Callable[[], HealthOutcome], Status]] = {
    "h01 one file of 3 KB": (lambda: _files(1, 3_000), Status.HEALTHY),
    "h01 no file": (lambda: _files(0, 0), Status.HEALTHY),
    "h01 5,000 files of 40 KB": (lambda: _files(5_000, 40_000), Status.WARN),
    "31 tiny files": (lambda: _files(31, 1_000), Status.HEALTHY),
    "32 tiny files": (lambda: _files(32, 1_000), Status.WARN),
    "just under 16 MiB": (lambda: _files(32, 16 * MIB - 1), Status.WARN),
    "exactly 16 MiB": (lambda: _files(32, 16 * MIB), Status.NOTED),
    "exactly 64 MiB": (lambda: _files(32, 64 * MIB), Status.HEALTHY),
    "kept as long as needed": (lambda: _retention(7, 7), Status.HEALTHY),
    "kept a little shorter": (lambda: _retention(6.9, 7), Status.WARN),
    "check switched off": (lambda: _retention(7, 7, checked=False), Status.ERROR),
    "even keys": (_keys, Status.HEALTHY),
    "exactly 5 %": (lambda: _keys(top_rows=5_000), Status.HEALTHY),
    "over 5 %": (lambda: _keys(top_rows=5_001), Status.NOTED),
    "exactly 10 %": (lambda: _keys(top_rows=10_000), Status.NOTED),
    "over 10 %": (lambda: _keys(top_rows=10_001), Status.WARN),
    "h03 60 % without a customer": (lambda: _keys(blank_rows=30_000, unknown_rows=30_000), Status.HEALTHY),
    "h03 no row": (lambda: _keys(rows=0, top_key=None, top_rows=0), Status.HEALTHY),
    "hot, one row too few": (lambda: _keys(rows=9_999, top_rows=9_000), Status.HEALTHY),
    "hot, rows enough": (lambda: _keys(rows=10_000, top_rows=9_000), Status.WARN),
    "one row per change": (_merge, Status.HEALTHY),
    "nothing delivered": (lambda: _merge(deliveries=0, rows=0, keys=0), Status.HEALTHY),
    "one repeat": (lambda: _merge(repeats=1), Status.NOTED),
    "one conflict": (lambda: _merge(conflicting=1), Status.WARN),
    "whole checkpoint": (_stream, Status.HEALTHY),
    "damaged checkpoint": (lambda: _stream(("metadata is missing", "start a new checkpoint")), Status.ERROR),
    "counts alone": (_driver, Status.HEALTHY),
    "forced, up to the threshold": (lambda: _driver(broadcasts=_forced(10 * MIB)), Status.NOTED),
    "h03 forced, grown to 3 GB": (lambda: _driver(broadcasts=_forced(3 * _GIB)), Status.WARN),
    "forced, over the threshold": (lambda: _driver(broadcasts=_forced(10 * MIB + 1)), Status.WARN),
    "threshold of a quarter": (lambda: _driver(broadcast_bytes=_GIB // 2), Status.HEALTHY),
    "threshold over a quarter": (lambda: _driver(broadcast_bytes=_GIB // 2 + 1), Status.WARN),
    "results without limit": (lambda: _driver(max_result_bytes=0), Status.WARN),
    "collect of half the limit": (lambda: _driver(collects=(Collect("x", 128 * MIB),)), Status.HEALTHY),
    "collect over half the limit": (lambda: _driver(collects=(Collect("x", 128 * MIB + 1),)), Status.WARN),
    "came to its end": (_repair, Status.HEALTHY),
    "no proof": (lambda: _repair(proof=None), Status.WARN),
    "failed, inputs there": (
        lambda: _repair(failed=_FAILED, inputs=(InputVersion("silver.customer", 3, is_readable=True),)),
        Status.WARN,
    ),
    "failed, input gone": (
        lambda: _repair(failed=_FAILED, inputs=(InputVersion("silver.customer", 3, is_readable=False),)),
        Status.WARN,
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_a_rule_judges_by_its_limits(case: str) -> None:
    ask, wanted = _CASES[case]
    assert ask().status is wanted


@pytest.mark.parametrize("case", _CASES)
def test_what_is_not_healthy_names_what_to_do_and_nothing_else_does(case: str) -> None:
    outcome = _CASES[case][0]()
    assert bool(outcome.fixes) is (outcome.status is not Status.HEALTHY)


def test_small_files_are_compacted_before_anything() -> None:
    assert "OPTIMIZE" in _files(5_000, 40_000).fixes[0]


def test_retention_is_raised_before_a_vacuum_and_the_need_is_named() -> None:
    outcome = _retention(1, 7)
    assert "a replay" in outcome.message
    assert "ALTER TABLE gold.dim_customer" in outcome.fixes[0]
    assert "'interval 7 days'" in outcome.fixes[0]
    assert "VACUUM" in outcome.fixes[1]


def test_h03_blank_and_unknown_keys_are_told_apart() -> None:
    outcome = _keys(blank_rows=40_000, unknown_rows=20_000, top_rows=10)
    assert "40.0% of all rows have a blank key; 20.0% of all rows have the unknown key" in outcome.message
    assert outcome.measure == pytest.approx(10 / 40_000)


def test_for_a_hot_key_adaptive_execution_comes_first_and_salting_last() -> None:
    fixes = _keys(top_rows=50_000, adaptive="spark.sql.adaptive.enabled is off", dimension_is_unique=False).fixes
    assert "adaptive" in fixes[0]
    assert "spark.sql.adaptive.enabled is off" in fixes[0]
    assert "not unique in silver.sales_order" in fixes[1]
    assert "salt" in fixes[-1]


def test_duplicates_name_the_total_order_that_was_used() -> None:
    assert "change_seq, operation (upsert, archiving, deletion), larger content hash" in _merge(conflicting=2).fixes[0]


def test_for_the_driver_a_limit_is_raised_last_and_table_and_size_are_named() -> None:
    outcome = _driver(broadcasts=_forced(3 * _GIB))
    assert "gold.dim_customer (3.0 GiB)" in outcome.message
    assert "broadcast hint" in outcome.fixes[0]
    assert "raise" in outcome.fixes[-1]


def test_a_repair_goes_from_the_cause_over_its_removal_to_the_re_execution() -> None:
    outcome = _repair(failed=_FAILED)
    assert "the disk is full" in outcome.message
    assert [fix.split(":")[0] for fix in outcome.fixes] == [
        "find the cause",
        "fix it",
        "re-execute from failure, or dwh run",
    ]
    assert "gold.agg_revenue_month" in outcome.fixes[-1]
    assert "it was killed" in _repair(failed=replace(_FAILED, error=None)).message


def test_the_exit_code_is_that_of_the_worst_outcome() -> None:
    noted, warned, wrong = _merge(repeats=1), _merge(conflicting=1), _stream(("x", "y"))
    assert [exit_code([noted], strict=True), exit_code([warned], strict=False)] == [0, 0]
    assert [exit_code([noted, warned], strict=True), exit_code([warned, wrong], strict=False)] == [1, 2]


def test_upkeep_is_planned_where_needed_and_refused_where_somebody_needs_what_it_removes() -> None:
    facts = FileFacts("t", 40, 40_000, small_files=40, deleted_rows=10, deletion_vectors=3)
    well = {"small": _files(40, 1_000), "retention": _retention(7, 7), "repair": _repair()}
    planned = actions(facts, rows=90, unused_files=5, **well, limits=_LIMITS)
    assert [(one.upkeep, one.refused) for one in planned] == [(kind, None) for kind in Upkeep]
    unsafe = actions(facts, rows=90, unused_files=5, **(well | {"retention": _retention(1, 7)}), limits=_LIMITS)
    assert [one.refused is None for one in unsafe] == [True, True, False]
    failed = actions(facts, rows=90, unused_files=5, **(well | {"repair": _repair(failed=_FAILED)}), limits=_LIMITS)
    assert all(one.refused for one in failed)
    few_deleted = replace(facts, deleted_rows=9)
    assert Upkeep.PURGE not in {
        one.upkeep for one in actions(few_deleted, rows=91, unused_files=0, **well, limits=_LIMITS)
    }
