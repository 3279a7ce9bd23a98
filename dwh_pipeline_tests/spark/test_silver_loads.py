"""Silver loads over bronze tables made by hand: late, repeated and deleted changes, in more than one order of arrival.

Many cases share one load: each has a key of its own, and a case names its changes per delivery.
"""

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from dwh_pipeline.errors import OvertakenError
from dwh_pipeline.lake import catalog, ledger, writes
from dwh_pipeline.loads import silver, silver_customer, silver_sales_order_line
from dwh_pipeline.loads.checks import CHECKS
from dwh_pipeline.loads.delivered import read_delivered
from dwh_pipeline.sap.fields import KNA1, VBAP
from dwh_pipeline.tables import bronze, customer, load_ledger, quarantine
from dwh_pipeline_tests.frames import frame_of
from dwh_pipeline_tests.warehouse import rows_of

CATALOG = "spark_catalog"
_TECHNICAL = ["change_seq", "change_op", "_tech_batch_id", "_tech_source_file", "_tech_row_number"]
_DELIVERIES = ("1", "2", "3")

# Case -> changes per delivery: value@second of 2026-04-01 10:00, "-" deletes, "_" is blanks, "A|B" fills two fields;
# expected: value, from, to (seconds). The codes are those of public bug reports.
CUSTOMERS: dict[str, tuple[tuple[str, str, str], list[tuple[str, int | None, int | None]]]] = {
    "S-03 late change inside": (("A@1 C@3", "B@2", ""), [("A", None, 2), ("B", 2, 3), ("C", 3, None)]),
    "S-03 one batch each, newest first": (("C@3", "B@2", "A@1"), [("A", None, 2), ("B", 2, 3), ("C", 3, None)]),
    "late change before all history": (("B@5", "A@1", ""), [("A", None, 5), ("B", 5, None)]),
    "late change after a delete": (("A@1 -@3", "B@5", ""), [("A", None, 3), ("B", 5, None)]),
    "late change between a delete and its recreation": (
        ("A@1 -@3 C@9", "B@5", ""),
        [("A", None, 3), ("B", 5, 9), ("C", 9, None)],
    ),
    "two late at once": (("A@1 D@9", "B@3 C@5", ""), [("A", None, 3), ("B", 3, 5), ("C", 5, 9), ("D", 9, None)]),
    "late change between equal values": (("A@1 A@5", "B@3", ""), [("A", None, 3), ("B", 3, 5), ("A", 5, None)]),
    "late delete": (("A@1 C@5", "-@3", ""), [("A", None, 3), ("C", 5, None)]),
    "late delete that shortens an interval": (("A@1 -@9", "-@3", ""), [("A", None, 3)]),
    "delete before its upsert": (("-@3", "A@1", ""), [("A", None, 3)]),
    "deleted only": (("-@3", "", ""), []),
    "created after a delete": (("-@3", "B@5", ""), [("B", 5, None)]),
    "S-05 the same record returns after its delete": (("A@1", "-@3", "A@5"), [("A", None, 3), ("A", 5, None)]),
    "S-05 recreated, then the delete again": (("A@1", "-@3 B@5", "-@3"), [("A", None, 3), ("B", 5, None)]),
    "S-07 repeated delete": (("A@1 -@3", "-@3", "-@4"), [("A", None, 3)]),
    "S-07 technical change alone": (("A@1", "A@2", "A@3"), [("A", None, None)]),
    "untracked change alone": (("A@1", "A@1", "A@4"), [("A", None, None)]),
    "repeated value": (("A@1", "A@1 B@2", ""), [("A", None, 2), ("B", 2, None)]),
    "value returns": (("A@1", "B@2", "A@3"), [("A", None, 2), ("B", 2, 3), ("A", 3, None)]),
    "three versions at once, then again": (
        ("A@1 B@2 C@3", "C@3 B@2 A@1", ""),
        [("A", None, 2), ("B", 2, 3), ("C", 3, None)],
    ),
    "S-08 blank, blanks and nothing are one value": (
        ("@1 _@2", "A@4 @5", "_@6"),
        [("", None, 4), ("A", 4, 5), ("", 5, None)],
    ),
    "S-09 a character moves to the next field": (("AB|C@1", "A|BC@2", ""), [("AB|C", None, 2), ("A|BC", 2, None)]),
    "S-09 a sign moves to the next field": (("1-|4@1", "1|-4@2", ""), [("1-|4", None, 2), ("1|-4", 2, None)]),
}

