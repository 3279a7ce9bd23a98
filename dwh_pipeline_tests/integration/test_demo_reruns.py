"""The committed landing area, loaded once, then run again, crashed, replayed and robbed of its checkpoints.

Each test leaves the lake as it found it: that is what it is about.
"""

import csv
import json
import shutil
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.cli import main
from dwh_pipeline.contracts.outcomes import LoadReport, Outcome
from dwh_pipeline.lake import catalog
from dwh_pipeline.loads import gold_load, silver_customer, warehouse
from dwh_pipeline.loads.checks import CHECKS
from dwh_pipeline.tables import agg_revenue_month, bronze, customer, load_ledger, quarantine, sales_order_line
from dwh_pipeline.tables.registry import GOLD
from dwh_pipeline_tests.warehouse import Warehouse, rows_of

_PROJECT = Path(__file__).parent.parent.parent
_GOLDEN = Path(__file__).parent.parent / "golden" / "demo_revenue.csv"
CATALOG = catalog.DEFAULT_CATALOG


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Warehouse, dict[str, LoadReport]]:
    demo = Warehouse(spark, tmp_path_factory.mktemp("demo") / "lake", _PROJECT / "data" / "landing")
    return demo, demo.load()


@pytest.fixture
def demo(loaded: tuple[Warehouse, dict[str, LoadReport]]) -> Warehouse:
    warehouse, _ = loaded
    catalog.use_lake(warehouse.spark, warehouse.lake)
    return warehouse


def test_the_demo_gives_the_revenue_computed_outside_of_spark(demo: Warehouse) -> None:
    with _GOLDEN.open(encoding="utf-8") as file:
        expected = [
            (row["client_id"], row["revenue_month"], row["currency"], Decimal(row["revenue_amount"]),
             int(row["line_count"]), int(row["order_count"]))
            for row in csv.DictReader(file)
        ]  # fmt: skip
    month = F.coalesce(F.date_format("revenue_month", "yyyy-MM-dd"), F.lit(""))
    found = demo.table(agg_revenue_month.CONTRACT).withColumn("revenue_month", month).collect()
    assert sorted(map(tuple, found)) == sorted(expected)


def test_every_row_of_the_demo_is_accounted_for(loaded: tuple[Warehouse, dict[str, LoadReport]]) -> None:
    demo, reports = loaded
    assert reports["silver.sales_order_line"].outcomes[Outcome.QUARANTINED] == 1
    counted = sum((F.col(outcome.value) for outcome in Outcome), F.lit(0))
    assert demo.table(load_ledger.CONTRACT).where(counted != F.col("rows_read")).isEmpty()
    read = demo.table(load_ledger.CONTRACT).where("NOT is_replay").groupBy("table_name").agg(F.sum("rows_read"))
    assert dict(map(tuple, read.collect())) == {
        "silver.currency": reports["bronze.sap_tcurx"].rows,
        "silver.customer": reports["bronze.sap_kna1"].rows,
        "silver.sales_order": reports["bronze.sap_vbak"].rows,
        "silver.sales_order_line": reports["bronze.sap_vbap"].rows,
    }


def test_every_expectation_holds_on_the_demo_but_for_the_total_of_one_order(demo: Warehouse) -> None:
    findings = {(check.contract.name, check.name): check.ask(demo.spark, CATALOG) for check in CHECKS}
    (failed,) = (name for name, finding in findings.items() if not finding.passed)
    assert failed == ("fct_order_line", "header_totals_equal_items")
    (sample,) = map(json.loads, findings[failed].samples)
    assert (sample["client_id"], sample["order_id"]) == ("200", "0000050004")  # as it is delivered
    assert (sample["total"], sample["sum_of_items"]) == (180.0, 182.5)


@dataclass(frozen=True)
class SecondRun:
    """What `dwh run` printed, and versions and files of the lake before it and after."""

    printed: dict[str, Any]
    before: tuple[dict[str, int], set[str]]
    after: tuple[dict[str, int], set[str]]


@pytest.fixture(scope="module")
def second_run(loaded: tuple[Warehouse, dict[str, LoadReport]]) -> SecondRun:
    demo, _ = loaded
    before = demo.versions(), demo.files()
    with pytest.MonkeyPatch.context() as environment:
        result = _dwh(demo, "run", "--landing", str(demo.landing), "--json", monkeypatch=environment)
    assert result.exit_code == 0, result.output
    return SecondRun(json.loads(result.stdout), before, (demo.versions(), demo.files()))


def test_a_second_run_writes_nothing(second_run: SecondRun) -> None:
    assert {table["written"]["version"] for table in second_run.printed["tables"]} == {None}
    assert second_run.after == second_run.before


def test_replaying_everything_writes_nothing_but_the_ledger(demo: Warehouse) -> None:
    before, files = demo.versions(), demo.files()
    deliveries = {row[0] for contract in bronze.CONTRACTS.values() for row in
                  demo.table(contract).select("_tech_batch_id").distinct().collect()}  # fmt: skip
    reports = {report.table: report for report in warehouse.replay(demo.place, tuple(sorted(deliveries)))}
    effects = {Outcome.INSERTED, Outcome.UPDATED, Outcome.CLOSED, Outcome.WOVEN_IN, Outcome.DELETED, Outcome.REDERIVED}
    assert not effects & {outcome for report in reports.values() for outcome in report.outcomes}
    assert sum(report.rows_read for report in reports.values()) == 229
    assert demo.versions() == before
    assert {file.rpartition("/")[0].removesuffix("/_delta_log") for file in demo.files() - files} == {"ops/load_ledger"}


