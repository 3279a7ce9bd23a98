"""Silver loads over bronze tables made by hand: late, repeated and deleted changes, in more than one order of arrival.

Many cases share one load: each has a key of its own, and a case names its changes per delivery.
"""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from dwh_pipeline.lake import catalog, ledger, writes
from dwh_pipeline.loads import silver_customer, silver_sales_order_line
from dwh_pipeline.sap.fields import KNA1, VBAP
from dwh_pipeline.tables import bronze, load_ledger, quarantine
from dwh_pipeline_tests.frames import frame_of
from dwh_pipeline_tests.warehouse import same_rows

CATALOG = "spark_catalog"
_TECHNICAL = ["change_seq", "change_op", "_tech_batch_id", "_tech_source_file", "_tech_row_number"]
_DELIVERIES = ("1", "2", "3")

# Case -> changes per delivery: value@second of 2026-04-01 10:00, "-" deletes; expected: value, from, to (seconds).
CUSTOMERS: dict[str, tuple[tuple[str, str, str], list[tuple[str, int | None, int | None]]]] = {
    "late change": (("A@1 C@3", "B@2", ""), [("A", None, 2), ("B", 2, 3), ("C", 3, None)]),
    "late delete": (("A@1 C@5", "-@3", ""), [("A", None, 3), ("C", 5, None)]),
    "delete before its upsert": (("-@3", "A@1", ""), [("A", None, 3)]),
    "recreated, then the delete again": (("A@1", "-@3 B@5", "-@3"), [("A", None, 3), ("B", 5, None)]),
    "repeated value": (("A@1", "A@1 B@2", ""), [("A", None, 2), ("B", 2, None)]),
    "value returns": (("A@1", "B@2", "A@3"), [("A", None, 2), ("B", 2, 3), ("A", 3, None)]),
    "three versions at once, then again": (
        ("A@1 B@2 C@3", "C@3 B@2 A@1", ""),
        [("A", None, 2), ("B", 2, 3), ("C", 3, None)],
    ),
    "earlier than all that is known": (("B@5", "A@1", ""), [("A", None, 5), ("B", 5, None)]),
    "late change between equal values": (("A@1 A@5", "B@3", ""), [("A", None, 3), ("B", 3, 5), ("A", 5, None)]),
    "two late at once": (("A@1 D@9", "B@3 C@5", ""), [("A", None, 3), ("B", 3, 5), ("C", 5, 9), ("D", 9, None)]),
    "deleted only": (("-@3", "", ""), []),
    "created after a delete": (("-@3", "B@5", ""), [("B", 5, None)]),
    "street gone and back (S-08)": (("A@1", "@2", "A@3"), [("A", None, 2), ("", 2, 3), ("A", 3, None)]),
}

# Case -> changes per delivery: quantity@seq, "-" deletes, "M" archives; expected: quantity, seq, deleted, archived.
LINES: dict[str, tuple[tuple[str, str, str], tuple[str | None, int, bool, bool]]] = {
    "older change after a newer one": (("7@103", "5@101", ""), ("7", 103, False, False)),
    "two rows of one key in the first delivery": (("5@101 7@103", "", ""), ("7", 103, False, False)),
    "replayed after its deletion": (("5@3", "-@5", "5@3"), ("5", 5, True, False)),
    "late deletion": (("5@10", "-@5", ""), ("5", 10, False, False)),
    "deletion before its upsert": (("-@5", "5@3", ""), ("5", 5, True, False)),
    "archived": (("5@1", "M@2", ""), ("5", 2, False, True)),
    "deleted, then back": (("5@1", "-@2", "6@3"), ("6", 3, False, False)),
    "sequence of two digits (M-05)": (("5@9", "7@10", ""), ("7", 10, False, False)),
    "deletion of a key that was never there": (("-@4", "", ""), (None, 4, True, False)),
}


def _change(text: str, key: dict[str, str], value: str, delivery: str, *, row: int, seq: str) -> dict[str, object]:
    content, _, _ = text.partition("@")
    return {
        **key,
        value: None if content in ("-", "M") else content,
        "change_seq": seq,
        "change_op": {"-": "D", "M": "M"}.get(content, "U"),
        "_tech_batch_id": delivery,
        "_tech_source_file": f"feed/{delivery}/part.csv",
        "_tech_row_number": row,
    }