# Case -> changes per delivery: quantity@seq, "-" deletes, "M" archives; expected: quantity, seq, deleted, archived.
LINES: dict[str, tuple[tuple[str, str, str], tuple[str | None, int, bool, bool]]] = {
    "M-01 two rows of one key into a table that has it": (("5@90", "5@101 7@103", ""), ("7", 103, False, False)),
    "M-01 two rows of one key into an empty table": (("5@101 7@103", "", ""), ("7", 103, False, False)),
    # The larger SHA-256 of the content stays, and that is the one with quantity 5.
    "M-02 ties inside and across batches": (("7@101 5@101", "9@101", "5@101"), ("5", 101, False, False)),
    "M-05 sequence of two digits": (("5@9", "7@10", ""), ("7", 10, False, False)),
    "M-08 replay of an old batch": (("5@101", "7@103", "5@101"), ("7", 103, False, False)),
    "M-08 replay after the deletion": (("5@101", "7@103 -@105", "5@101"), ("7", 105, True, False)),
    "M-08 deletion before its upsert": (("-@105", "5@101", "7@103"), ("7", 105, True, False)),
    "older change after a newer one": (("7@103", "5@101", ""), ("7", 103, False, False)),
    "up3, delete5, up3 again": (("5@3", "-@5", "5@3"), ("5", 5, True, False)),
    "up10, late delete5": (("5@10", "-@5", ""), ("5", 10, False, False)),
    "archived": (("5@1", "M@2", ""), ("5", 2, False, True)),
    "archived before its upsert": (("M@2", "5@1", ""), ("5", 2, False, True)),
    "deleted, then back": (("5@1", "-@2", "6@3"), ("6", 3, False, False)),
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
            # The key in another form each time (S-08, P-03); the clerk changes with every delivery and is not tracked.
            customer = {"1": str(number), "2": f"{number:010d} ", "3": f"{number:04d}"}[delivery]
            key = {"MANDT": "100", "KUNNR": customer, "ERNAM": f"clerk of delivery {delivery}"}
            change = _change(text, key, "ORT01", delivery, row=len(changes) + 1, seq=seq)
            city, _, district = str(change["ORT01"] or "").partition("|")
            changes.append({**change, "ORT01": {"_": "   ", "": None}.get(city, city), "ORT02": district})
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


_KNA1_COLUMNS = ["MANDT", "KUNNR", "ORT01", "ORT02", "ERNAM"]
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


@pytest.fixture(scope="module")
def histories(spark: SparkSession, loaded: Path) -> dict[str, list[tuple[str, int | None, int | None]]]:
    """The versions of every customer, as `CUSTOMERS` writes them."""
    found: dict[str, list[tuple[str, int | None, int | None]]] = {case: [] for case in CUSTOMERS}

    def second(at: object) -> int | None:
        return None if at is None or str(at).startswith("1900") else int(str(at)[17:19])

    for row in _rows(spark, loaded, CUSTOMER[1]).orderBy("customer_id", "_tech_valid_from").collect():
        value = (row["city"] or "") + (f"|{row['district']}" if row["district"] else "")
        version = (value, second(row["_tech_valid_from"]), second(row["_tech_valid_to"]))
        found[list(CUSTOMERS)[int(row["customer_id"])]].append(version)
        assert row["_tech_is_current"] == (row["_tech_valid_to"] is None)
    return found


@pytest.mark.parametrize("case", CUSTOMERS)
def test_the_history_of_a_customer_is_as_its_changes_happened(
    histories: dict[str, list[tuple[str, int | None, int | None]]], case: str
) -> None:
    assert histories[case] == CUSTOMERS[case][1]


@pytest.fixture(scope="module")
def states(spark: SparkSession, loaded: Path) -> dict[str, tuple[str | None, int, bool, bool]]:
    """The state of every line, as `LINES` writes it."""
    return {
        list(LINES)[int(row["order_id"])]: (
            None if row["quantity"] is None else str(int(row["quantity"])),
            int(row["change_seq"]),
            row["is_deleted"],
            row["is_archived"],
        )
        for row in _rows(spark, loaded, LINE[1]).collect()
    }


@pytest.mark.parametrize("case", LINES)
def test_a_line_ends_in_its_newest_state(states: dict[str, tuple[str | None, int, bool, bool]], case: str) -> None:
    assert states[case] == LINES[case][1]


def test_s02_at_each_instant_a_customer_has_one_version(spark: SparkSession, loaded: Path) -> None:
    at = "_tech_valid_from <= TIMESTAMP '{0}' AND (_tech_valid_to IS NULL OR _tech_valid_to > TIMESTAMP '{0}')"
    customer = _rows(spark, loaded, CUSTOMER[1]).where(f"customer_id = {list(CUSTOMERS).index('value returns')}")
    instants = ("10:00:01.999999", "10:00:02", "10:00:02.000001")
    found = [[row["city"] for row in customer.where(at.format(f"2026-04-01 {i}")).collect()] for i in instants]
    assert found == [["A"], ["B"], ["B"]]


def test_every_load_of_customers_made_one_commit_at_most(spark: SparkSession, loaded: Path) -> None:
    log = spark.sql(f"DESCRIBE HISTORY delta.`{loaded}/silver/customer`").groupBy("operation").count().collect()
    assert {row["operation"]: row["count"] for row in log} == {"CREATE TABLE": 1, "MERGE": 3}


def test_silver_is_the_same_in_another_order_of_arrival(spark: SparkSession, loaded: Path, tmp_path: Path) -> None:
    other = _load(spark, tmp_path / "lake", ("3", "2", "1"))
    for _, table in (CUSTOMER, LINE):
        assert rows_of(_rows(spark, loaded, table)) == rows_of(_rows(spark, other, table))


def test_loading_and_replaying_again_changes_no_row_and_makes_no_version(
    spark: SparkSession, lake_of_loaded: Path
) -> None:
    files = _log_files(lake_of_loaded)
    before = [rows_of(_rows(spark, lake_of_loaded, table)) for _, table in (CUSTOMER, LINE)]
    assert silver_customer.run(spark, *CUSTOMER).rows_read == 0
    assert silver_sales_order_line.run(spark, *LINE).rows_read == 0
    replays = [silver_customer.run(spark, *CUSTOMER, "1"), silver_sales_order_line.run(spark, *LINE, "1")]
    effects = {"inserted", "updated", "closed", "woven_in", "deleted", "rederived"}
    assert not effects & {outcome for report in replays for outcome in report.outcomes}
    assert _log_files(lake_of_loaded) == files
    for (_, table), rows in zip((CUSTOMER, LINE), before, strict=True):
        assert rows_of(_rows(spark, lake_of_loaded, table)) == rows


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
    assert rows_of(_rows(spark, lake, LINE[1])) == rows_of(_rows(spark, loaded, LINE[1]))


def _fail(*_args: object, **_options: object) -> None:
    raise RuntimeError("crash")


@pytest.mark.usefixtures("lake")
def test_m03_m04_rows_without_key_or_order_are_quarantined_and_never_inserted(spark: SparkSession) -> None:
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
    again = [silver_sales_order_line.run(spark, source, target, "1") for _ in range(2)][-1]
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
        (4, 3, True),
    ]


