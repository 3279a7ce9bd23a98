"""Cases D of public bug reports, each test named after its number; D-03 and more of D-04 are in `test_dagster_runs`."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import dagster as dg
import pytest
from pyspark.sql import SparkSession

import dwh_pipeline
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.definitions import defs
from dwh_pipeline.defs.resources import LakeResource
from dwh_pipeline.errors import SessionError, SettingsError
from dwh_pipeline.lake import catalog, jars
from dwh_pipeline.lake.session import verify
from dwh_pipeline.quality import expectations
from dwh_pipeline.settings import load_settings
from dwh_pipeline.tables import customer, sales_order
from dwh_pipeline.tables.registry import GOLD, LOADED

_PROJECT = Path(dwh_pipeline.__file__).parent.parent


@pytest.fixture
def place(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lake of the test as the place that runs work on."""
    monkeypatch.delenv("DWH_CHECKPOINTS", raising=False)
    monkeypatch.setenv("DWH_LAKE", str(lake))
    monkeypatch.setenv("DWH_LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("DWH_ALLOW_TEMPORARY", "1")
    return lake


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    home = tmp_path / "dagster"
    home.mkdir()
    with dg.instance_for_test(temp_dir=str(home)) as instance:
        yield instance


def _run(instance: dg.DagsterInstance, *tables: TableContract) -> dg.ExecuteInProcessResult:
    job = defs().resolve_job_def("load_warehouse")
    keys = [dg.AssetKey([table.schema, table.name]) for table in tables]
    return job.execute_in_process(instance=instance, asset_selection=keys, raise_on_error=False)


def _materialized(result: dg.ExecuteInProcessResult) -> set[str]:
    return {event.asset_key.to_user_string() for event in result.get_asset_materialization_events() if event.asset_key}


def _started(result: dg.ExecuteInProcessResult) -> set[str]:
    """The layers of which a step was started."""
    return {event.step_key.partition("__")[0] for event in result.all_events if event.is_step_start and event.step_key}


def _errors(result: dg.ExecuteInProcessResult) -> str:
    """What was raised in the steps that failed, causes included."""
    raised = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    texts = []
    for error in raised:
        while error:
            texts.append(error.message)
            error = error.cause  # noqa: PLW2901
    return "".join(texts)


def _empty_tables(spark: SparkSession) -> None:
    for table in LOADED:
        catalog.ensure(spark, f"spark_catalog.{table.qualified_name}", table)


def _gold_versions(lake: Path) -> dict[str, int]:
    return {table.name: len(list((lake / "gold" / table.name / "_delta_log").glob("*.json"))) for table in GOLD}


def test_d01_two_current_rows_stop_gold_in_that_run_and_in_a_later_run_of_gold_alone(
    spark: SparkSession, place: Path, instance: dg.DagsterInstance
) -> None:
    _empty_tables(spark)
    spark.sql(
        "INSERT INTO spark_catalog.silver.customer "
        "(client_id, customer_id, city, change_seq, _tech_valid_from, _tech_is_current) VALUES "
        "('100', '0000010001', 'Bonn', '1', TIMESTAMP'1900-01-01', true), "
        "('100', '0000010001', 'Koeln', '2', TIMESTAMP'2026-04-01', true)"
    )
    before = _gold_versions(place)

    run = _run(instance, customer.CONTRACT, sales_order.CONTRACT, *GOLD)

    assert not run.success
    assert _started(run) == {"silver"}
    # The sibling of the broken table is loaded and checked all the same.
    assert _materialized(run) == {"silver/customer", "silver/sales_order"}
    failed = {
        (check.asset_key.to_user_string(), check.check_name)
        for check in run.get_asset_check_evaluations()
        if not check.passed
    }
    # No change in bronze is behind these rows, which is found too; it blocks nothing.
    assert failed == {
        ("silver/customer", "one_current_version"),
        ("silver/customer", "intervals_do_not_overlap"),
        ("silver/customer", "open_version_equals_newest_change"),
    }
    assert {check.asset_key.path[1] for check in run.get_asset_check_evaluations()} == {"customer", "sales_order"}

    later = _run(instance, *GOLD)

    assert not later.success
    assert _materialized(later) == set()
    assert "silver.customer: one_current_version does not hold (1 failing rows)" in _errors(later)
    assert _gold_versions(place) == before


def test_d01_a_check_that_crashes_stops_gold_as_one_that_fails(
    spark: SparkSession, place: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_arguments: object) -> NoReturn:
        raise RuntimeError("no answer")

    _empty_tables(spark)
    monkeypatch.setattr(expectations, "one_current_version", crash)
    before = _gold_versions(place)

    run = _run(instance, customer.CONTRACT, *GOLD)

    assert not run.success
    assert _started(run) == {"silver"}
    assert _materialized(run) == {"silver/customer"}
    assert "no answer" in _errors(run)
    assert _gold_versions(place) == before


@pytest.mark.parametrize("setting", ["DWH_LAKE", "DWH_CHECKPOINTS"])
def test_d04_a_root_that_is_not_absolute_is_refused(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv(setting, "lake")
    with pytest.raises(SettingsError, match=f"{setting}: must be an absolute path, not 'lake'"):
        LakeResource().place()


@pytest.mark.parametrize("setting", ["DWH_LAKE", "DWH_CHECKPOINTS"])
def test_d04_a_root_in_a_temporary_folder_is_refused_before_anything_is_made_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, instance: dg.DagsterInstance, setting: str
) -> None:
    monkeypatch.delenv("DWH_ALLOW_TEMPORARY", raising=False)
    monkeypatch.setenv("DWH_LAKE", "/srv/dwh/lake")
    monkeypatch.setenv(setting, str(tmp_path / "root"))

    run = _run(instance, LOADED[0])

    assert not run.success
    assert f"is inside a temporary folder ({tmp_path / 'root'}), where a reboot deletes it" in _errors(run)
    assert not (tmp_path / "root").exists()


def test_d04_roots_do_not_depend_on_where_the_program_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("DWH_LAKE", "DWH_CHECKPOINTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DWH_ALLOW_TEMPORARY", "1")  # the project itself may be in a temporary folder
    here = load_settings()
    monkeypatch.chdir(tmp_path)
    assert (load_settings().lake, load_settings().checkpoint_root) == (here.lake, here.checkpoint_root)


def test_d05_two_assets_of_a_run_get_one_session_in_one_process(
    spark: SparkSession, place: Path, instance: dg.DagsterInstance
) -> None:
    sessions: list[SparkSession] = []

    @dg.asset
    def first(lake: LakeResource) -> None:
        sessions.append(lake.place().spark)

    @dg.asset(deps=[first])
    def second(lake: LakeResource) -> None:
        sessions.append(lake.place().spark)

    project = defs()
    executor = project.executor
    assert executor is dg.in_process_executor
    two = dg.Definitions(assets=[first, second], resources=project.resources, executor=executor)
    run = two.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)

    assert run.success
    assert sessions[0] is sessions[1]
    assert sessions[0].sparkContext is spark.sparkContext
    assert spark.conf.get(catalog.LAKE_ROOT) == str(place)