def _customer_changes(delivery: str) -> list[dict[str, object]]:
    changes: list[dict[str, object]] = []
    for number, (deliveries, _) in enumerate(CUSTOMERS.values()):
        for text in deliveries[int(delivery) - 1].split():
            seq = f"{20260401100000 + int(text.partition('@')[2]):020d}0000000"
            key = {"MANDT": "100", "KUNNR": str(number), "ERNAM": f"clerk of delivery {delivery}"}
            changes.append(_change(text, key, "ORT01", delivery, row=len(changes) + 1, seq=seq))
    return changes


def _line_changes(delivery: str) -> list[dict[str, object]]:
    changes: list[dict[str, object]] = []
    for number, (deliveries, _) in enumerate(LINES.values()):
        for text in deliveries[int(delivery) - 1].split():
            key = {"MANDT": "100", "VBELN": str(number), "POSNR": "10", "NETWR": "1.00", "WAERK": "EUR"}
            changes.append(
                _change(text, key, "KWMENG", delivery, row=len(changes) + 1, seq=f"{int(text.partition('@')[2]):020d}")
            )
    return changes


_KNA1_COLUMNS = ["MANDT", "KUNNR", "ORT01", "ERNAM"]
_VBAP_COLUMNS = ["MANDT", "VBELN", "POSNR", "NETWR", "WAERK", "KWMENG"]


def _deliver(spark: SparkSession, table: str, columns: list[str], rows: list[dict[str, object]]) -> None:
    schema = ", ".join(
        f"{name} {'BIGINT' if name == '_tech_row_number' else 'STRING'}" for name in (*_TECHNICAL, *columns)
    )
    contract = bronze.contract_of(KNA1 if table.endswith("kna1") else VBAP)
    writes.append(spark, table, contract, frame_of(spark, schema, rows))


CUSTOMER = (f"{CATALOG}.bronze.sap_kna1", f"{CATALOG}.silver.customer")
LINE = (f"{CATALOG}.bronze.sap_vbap", f"{CATALOG}.silver.sales_order_line")


def _load(spark: SparkSession, lake: Path, deliveries: tuple[str, ...] = _DELIVERIES) -> Path:
    """A lake into which the deliveries came one by one, in this order."""
    catalog.use_lake(spark, lake)
    for delivery in deliveries:
        _deliver(spark, CUSTOMER[0], _KNA1_COLUMNS, _customer_changes(delivery))
        _deliver(spark, LINE[0], _VBAP_COLUMNS, _line_changes(delivery))
        silver_customer.run(spark, *CUSTOMER)
        silver_sales_order_line.run(spark, *LINE)
    return lake


def _rows(spark: SparkSession, lake: Path, table: str) -> DataFrame:
    return spark.read.format("delta").load(str(lake.joinpath(*table.split(".")[1:]))).drop("_tech_loaded_at")


def _log_files(lake: Path) -> set[str]:
    return {str(path) for path in lake.glob("silver/*/_delta_log/*.json")}


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _load(spark, tmp_path_factory.mktemp("loaded") / "lake")


@pytest.fixture
def lake_of_loaded(spark: SparkSession, loaded: Path) -> Path:
    """The loaded lake, with names that mean it."""
    catalog.use_lake(spark, loaded)
    return loaded


def test_every_history_of_a_customer_is_as_its_changes_happened(spark: SparkSession, loaded: Path) -> None:
    found: dict[str, list[tuple[str, int | None, int | None]]] = {case: [] for case in CUSTOMERS}

    def second(at: object) -> int | None:
        return None if at is None or str(at).startswith("1900") else int(str(at)[17:19])

    for row in _rows(spark, loaded, CUSTOMER[1]).orderBy("customer_id", "_tech_valid_from").collect():
        version = (row["city"] or "", second(row["_tech_valid_from"]), second(row["_tech_valid_to"]))
        found[list(CUSTOMERS)[int(row["customer_id"])]].append(version)
        assert row["_tech_is_current"] == (row["_tech_valid_to"] is None)
    assert found == {case: expected for case, (_, expected) in CUSTOMERS.items()}