@pytest.mark.usefixtures("lake")
def test_m04_a_stored_row_without_an_order_loses_to_any_change(spark: SparkSession) -> None:
    key = {"MANDT": "100", "VBELN": "1", "POSNR": "10", "NETWR": "1.00", "WAERK": "EUR"}
    _deliver(spark, LINE[0], _VBAP_COLUMNS, [_change("5@1", key, "KWMENG", "1", row=1, seq="0001")])
    silver_sales_order_line.run(spark, *LINE)
    spark.sql(f"ALTER TABLE {LINE[1]} ALTER COLUMN change_seq DROP NOT NULL")
    spark.sql(f"UPDATE {LINE[1]} SET change_seq = NULL")  # noqa: S608
    _deliver(spark, LINE[0], _VBAP_COLUMNS, [_change("7@1", key, "KWMENG", "2", row=1, seq="0101")])
    silver_sales_order_line.run(spark, *LINE)
    assert [(int(row["quantity"]), row["change_seq"]) for row in catalog.read(spark, LINE[1]).collect()] == [
        (7, "0101")
    ]


def test_m02_a_tie_is_named_with_all_its_contents(spark: SparkSession, lake_of_loaded: Path) -> None:
    assert lake_of_loaded.is_dir()
    check = next(c for c in CHECKS if c.name == "changes_have_one_content" and c.contract.name == "sap_vbap")
    finding = check.ask(spark, CATALOG)
    (sample,) = map(json.loads, finding.samples)
    assert finding.failing_rows == 1
    assert int(sample["order_id"]) == list(LINES).index("M-02 ties inside and across batches")
    assert json.loads(sample["stays"])["quantity"] == 5
    assert sorted(json.loads(content)["quantity"] for content in sample["goes"]) == [7, 9]