@pytest.mark.usefixtures("place")
def test_d05_a_later_run_in_the_same_process_follows_the_settings_of_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots: list[str] = []

    @dg.asset
    def only(lake: LakeResource) -> None:
        roots.append(str(lake.place().checkpoints))

    resources = defs().resources
    for name in ("one", "two"):
        monkeypatch.setenv("DWH_CHECKPOINTS", str(tmp_path / name))
        dg.materialize([only], resources=resources)

    assert roots == [str(tmp_path / "one"), str(tmp_path / "two")]


def test_d05_there_is_no_metastore_that_only_one_process_may_open(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.catalogImplementation") == "in-memory"


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        ("spark.sql.extensions", ""),
        ("spark.sql.catalog.spark_catalog", None),
        ("spark.sql.session.timeZone", "Europe/Berlin"),
        ("spark.sql.ansi.enabled", "false"),
    ],
)
def test_d05_a_running_session_that_cannot_be_used_is_refused(
    spark: SparkSession, setting: str, wrong: str | None
) -> None:
    class Conf:
        def get(self, key: str, default: str | None = None) -> str | None:
            return wrong if key == setting else spark.conf.get(key, default)

    class Session:
        conf = Conf()

    verify(spark)
    with pytest.raises(SessionError, match=re.escape(f"the running Spark session has {setting}={wrong!r}")):
        verify(Session())  # type: ignore[arg-type]


def test_d07_another_version_than_the_tested_one_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    jars.check_versions()
    monkeypatch.setattr(jars, "TESTED_VERSIONS", {"pyspark": "4.0.0"})
    with pytest.raises(SessionError, match=r"pyspark is 4\.1\.4, but 4\.0\.0 is the tested version; run: make setup"):
        jars.check_versions()


def test_d07_a_package_that_is_missing_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "TESTED_VERSIONS", {"delta-spark-of-nowhere": "4.4.0"})
    with pytest.raises(SessionError, match=r"delta-spark-of-nowhere is not installed, but 4\.4\.0"):
        jars.check_versions()


def test_d07_the_project_the_lock_and_the_jar_name_the_tested_versions() -> None:
    project = tomllib.loads((_PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    locked = (_PROJECT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    for package, version in jars.TESTED_VERSIONS.items():
        assert f"{package}=={version}" in project
        assert [line.split()[0] for line in locked if line.startswith(f"{package}==")] == [f"{package}=={version}"]
    spark_line = jars.TESTED_VERSIONS["pyspark"].rpartition(".")[0]
    jar = f"io.delta:delta-spark_{spark_line}_2.13:{jars.TESTED_VERSIONS['delta-spark']}"
    assert jar == jars.DELTA_PACKAGE
