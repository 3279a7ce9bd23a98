"""Runs of the job `load_warehouse`: real Spark, real Delta, a Dagster instance in a folder of its own.

A load costs seconds, so one story is told once and looked at from several sides: an empty lake, a run in which the
order lines fail, a re-execution in which the fact fails, and one that comes through.
"""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from typing import NoReturn

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.definitions import defs
from dwh_pipeline.loads import gold_load
from dwh_pipeline.tables import load_ledger, quarantine, sales_order_line
from dwh_pipeline.tables.registry import LOADED
from dwh_pipeline_tests.landings import CUSTOMER_COLUMNS
from dwh_pipeline_tests.warehouse import Warehouse, rows_of

_LINES, _FACT, _AGGREGATE = "silver/sales_order_line", "gold/fct_order_line", "gold/agg_revenue_month"
_FACT_STEPS = {
    "gold__fct_order_line",
    "gold__fct_order_line_currency_is_known",
    "gold__fct_order_line_fact_has_the_lines_of_silver",
    "gold__fct_order_line_header_totals_equal_items",
    "gold__fct_order_line_key_is_not_null",
    "gold__fct_order_line_line_has_one_customer_version",
    "gold__fct_order_line_primary_key_is_unique",
}
_LINES_STEPS = {
    "silver__sales_order_line",
    "silver__sales_order_line_counters_do_not_restart",
    "silver__sales_order_line_key_is_not_null",
    "silver__sales_order_line_primary_key_is_unique",
}
_AGGREGATE_STEPS = {
    "gold__agg_revenue_month",
    "gold__agg_revenue_month_aggregate_equals_fact",
    "gold__agg_revenue_month_key_is_not_null",
    "gold__agg_revenue_month_primary_key_is_unique",
}


@dataclass(frozen=True)
class Run:
    """What is to be known of a run, after its instance is closed."""

    run_id: str
    success: bool
    events: tuple[dg.DagsterEvent, ...]

    @property
    def started(self) -> set[str]:
        return {event.step_key for event in self.events if event.is_step_start and event.step_key}

    @property
    def failed(self) -> set[str]:
        return {event.step_key for event in self.events if event.is_step_failure and event.step_key}

    @property
    def materialized(self) -> dict[str, dict[str, object]]:
        """The metadata of every asset that was materialized, but for the plots of the health rules."""
        found = [
            event.step_materialization_data.materialization for event in self.events if event.is_step_materialization
        ]
        return {
            one.asset_key.to_user_string(): {name: v.value for name, v in one.metadata.items()}
            for one in found
            if one.asset_key.path[0] != "ops"
        }

    @property
    def checks(self) -> dict[tuple[str, str], dg.AssetCheckEvaluation]:
        """Every check that was asked, by asset and name."""
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
        found = [event.asset_check_evaluation_data for event in self.events if event.event_type is kind]
        return {(one.asset_key.to_user_string(), one.check_name): one for one in found}


@dataclass(frozen=True)
class Story:
    """Three runs on one lake that was empty, the second and third re-executed from the failure of the one before."""

    lake: Path
    dagster_home: Path
    lines_fail: Run
    fact_fails: Run
    comes_through: Run

    @property
    def runs(self) -> tuple[Run, ...]:
        return (self.lines_fail, self.fact_fails, self.comes_through)


@cache
def _definitions() -> dg.Definitions:
    return defs()


def load_warehouse() -> dg.JobDefinition:
    """The job as Dagster finds it again by name: re-execution needs a reconstructable job."""
    return _definitions().resolve_job_def("load_warehouse")


def _execute(
    instance: dg.DagsterInstance, *, assets: Iterable[TableContract] | None = None, after: Run | None = None
) -> Run:
    """Run the job, or only some of its assets; or re-execute the run `after` from its failure."""
    result = dg.execute_job(
        dg.reconstructable(load_warehouse),
        instance,
        asset_selection=None if assets is None else [dg.AssetKey([table.schema, table.name]) for table in assets],
        reexecution_options=None if after is None else dg.ReexecutionOptions.from_failure(after.run_id, instance),
    )
    return Run(result.run_id, result.success, tuple(result.all_events))


def _fail(*_arguments: object) -> NoReturn:
    raise RuntimeError("made to fail")


def _versions(lake: Path) -> dict[str, list[str]]:
    """The commits of every table, from the files of its log."""
    logs = sorted(lake.glob("*/*/_delta_log"))
    return {f"{log.parts[-3]}.{log.parts[-2]}": sorted(commit.name for commit in log.glob("*.json")) for log in logs}