@pytest.mark.usefixtures("lake")
def test_s01_two_overlapping_loads_leave_one_current_row(spark: SparkSession) -> None:
    key = {"MANDT": "100", "KUNNR": "1"}
    for delivery, city in (("1", "Bonn"), ("2", "Koeln")):
        seq = f"{20260401100000 + int(delivery):020d}0000000"
        _deliver(spark, CUSTOMER[0], _KNA1_COLUMNS, [_change(f"{city}@1", key, "ORT01", delivery, row=1, seq=seq)])
        if delivery == "1":
            silver_customer.run(spark, *CUSTOMER)
    plans = [
        silver.plan(spark, read_delivered(spark, CUSTOMER[0], KNA1), None, CUSTOMER[1], customer.TABLE) for _ in "ab"
    ]
    silver.apply(spark, plans[0])
    with pytest.raises(OvertakenError, match="run again"):
        silver.apply(spark, plans[1])
    silver_customer.run(spark, *CUSTOMER)
    rows = catalog.read(spark, CUSTOMER[1]).orderBy("_tech_valid_from").collect()
    assert [(row["city"], row["_tech_is_current"]) for row in rows] == [("Bonn", False), ("Koeln", True)]


def test_a_table_that_is_made_anew_takes_everything_again_though_the_ledger_knows_it(
    spark: SparkSession, lake: Path
) -> None:
    key = {"MANDT": "100", "KUNNR": "1"}
    _deliver(spark, CUSTOMER[0], _KNA1_COLUMNS, [_change("A@1", key, "ORT01", "1", row=1, seq="0001")])
    silver_customer.run(spark, *CUSTOMER)
    spark.sql(f"DROP TABLE {CUSTOMER[1]}")
    shutil.rmtree(lake / "silver" / "customer")
    catalog.ensure(spark, CUSTOMER[1], customer.CONTRACT)  # what a crash right after the creation leaves
    report = silver_customer.run(spark, *CUSTOMER)
    assert (report.rows, report.outcomes) == (1, {"inserted": 1})
