"""The health of a whole lake: one that is well, then made sick on purpose for every rule, asked and maintained.

Loads and questions cost seconds, so one lake is loaded once, and what was answered is looked at from several sides.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree as ET

import dagster as dg
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from dwh_pipeline.cli import main
from dwh_pipeline.definitions import defs
from dwh_pipeline.lake import catalog, facts
from dwh_pipeline.lake.lease import lease
from dwh_pipeline.loads import gold_load
from dwh_pipeline.quality.health import RULES
from dwh_pipeline.tables import fct_order_line, health_history, sales_order_line, skipped_file
from dwh_pipeline_tests.landings import SMALL_LANDING
from dwh_pipeline_tests.warehouse import Warehouse, write_landing

_CHECK_IS_ON = "spark.databricks.delta.retentionDurationCheck.enabled"
_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
_SICK = {
    ("files_are_not_small", "ops.skipped_file"): "warn",
    ("retention_is_safe", "gold.agg_revenue_month"): "error",
    ("no_key_is_hot", "silver.sales_order_line"): "warn",
    ("merge_source_has_one_row_per_key", "bronze.sap_tcurx"): "warn",
    ("stream_can_recover", "bronze.sap_vbak"): "error",
    ("driver_is_safe", "gold.fct_order_line"): "warn",
    ("repair_is_ready", "gold.fct_order_line"): "warn",
}


@dataclass(frozen=True)
class Asked:
    """What `dwh health` gave."""

    run: Result
    outcomes: dict[tuple[str, str], dict[str, object]]
    junit: ET.Element

    def status(self) -> dict[tuple[str, str], object]:
        return {key: outcome["status"] for key, outcome in self.outcomes.items()}


@pytest.fixture(scope="module")
def environment(spark: SparkSession) -> Iterator[pytest.MonkeyPatch]:
    assert spark.version
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DWH_ALLOW_TEMPORARY", "1")
        patch.delenv("DWH_CHECKPOINTS", raising=False)
        yield patch


@pytest.fixture(scope="module")
def warehouse(small: Warehouse, environment: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    made = small.copy(tmp_path_factory.mktemp("health"))
    environment.setenv("DWH_LAKE", str(made.lake))
    environment.setenv("DWH_LANDING", str(made.landing))
    return made


def _ask(warehouse: Warehouse, *options: str) -> Asked:
    out = warehouse.lake.parent / "out"
    files = ("--junit", str(out / "health.xml"), "--json", str(out / "health.json"))
    run = CliRunner().invoke(main, ["health", *files, *options])
    found = json.loads((out / "health.json").read_text(encoding="utf-8"))
    return Asked(run, {(one["rule"], one["table"]): one for one in found}, ET.parse(out / "health.xml").getroot())  # noqa: S314


@pytest.fixture(scope="module")
def well(warehouse: Warehouse) -> Asked:
    """The rules alone. All pass but for the batch with two contents of one change, which is there on purpose."""
    return _ask(warehouse, *(f"--rule={rule.name}" for rule in RULES))


@pytest.fixture(scope="module")
def sick(warehouse: Warehouse, well: Asked, environment: pytest.MonkeyPatch) -> Iterator[Asked]:
    """The same lake, sick by every rule."""
    assert well
    spark, place = warehouse.spark, warehouse.place
    name = place.name(skipped_file.CONTRACT)
    catalog.ensure(spark, name, skipped_file.CONTRACT)
    many = spark.range(40).repartition(40)
    columns = skipped_file.CONTRACT.columns
    many.selectExpr(
        *(f"CAST({'current_timestamp()' if c.type == 'TIMESTAMP' else 'id'} AS {c.type}) AS {c.name}" for c in columns)
    ).write.format("delta").mode("append").saveAsTable(name)
    aggregate = "spark_catalog.gold.agg_revenue_month"
    spark.sql(f"ALTER TABLE {aggregate} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 1 days')")
    (warehouse.lake / "_checkpoints" / "vbak" / "metadata").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gold_load, "build_fct_order_line", _fail)
        with pytest.raises(RuntimeError, match="made to fail"):
            warehouse.step("gold.fct_order_line")
    before = {key: spark.conf.get(key) for key in (_CHECK_IS_ON, _THRESHOLD)}
    spark.conf.set(_CHECK_IS_ON, "false")
    spark.conf.set(_THRESHOLD, "100g")
    environment.setenv("DWH_HEALTH__HOT_KEY_MIN_ROWS", "1")
    yield _ask(warehouse, "--strict")
    environment.delenv("DWH_HEALTH__HOT_KEY_MIN_ROWS")
    for key, value in before.items():
        spark.conf.set(key, value or "")


def _fail(*_arguments: object) -> NoReturn:
    raise RuntimeError("made to fail")


def test_a_lake_that_is_well_passes_every_rule_and_the_exit_code_is_0(well: Asked) -> None:
    assert well.run.exit_code == 0, well.run.output
    assert {rule for rule, _ in well.outcomes} == {rule.name for rule in RULES}
    assert {key for key, status in well.status().items() if status in ("warn", "error")} == {
        ("merge_source_has_one_row_per_key", "bronze.sap_tcurx")
    }
    assert int(well.junit.get("failures", "")) == 0


def test_each_rule_finds_what_was_made_sick_and_names_the_fix(sick: Asked) -> None:
    assert {key: sick.status()[key] for key in _SICK} == _SICK
    for key in _SICK:
        assert sick.outcomes[key]["fixes"], key
    assert "made to fail" in str(sick.outcomes["repair_is_ready", "gold.fct_order_line"]["message"])
    assert "gold.agg_revenue_month" in str(sick.outcomes["repair_is_ready", "gold.fct_order_line"]["measures"])


def test_an_error_is_exit_code_2_and_a_failure_in_junit(sick: Asked) -> None:
    assert sick.run.exit_code == 2, sick.run.output
    for rule, table in _SICK:
        case = sick.junit.find(f"testsuite[@name='{rule}']/testcase[@name='{table}']")
        assert case is not None
        failure = case.find("failure")
        assert failure is not None
        assert failure.get("message")


def test_the_junit_file_has_the_elements_and_counts_that_ci_servers_read(sick: Asked) -> None:
    assert sick.junit.tag == "testsuites"
    for suite in sick.junit:
        assert suite.tag == "testsuite"
        assert {"name", "tests", "failures", "errors", "skipped", "time"} == set(suite.keys())
        assert int(suite.get("tests", "")) == len(suite) > 0
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        for case in suite:
            assert case.tag == "testcase"
            assert {"name", "classname", "time"} == set(case.keys())
            assert [child.tag for child in case] in (["failure"], ["system-out"])


def test_the_screen_is_grouped_by_rule(sick: Asked) -> None:
    first = [sick.run.output.index(rule.name) for rule in RULES]
    assert len(set(first)) == len(RULES)
    for rule in RULES:
        assert sick.run.output.count(f"\n  {rule.name} ") == 1


def test_a_warning_is_exit_code_1_if_strict_alone(warehouse: Warehouse, well: Asked) -> None:
    assert well
    one = ("--rule", "merge_source_has_one_row_per_key", "--table", "bronze.sap_tcurx")
    assert _ask(warehouse, *one).run.exit_code == 0
    strict = _ask(warehouse, *one, "--strict")
    assert strict.run.exit_code == 1
    assert list(strict.status().values()) == ["warn"]
    unknown = CliRunner().invoke(main, ["health", "--rule", "files_are_nice"])
    assert unknown.exit_code == 1
    assert "files_are_not_small" in unknown.output


def test_outcomes_are_kept_when_they_are_others_and_asking_again_writes_nothing(
    warehouse: Warehouse, sick: Asked
) -> None:
    history = warehouse.table(health_history.CONTRACT)
    for rule, table in _SICK:
        kept = history.where(f"rule = '{rule}' AND table_name = '{table}'").orderBy("checked_at").collect()
        assert kept[-1]["status"] == sick.outcomes[rule, table]["status"]
        assert len(kept) >= (1 if rule == "merge_source_has_one_row_per_key" else 2)
    before = history.count()
    _ask(warehouse, "--table", "bronze.sap_tcurx")
    assert history.count() == before


def test_the_job_check_health_says_the_same_on_the_page_and_loads_nothing(
    warehouse: Warehouse, sick: Asked, tmp_path: Path
) -> None:
    versions = warehouse.versions()
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run = defs().resolve_job_def("check_health").execute_in_process(instance=instance)
    assert run.success
    told = {(one.check_name, ".".join(one.asset_key.path)): one for one in run.get_asset_check_evaluations()}
    for (rule, table), status in _SICK.items():
        assert not told[rule, table].passed
        assert told[rule, table].severity.value == status.upper()
        assert told[rule, table].description == sick.outcomes[rule, table]["message"]
    plots = {
        name: str(entry.value)
        for event in run.all_events
        if event.is_step_materialization
        for name, entry in event.step_materialization_data.materialization.metadata.items()
    }
    assert plots.keys() == {rule.name for rule in RULES}
    picture, _, found = plots["files_are_not_small"].partition("\n\n")
    assert picture.startswith("![data files](data:image/png;base64,")
    assert "- ops.skipped_file: warn, 40 since " in found
    assert warehouse.versions() == versions


def test_maintenance_changes_no_row_refuses_what_is_needed_and_is_done_once(warehouse: Warehouse, sick: Asked) -> None:
    assert sick
    spark, name = warehouse.spark, warehouse.place.name(sales_order_line.CONTRACT)
    looked_at = (sales_order_line.CONTRACT, skipped_file.CONTRACT)
    rows = {contract.qualified_name: warehouse.table(contract).collect() for contract in looked_at}
    # Some rows written anew as they were: the old ones stay in their files, marked as deleted.
    spark.sql(f"UPDATE {name} SET quantity = quantity WHERE line_number = '000010'")  # noqa: S608
    read_meanwhile = warehouse.versions()[sales_order_line.CONTRACT.qualified_name]
    shown = CliRunner().invoke(main, ["maintain"]).output
    assert "ops.skipped_file" in shown
    assert "silver.sales_order_line" in shown
    assert "Nothing was done" in shown
    spark.sql(
        "ALTER TABLE spark_catalog.gold.agg_revenue_month SET TBLPROPERTIES "
        "('delta.deletedFileRetentionDuration' = 'interval 0 hours')"
    )
    both = [f"--table={contract.qualified_name}" for contract in looked_at]
    with lease(warehouse.place.lease_of(sales_order_line.CONTRACT)):
        done = CliRunner().invoke(main, ["maintain", "--apply", *both]).output
    assert "ops.skipped_file: OPTIMIZE: 40 files became 1" in done
    assert "silver.sales_order_line: left alone" in done
    done = CliRunner().invoke(main, ["maintain", "--apply", "--table", "silver.sales_order_line"]).output
    assert "PURGE" in done
    assert facts.is_readable(spark, name, read_meanwhile)
    for contract in looked_at:
        assert sorted(map(str, warehouse.table(contract).collect())) == sorted(map(str, rows[contract.qualified_name]))
    again = CliRunner().invoke(main, ["maintain", "--table", "silver.sales_order_line"]).output
    assert "nothing to do" in again


def test_after_a_failed_load_its_table_is_left_as_it_was(warehouse: Warehouse, sick: Asked) -> None:
    assert sick
    table = fct_order_line.CONTRACT.qualified_name
    version = warehouse.versions()[table]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DWH_HEALTH__SMALL_FILES_MIN_COUNT", "1")  # its one file is due
        refused = CliRunner().invoke(main, ["maintain", "--apply", "--table", table]).output
    assert f"{table}: OPTIMIZE: refused, repair_is_ready" in " ".join(refused.split())
    assert "made to fail" in refused
    assert warehouse.versions()[table] == version


def test_a_lake_without_tables_is_no_healthy_one(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    assert spark.version
    landing = write_landing(tmp_path / "landing", SMALL_LANDING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DWH_ALLOW_TEMPORARY", "1")
        run = CliRunner().invoke(main, ["health", "--lake", str(lake), "--landing", str(landing)])
    assert run.exit_code == 1
    assert "does not exist yet" in run.output