def _rows(spark: SparkSession, lake: Path, table: TableContract) -> DataFrame:
    rows = spark.read.format("delta").load(str(lake / table.schema / table.name))
    return rows.drop("_tech_loaded_at", "load_id", "started_at", "finished_at", "source_id", "table_id")


def _counts(frames: dict[str, DataFrame]) -> dict[str, int]:
    """The number of rows of each, in one query."""
    counts = [frame.select(F.lit(name).alias("name")).groupBy("name").count() for name, frame in frames.items()]
    return dict.fromkeys(frames, 0) | {
        row["name"]: row["count"] for row in reduce(DataFrame.unionAll, counts).collect()
    }


def _ledger(spark: SparkSession, lake: Path) -> dict[str, dict[str, int]]:
    """Per table, rows read and outcomes, added up over the ledger."""
    ledger = spark.read.format("delta").load(str(lake / "ops" / "load_ledger"))
    counts = [column.name for column in load_ledger.CONTRACT.columns if column.type == "BIGINT"]
    return {
        row["table_name"]: {name: row[f"sum({name})"] for name in counts}
        for row in ledger.groupBy("table_name").sum(*counts).collect()
    }


@pytest.fixture(scope="module")
def environment(small: Warehouse) -> Iterator[pytest.MonkeyPatch]:
    """The settings of the runs, beside those of the session. What has landed is what `small`, a clean run, loaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DWH_LANDING", str(small.landing))
        patch.delenv("DWH_CHECKPOINTS", raising=False)
        patch.setenv("DWH_ALLOW_TEMPORARY", "1")
        yield patch


@pytest.fixture(scope="module")
def story(environment: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """See `Story`."""
    lake, home = tmp_path_factory.mktemp("story") / "lake", tmp_path_factory.mktemp("dagster")
    environment.setenv("DWH_LAKE", str(lake))
    with dg.instance_for_test(temp_dir=str(home)) as instance:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sales_order_line, "shifted", _fail)
            first = _execute(instance)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gold_load, "build_fct_order_line", _fail)
            second = _execute(instance, after=first)
        third = _execute(instance, after=second)
    return Story(lake, home, first, second, third)


def test_a_failing_table_fails_the_run_and_nothing_is_built_on_it(story: Story) -> None:
    assert not story.lines_fail.success
    assert "silver__sales_order_line" in story.lines_fail.failed
    assert not story.lines_fail.materialized.keys() & {_LINES, _FACT, _AGGREGATE}


def test_a_table_that_does_not_depend_on_the_failing_one_is_loaded_in_the_same_run(story: Story) -> None:
    every = {f"{table.schema}/{table.name}" for table in LOADED}
    assert story.lines_fail.materialized.keys() == every - {_LINES, _FACT, _AGGREGATE}


def test_d03_a_failed_silver_table_is_reexecuted_with_what_depends_on_it_and_nothing_else(story: Story) -> None:
    assert story.fact_fails.started == {*_LINES_STEPS, "gold__fct_order_line"}  # where the fact is made to fail


def test_d03_a_failed_gold_table_is_reexecuted_with_what_depends_on_it_and_nothing_else(story: Story) -> None:
    assert not story.fact_fails.success
    assert story.fact_fails.failed == {"gold__fct_order_line"}
    assert story.comes_through.started == {*_FACT_STEPS, *_AGGREGATE_STEPS, "health"}
    assert story.comes_through.success


def test_d03_assets_hand_over_the_name_of_a_table_and_never_its_rows(story: Story) -> None:
    events = [event for run in story.runs for event in run.events]
    assert not [event.step_key for event in events if event.is_handled_output or event.is_loaded_input]


def test_the_rows_after_failures_are_those_of_a_clean_run(spark: SparkSession, story: Story, small: Warehouse) -> None:
    for table in (*LOADED, quarantine.CONTRACT, load_ledger.CONTRACT):
        after_failures, clean = _rows(spark, story.lake, table), _rows(spark, small.lake, table)
        assert after_failures.columns == clean.columns
        assert rows_of(after_failures) == rows_of(clean), table.qualified_name


def test_a_materialization_tells_the_rows_of_its_table(spark: SparkSession, story: Story) -> None:
    told = {name: data["dagster/row_count"] for run in story.runs for name, data in run.materialized.items()}
    stored = _counts({f"{table.schema}/{table.name}": _rows(spark, story.lake, table) for table in LOADED})
    assert told == stored
    assert all(stored.values())


def test_a_materialization_tells_what_became_of_the_rows_read(story: Story) -> None:
    for run in story.runs:
        for name, data in run.materialized.items():
            outcomes = {key.removeprefix("ledger/"): count for key, count in data.items() if key.startswith("ledger/")}
            assert sum(map(int, map(str, outcomes.values()))) == data["rows_read"], name
            assert {"written/inserted", "written/updated", "written/deleted", "table_version"} <= data.keys(), name
            assert bool(outcomes) is not name.startswith("gold/"), name


def test_the_counts_of_the_materializations_are_those_of_the_ledger(spark: SparkSession, story: Story) -> None:
    told = {name: data for run in story.runs for name, data in run.materialized.items() if name.startswith("silver/")}
    ledger = _ledger(spark, story.lake)
    assert {name.replace("/", ".") for name in told} == ledger.keys()
    for name, data in told.items():
        counts = ledger[name.replace("/", ".")]
        assert counts.pop("rows_read") == data["rows_read"]
        assert counts == {outcome: data.get(f"ledger/{outcome}", 0) for outcome in counts}


def test_an_advisory_check_that_fails_warns_and_stops_nothing(story: Story) -> None:
    check = story.lines_fail.checks["bronze/sap_tcurx", "changes_have_one_content"]
    assert not check.passed
    assert check.severity is dg.AssetCheckSeverity.WARN
    assert check.metadata["failing_rows"].value == 1
    assert "silver/sales_order" in story.lines_fail.materialized  # it is built on sap_tcurx


def test_without_dagsters_history_the_next_run_goes_on_where_the_lake_is(
    environment: pytest.MonkeyPatch, story: Story
) -> None:
    before = _versions(story.lake)
    shutil.rmtree(story.dagster_home)
    story.dagster_home.mkdir()
    environment.setenv("DWH_LAKE", str(story.lake))
    with dg.instance_for_test(temp_dir=str(story.dagster_home)) as instance:
        run = _execute(instance)
    assert run.success
    assert len(run.materialized) == len(LOADED)
    assert [name for name, data in run.materialized.items() if "table_version" in data or data["rows_read"]] == []
    assert _versions(story.lake) == before


def test_the_ingest_registers_its_deliveries_and_each_can_be_replayed_from_the_page(
    spark: SparkSession, environment: pytest.MonkeyPatch, story: Story, tmp_path: Path
) -> None:
    environment.setenv("DWH_LAKE", str(story.lake))
    before, loads = _versions(story.lake), len(_rows(spark, story.lake, load_ledger.CONTRACT).collect())
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        _execute(instance, assets=[table for table in LOADED if table.name == "sap_tcurx"])
        assert instance.get_dynamic_partitions("delivery") == ["0001"]
        replay = _definitions().resolve_job_def("replay_delivery")
        run = replay.execute_in_process(instance=instance, partition_key="0001")
    told = {
        event.step_materialization_data.materialization.asset_key.to_user_string(): event.step_materialization_data
        for event in run.all_events
        if event.is_step_materialization
    }
    assert told.keys() == {f"{table.schema}/{table.name}" for table in LOADED if table.schema in ("silver", "gold")}
    assert told["silver/currency"].materialization.metadata["ledger/equal"].value == 2
    after = _versions(story.lake)
    assert {name for name in after if after[name] != before[name]} == {"ops.load_ledger"}
    assert len(_rows(spark, story.lake, load_ledger.CONTRACT).collect()) == loads + 1


@pytest.mark.usefixtures("environment")
def test_d04_without_dagsters_history_a_new_delivery_is_applied_on_top_of_the_first(
    spark: SparkSession, small: Warehouse, tmp_path: Path
) -> None:
    loaded = small.copy(tmp_path)
    second = loaded.landing / "customers" / "delta" / "20260402" / "part.csv"
    second.parent.mkdir()
    second.write_text(f"{CUSTOMER_COLUMNS}\n100,0000010002,Sued,Augsburg,U,2026-04-02T08:00:00Z\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        patch.setenv("DWH_LAKE", str(loaded.lake))
        patch.setenv("DWH_LANDING", str(loaded.landing))
        run = _execute(instance, assets=[table for table in LOADED if table.name in ("sap_kna1", "customer")])
    assert run.success
    assert {name: data["rows_read"] for name, data in run.materialized.items()} == {
        "bronze/sap_kna1": 1,
        "silver/customer": 1,
    }
    cities = _rows(spark, loaded.lake, next(table for table in LOADED if table.name == "customer")).select(
        "city", "_tech_is_current"
    )
    assert sorted(tuple(row) for row in cities.collect()) == [
        ("Augsburg", True),
        ("Bonn", False),
        ("Koeln", True),
        ("Ulm", False),
    ]