def test_every_line_ends_in_its_newest_state(spark: SparkSession, loaded: Path) -> None:
    found = {
        list(LINES)[int(row["order_id"])]: (
            None if row["quantity"] is None else str(int(row["quantity"])),
            int(row["change_seq"]),
            row["is_deleted"],
            row["is_archived"],
        )
        for row in _rows(spark, loaded, LINE[1]).collect()
    }
    assert found == {case: expected for case, (_, expected) in LINES.items()}


def test_silver_is_the_same_in_another_order_of_arrival(spark: SparkSession, loaded: Path, tmp_path: Path) -> None:
    other = _load(spark, tmp_path / "lake", ("3", "2", "1"))
    for _, table in (CUSTOMER, LINE):
        assert same_rows(_rows(spark, loaded, table), _rows(spark, other, table))


def test_loading_and_replaying_again_changes_no_row_and_makes_no_version(
    spark: SparkSession, lake_of_loaded: Path
) -> None:
    files = _log_files(lake_of_loaded)
    before = [_rows(spark, lake_of_loaded, table).localCheckpoint() for _, table in (CUSTOMER, LINE)]
    assert silver_customer.run(spark, *CUSTOMER).rows_read == 0
    assert silver_sales_order_line.run(spark, *LINE).rows_read == 0
    replays = [silver_customer.run(spark, *CUSTOMER, "1"), silver_sales_order_line.run(spark, *LINE, "1")]
    effects = {"inserted", "updated", "closed", "woven_in", "deleted", "rederived"}
    assert not effects & {outcome for report in replays for outcome in report.outcomes}
    assert _log_files(lake_of_loaded) == files
    for (_, table), rows in zip((CUSTOMER, LINE), before, strict=True):
        assert same_rows(_rows(spark, lake_of_loaded, table), rows)


def test_a_load_that_crashes_before_its_ledger_comes_out_right_the_next_time(
    spark: SparkSession, loaded: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for delivery in _DELIVERIES:
        _deliver(spark, LINE[0], _VBAP_COLUMNS, _line_changes(delivery))
    with monkeypatch.context() as crash:
        crash.setattr(ledger, "record", _fail)
        with pytest.raises(RuntimeError, match="crash"):
            silver_sales_order_line.run(spark, *LINE)
    files = _log_files(lake)
    report = silver_sales_order_line.run(spark, *LINE)
    assert report.rows_read == sum(len(_line_changes(delivery)) for delivery in _DELIVERIES)
    assert _log_files(lake) == files
    assert same_rows(_rows(spark, lake, LINE[1]), _rows(spark, loaded, LINE[1]))


def _fail(*_args: object, **_options: object) -> None:
    raise RuntimeError("crash")


def test_rows_without_key_or_order_are_quarantined_and_never_inserted(spark: SparkSession, lake: Path) -> None:
    assert lake.is_dir()
    source, target = LINE
    good = {"MANDT": "100", "VBELN": "1", "POSNR": "10", "NETWR": "1.00", "WAERK": "EUR"}
    rows = [
        _change("5@1", good, "KWMENG", "1", row=1, seq="0001"),
        _change("5@1", {**good, "POSNR": ""}, "KWMENG", "1", row=2, seq="0001"),
        {**_change("7@1", good, "KWMENG", "1", row=3, seq="0002"), "change_seq": None},
        _change("five@1", {**good, "VBELN": "2"}, "KWMENG", "1", row=4, seq="0001"),
    ]
    _deliver(spark, source, _VBAP_COLUMNS, rows)
    first = silver_sales_order_line.run(spark, source, target)
    again = silver_sales_order_line.run(spark, source, target, "1")
    assert first.outcomes == {"inserted": 1, "quarantined": 3}
    assert again.outcomes == {"equal": 1, "quarantined": 3}
    assert again.rows == 1
    rejected = catalog.read(spark, f"{CATALOG}.{quarantine.CONTRACT.qualified_name}")
    reasons = [row["reason"] for row in rejected.orderBy("_tech_row_number").collect()]
    assert reasons == [
        "null_key: POSNR is missing",
        "change_seq: the delivered values give no order",
        "KWMENG is no DECIMAL(15,3) with a decimal point: five",
    ]
    counted = catalog.read(spark, f"{CATALOG}.{load_ledger.CONTRACT.qualified_name}").orderBy("finished_at").collect()
    assert [(row["rows_read"], row["quarantined"], row["is_replay"]) for row in counted] == [
        (4, 3, False),
        (4, 3, True),
    ]
