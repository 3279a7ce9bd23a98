"""Feeds that cannot go on, beside feeds that can: what is loaded, what is said, and how it is repaired.

One story in one lake: customers hold an operation that nobody knows, lines come without a column that they had
(M-11), amounts of orders are read by the wrong decimal mark. Every run was planned before.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from pyspark.sql import SparkSession

from dwh_pipeline.contracts.outcomes import LoadReport, Outcome
from dwh_pipeline.errors import (
    DeliveryNotFoundError,
    MissingColumnError,
    RunIncompleteError,
    UnknownOperationError,
    WarehouseError,
)
from dwh_pipeline.lake import catalog
from dwh_pipeline.loads import warehouse
from dwh_pipeline.loads.checks import CHECKS
from dwh_pipeline.tables import load_ledger, quarantine, sales_order, sales_order_line
from dwh_pipeline_tests.warehouse import Warehouse, write_landing

_FEEDS = """
[feeds.customers]
table = "KNA1"
profile = "replication_flow"

[feeds.orders]
table = "VBAK"
decimal = "{decimal}"
sequence = "SEQ"

[feeds.lines]
table = "VBAP"
sequence = "SEQ"

[feeds.currencies]
table = "TCURX"
"""
_LINES = "MANDT,VBELN,POSNR,KWMENG,NETWR,WAERK,ABGRU,SEQ"
_DELIVERED = {
    "feeds.toml": _FEEDS.format(decimal="point"),
    "customers/1/part.csv": "MANDT,KUNNR,ORT01,__operation_type,__timestamp\n100,1,Bonn,I,2026-04-01T00:00:00Z\n"
    "100,2,Ulm,Q,2026-04-01T00:00:00Z\n",
    "orders/1/part.csv": 'MANDT,VBELN,AUDAT,VBTYP,KUNNR,WAERK,NETWR,SEQ\n100,1,20260401,C,1,EUR,"1.250,50",1\n'
    '100,2,20260401,C,1,JPY,"3,00",1\n',
    "lines/1/part.csv": f"{_LINES}\n100,1,10,1,50.00,EUR,,1\n100,1,20,1,20.00,EUR,91,1\n",
    "currencies/1/part.csv": "CURRKEY,CURRDEC\nJPY,0\nKWD,drei\n",
}
_WITHOUT_ABGRU = {
    "lines/2/part.csv": "MANDT,VBELN,POSNR,KWMENG,NETWR,WAERK,SEQ\n100,1,20,1,20.00,EUR,2\n",
}
_REPAIRED = {
    "feeds.toml": _FEEDS.format(decimal="comma"),
    "customers/1/part.csv": "MANDT,KUNNR,ORT01,__operation_type,__timestamp\n100,1,Bonn,I,2026-04-01T00:00:00Z\n",
    # As 2, but whole; with a column that nobody had asked for, a number as text, and one that is none.
    "lines/2/part.csv": f"{_LINES},KVGR1\n100,1,20,5.000,20.00,EUR,91,2,A1\n100,1,30,five,9.00,EUR,,2,A1\n",
}


@dataclass(frozen=True)
class Run:
    """The reports of a run or a plan by table, and what stopped the rest."""

    reports: dict[str, LoadReport]
    stopped: WarehouseError | None


def _all_of(reports: Iterator[LoadReport]) -> Run:
    done: dict[str, LoadReport] = {}
    try:
        for report in reports:
            done[report.table] = report
    except WarehouseError as error:
        return Run(done, error)
    return Run(done, None)


def _told(run: Run) -> dict[str, object]:
    """What is comparable of a run and its plan: all but times and versions."""
    return {
        name: (r.rows, r.deliveries, replace(r.written, version=None), r.held, r.new_columns)
        for name, r in run.reports.items()
    } | {"stopped": str(run.stopped)}


@dataclass(frozen=True)
class Story:
    """The lake and what happened there."""

    place: Warehouse
    plans: tuple[Run, Run]
    stopped: Run
    repaired: Run
    quarantined: dict[str, str]
    replayed: Run


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    root = tmp_path_factory.mktemp("stop")
    landing = write_landing(root / "landing", _DELIVERED)
    lake = Warehouse(spark, root / "lake", landing)
    # The first delivery of the lines is in bronze before the one that lacks a column comes.
    lake.step("bronze.sap_vbap")
    write_landing(landing, _WITHOUT_ABGRU)
    before = lake.files()
    first_plan = _all_of(warehouse.plan(lake.place))
    assert lake.files() == before
    stopped = _all_of(warehouse.run(lake.place))
    write_landing(landing, _REPAIRED)
    second_plan = _all_of(warehouse.plan(lake.place))
    repaired = _all_of(warehouse.run(lake.place))
    rejects = lake.table(quarantine.CONTRACT).orderBy("source_table", "_tech_row_number", ascending=False)
    reasons = {row["source_table"]: row["reason"] for row in rejects.collect()}
    replayed = _all_of(warehouse.replay(lake.place, ("1",)))
    return Story(lake, (first_plan, second_plan), stopped, repaired, reasons, replayed)


def test_what_stops_a_feed_is_named_with_code_file_and_row_or_with_file_and_column(story: Story) -> None:
    assert isinstance(story.stopped.stopped, RunIncompleteError)
    errors = dict(story.stopped.stopped.failures)
    unknown, missing = errors["bronze.sap_kna1"], errors["bronze.sap_vbap"]
    assert isinstance(unknown, UnknownOperationError)
    assert (unknown.code, unknown.file, unknown.row) == ("Q", "customers/1/part.csv", 2)
    assert isinstance(missing, MissingColumnError)
    assert (missing.file, missing.columns) == ("lines/2/part.csv", ("ABGRU",))
    assert "Q" in str(story.stopped.stopped)
    assert "ABGRU" in str(story.stopped.stopped)


def test_other_feeds_go_on_and_what_is_built_on_a_stopped_one_waits(story: Story) -> None:
    assert set(story.stopped.reports) == {
        "bronze.sap_vbak",
        "bronze.sap_tcurx",
        "silver.currency",
        "silver.sales_order",
    }


def test_m11_a_missing_column_stops_the_feed_before_any_silver_write(story: Story) -> None:
    rows = story.place.table(load_ledger.CONTRACT).where("table_name = 'silver.sales_order_line'").collect()
    assert {row["_tech_batch_id"] for row in rows if not row["is_replay"]} == {"1", "2"}
    lines = story.place.table(sales_order_line.CONTRACT).where("line_number = '000020'").collect()
    assert [(row["rejection_reason_code"], int(row["quantity"])) for row in lines] == [("91", 5)]


def test_m11_an_extra_column_is_kept_and_named(story: Story) -> None:
    assert story.repaired.reports["bronze.sap_vbap"].new_columns == ("KVGR1",)
    bronze = catalog.read(story.place.spark, "spark_catalog.bronze.sap_vbap").where("_tech_batch_id = '2'")
    assert {row["KVGR1"] for row in bronze.collect()} == {"A1"}
    check = next(c for c in CHECKS if c.name == "files_have_the_same_columns" and c.contract.name == "sap_vbap")
    finding = check.ask(story.place.spark, "spark_catalog")
    assert (finding.failing_rows, finding.samples) == (1, ('{"column":"KVGR1","first_file":"lines/2/part.csv"}',))


def test_m11_a_number_in_the_wrong_format_is_quarantined_and_never_null(story: Story) -> None:
    assert story.repaired.reports["silver.sales_order_line"].outcomes[Outcome.QUARANTINED] == 1
    assert story.quarantined == {
        "bronze.sap_vbap": "KWMENG is no DECIMAL(15,3) with a decimal point: five",
        "bronze.sap_vbak": "NETWR is no DECIMAL(18,5) with a decimal point: 1.250,50",
        "bronze.sap_tcurx": "CURRDEC is not one of 0 to 5: drei",
    }


def test_a_corrected_feed_and_a_replay_empty_the_quarantine(story: Story) -> None:
    left = {row["source_table"] for row in story.place.table(quarantine.CONTRACT).collect()}
    assert left == {"bronze.sap_vbap", "bronze.sap_tcurx"}
    amounts = {row["order_id"][-1]: row["order_net_value"] for row in story.place.table(sales_order.CONTRACT).collect()}
    assert {order: str(amount) for order, amount in amounts.items()} == {"1": "1250.50000", "2": "300.00000"}
    assert story.replayed.reports["silver.sales_order"].outcomes == {Outcome.INSERTED: 2}


def test_a_plan_tells_what_the_run_after_it_reports_and_writes_nothing(story: Story) -> None:
    first, second = story.plans
    assert _told(first) == _told(story.stopped)
    assert _told(second) == _told(story.repaired)


def test_a_delivery_that_nobody_has_is_refused_by_name(story: Story) -> None:
    for act in (warehouse.plan, warehouse.replay):
        with pytest.raises(DeliveryNotFoundError, match="bronze holds no delivery '9'; it holds 1, 2"):
            list(act(story.place.place, ("9",)))