def test_customers_loaded_twice_are_the_same_rows_and_no_new_version(demo: Warehouse) -> None:
    before, order = demo.versions(), ("client_id", "customer_id", "_tech_valid_from")
    rows = demo.table(customer.CONTRACT).orderBy(*order).collect()
    source, target = f"{CATALOG}.bronze.sap_kna1", f"{CATALOG}.silver.customer"
    silver_customer.run(demo.spark, source, target)
    silver_customer.run(demo.spark, source, target, "delta/20260310")
    assert demo.table(customer.CONTRACT).orderBy(*order).collect() == rows
    assert demo.versions() == before


def test_gold_after_a_crash_in_its_middle_is_as_after_a_clean_run(
    demo: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = demo.copy(tmp_path)
    clean = {contract.name: rows_of(demo.table(contract)) for contract in GOLD}
    shutil.rmtree(crashed.lake / "gold")
    catalog.use_lake(demo.spark, crashed.lake)
    with monkeypatch.context() as crash:
        crash.setattr(gold_load, "build_fct_order_line", _crash)
        with pytest.raises(RuntimeError, match="crash"):
            gold_load.run(demo.spark, CATALOG)
    assert set(crashed.versions()) >= {"gold.dim_customer"}
    assert "gold.fct_order_line" not in crashed.versions()
    gold_load.run(demo.spark, CATALOG)
    for contract in GOLD:
        assert rows_of(crashed.table(contract)) == clean[contract.name]


def _crash(*_args: object) -> None:
    raise RuntimeError("crash")


def test_lost_checkpoints_cost_a_second_look_and_no_row(demo: Warehouse) -> None:
    before = demo.versions()
    shutil.rmtree(demo.lake / "_checkpoints")
    demo.load()
    assert demo.versions() == before


def test_a_late_currency_and_a_late_header_reach_what_was_loaded_before_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    landing = tmp_path / "landing"
    shutil.copytree(_PROJECT / "data" / "landing", landing)
    late = {"currencies": landing / "currencies", "orders": landing / "orders"}
    for name, folder in late.items():
        folder.rename(tmp_path / name)
        folder.mkdir()
    healed = Warehouse(spark, tmp_path / "lake", landing)
    first = healed.load()
    assert first["gold.fct_order_line"].rows == 110
    assert healed.table(agg_revenue_month.CONTRACT).where("revenue_amount <> 0").isEmpty()
    for name, folder in late.items():
        folder.rmdir()
        (tmp_path / name).rename(folder)
    second = healed.load()
    assert second["silver.sales_order_line"].outcomes.keys() == {Outcome.REDERIVED}
    with _GOLDEN.open(encoding="utf-8") as file:
        expected = {
            (r["client_id"], r["revenue_month"], r["currency"]): r["revenue_amount"] for r in csv.DictReader(file)
        }
    month = F.coalesce(F.date_format("revenue_month", "yyyy-MM-dd"), F.lit(""))
    rows = healed.table(agg_revenue_month.CONTRACT).select("client_id", month, "currency", "revenue_amount").collect()
    assert {tuple(row[:3]): str(row[3]) for row in rows} == expected


def _dwh(demo: Warehouse, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setenv("DWH_ALLOW_TEMPORARY", "1")
    return CliRunner().invoke(main, [*arguments, "--lake", str(demo.lake)])


def test_dwh_run_prints_the_tables_and_the_revenue_as_json(second_run: SecondRun) -> None:
    assert second_run.printed["tables"][-1]["table"] == "gold.agg_revenue_month"
    assert len(second_run.printed["revenue"]) == 20


def test_dwh_shows_ledger_rejects_and_revenue(demo: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    for command, count in (("ledger", None), ("rejects", 1), ("revenue", 20)):
        result = _dwh(demo, command, "--json", monkeypatch=monkeypatch)
        assert result.exit_code == 0, result.output
        assert count is None or len(json.loads(result.stdout)) == count
    shown = _dwh(demo, "rejects", monkeypatch=monkeypatch).stdout
    assert "NETWR is no" in "".join(shown.split("\n"))


def test_dwh_plan_and_replay_tell_the_same_of_a_delivery(demo: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {}
    for command in ("plan", "replay"):
        result = _dwh(demo, command, "0001", "--landing", str(demo.landing), "--json", monkeypatch=monkeypatch)
        assert result.exit_code == 0, result.output
        tables = {table["table"]: table for table in json.loads(result.stdout)["tables"]}
        told[command] = {
            name: {key: table[key] for key in ("rows", "rows_read", "outcomes", "absent", "written")}
            for name, table in tables.items()
            if not name.startswith("bronze")
        }
    assert told["plan"] == told["replay"]
    assert told["replay"]["silver.currency"]["rows_read"] == 2
    refused = _dwh(demo, "replay", "9999", "--landing", str(demo.landing), monkeypatch=monkeypatch)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("dwh: bronze holds no delivery '9999'; it holds 0001, ")


def test_dwh_says_in_one_line_what_is_wrong(demo: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "feeds.toml").write_text('[feeds.orders]\ntable = "VBAK"\ndelimeter = ";"\n', encoding="utf-8")
    result = _dwh(demo, "run", "--landing", str(tmp_path), monkeypatch=monkeypatch)
    assert result.exit_code == 1
    assert result.stderr.strip() == "dwh: feeds.toml, [feeds.orders] delimeter: is not a key of a feed"


def test_a_replay_keeps_its_quarantined_row_once(demo: Warehouse) -> None:
    rejected = demo.table(quarantine.CONTRACT).collect()
    assert [(row["source_table"], row["_tech_batch_id"]) for row in rejected] == [("bronze.sap_vbap", "delta/20260205")]
    assert demo.table(bronze.CONTRACTS["VBAP"]).count() == 131
    assert demo.table(sales_order_line.CONTRACT).count() == 112
