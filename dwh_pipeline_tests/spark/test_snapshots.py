"""Full snapshots: which absences delete, where they are placed, and which snapshots are refused."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dwh_pipeline.errors import DeliveryError, SnapshotRefusedError
from dwh_pipeline.lake.landing import complete_files, read_feeds
from dwh_pipeline.loads.intake import read_new
from dwh_pipeline.sap.profiles import DeclaredOrder, snapshot_position
from dwh_pipeline.tables import currency, customer
from dwh_pipeline.tables.snapshots import with_absences
from dwh_pipeline_tests.frames import frame_of
from dwh_pipeline_tests.warehouse import Warehouse, rows_of, write_landing

# Key -> its changes: operation, position, delivery. S and T are full snapshots, taken at 30 and at 50.
_SNAPSHOTS = (("0030", "S"), ("0050", "T"))
_CHANGES: dict[str, str] = {
    "absent from both": "U@10:1",
    "absent from the second": "U@10:1 U@30:S",
    "in both": "U@30:S U@50:T",
    "older row of an unknown key": "U@05:9",
    "recreated after the first": "U@10:1 U@40:2",
    "created after both": "U@60:3",
    "deleted before": "U@10:1 D@20:1",
    "archived before": "U@10:1 M@20:1",
    "at the very position": "U@30:1",
    "cannot be read, but is there": "U@10:1 !@30:S !@50:T",
}
_DELETED = {
    "absent from both": ["0030"],
    "absent from the second": ["0050"],
    "older row of an unknown key": ["0030"],
    "recreated after the first": ["0030", "0050"],
    "at the very position": ["0030"],
}


def test_an_absence_deletes_a_key_whose_newest_change_before_the_snapshot_is_an_upsert(spark: SparkSession) -> None:
    rows = [
        {
            "key": key,
            "change_op": "U" if op == "!" else op,
            "change_seq": f"00{position}",
            "_tech_batch_id": delivery,
            "_tech_snapshot_seq": {id_: at for at, id_ in _SNAPSHOTS}.get(delivery),
            "reason": "NETWR is no number" if op == "!" else None,
        }
        for key, changes in _CHANGES.items()
        for op, _, position, _, delivery in ((change[0], "@", *change[2:].partition(":")) for change in changes.split())
    ]
    columns = ["key", "change_op", "change_seq", "_tech_batch_id", "_tech_snapshot_seq", "_tech_row_hash", "reason"]
    history = with_absences(frame_of(spark, columns, rows), ("key",), _SNAPSHOTS)
    found: dict[str, list[str]] = {}
    for row in history.where("_is_absence").orderBy("change_seq").collect():
        found.setdefault(row["key"], []).append(row["change_seq"])
    assert found == _DELETED
    assert history.where("NOT _is_absence").count() == sum(row["reason"] is None for row in rows)


@pytest.mark.parametrize(
    ("delivery", "newest", "order", "taken_at", "expected"),
    [
        ("0002", f"{'':0>29}{2:0>40}part.csv  0000000001", DeclaredOrder(), None, f"{'':0>29}{2:0>40}{'':0>20}"),
        ("20260401T0600", f"{20260331120000:020d}{'':0>9}", None, None, f"{20260401060000:020d}{'':0>9}"),
        ("delta/20260401", f"{20260401:020d}{'':0>9}", DeclaredOrder("AEDAT"), None, f"{20260401:020d}{'':0>9}"),
        ("0002", f"{4711:020d}{'':0>9}", DeclaredOrder("SEQ"), "5000", f"{5000:020d}{'':0>9}"),
        ("20260401", "0" * 29, None, None, f"{20260401000000:020d}{'':0>9}"),
    ],
    ids=["ordered by delivery", "by time", "by date", "by a counter", "initial rows only"],
)
def test_a_snapshot_is_placed_as_its_feed_orders_changes(
    delivery: str, newest: str, order: DeclaredOrder | None, taken_at: str | None, expected: str
) -> None:
    assert snapshot_position(delivery, newest, order, taken_at) == expected


@pytest.mark.parametrize(
    ("delivery", "newest", "taken_at", "problem"),
    [
        ("0002", f"{4711:020d}{'':0>9}", None, "does not tell when the snapshot was taken"),
        ("20260401", f"{4711:020d}{'':0>9}", None, "does not tell when"),
        ("0002", f"{4711:020d}{'':0>9}", "4000", "taken at 4000 but holds a change of 4711"),
        ("20260401", f"{20260402:020d}{'':0>9}", None, "taken at 20260401 but holds a change of 20260402"),
    ],
)
def test_a_snapshot_that_cannot_be_placed_is_refused(
    delivery: str, newest: str, taken_at: str | None, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        snapshot_position(delivery, newest, DeclaredOrder("SEQ"), taken_at)


_FEEDS = """
[feeds.customers]
table = "KNA1"
constants = { MANDT = "100" }
max_files_per_trigger = 1

[feeds.currencies]
table = "TCURX"
snapshot = true
max_deleted_share = 0.5
"""
# Customer 5 is gone in the snapshot, which comes in two files; 7 comes after it.
_DELIVERED = {
    "customers/20260401/a.csv": "KUNNR,ORT01\n1,Bonn\n2,Ulm\n3,Kiel\n4,Jena\n5,Gera\n",
    "customers/20260403/_delivery.json": '{"snapshot": true, "rows": 4}',
    "customers/20260403/a.csv": "KUNNR,ORT01\n1,Bonn\n2,Trier\n",
    "customers/20260403/b.csv": "KUNNR,ORT01\n3,Kiel\n4,Jena\n",
    "customers/20260404/a.csv": "KUNNR,ORT01\n",
    "customers/20260405/a.csv": "KUNNR,ORT01\n7,Celle\n",
    "currencies/20260401/a.csv": "CURRKEY,CURRDEC\nJPY,0\nKWD,3\nXXX,4\n",
    "currencies/20260402/a.csv": "CURRKEY,CURRDEC\nJPY,0\nKWD,3\n",
}
# Older than the snapshot, in which 5 and 6 are absent.
_LATE = {"customers/20260402/a.csv": "KUNNR,ORT01\n5,Suhl\n6,Hof\n"}
_TABLES = ("bronze.sap_kna1", "bronze.sap_tcurx", "silver.currency", "silver.customer")
_FIRST, _SNAPSHOT = "1900-01-01", "2026-04-03"
_HISTORY = {
    ("1", "Bonn", _FIRST, None),
    ("2", "Ulm", _FIRST, _SNAPSHOT),
    ("2", "Trier", _SNAPSHOT, None),
    ("3", "Kiel", _FIRST, None),
    ("4", "Jena", _FIRST, None),
    ("5", "Gera", _FIRST, "2026-04-02"),
    ("5", "Suhl", "2026-04-02", _SNAPSHOT),
    ("6", "Hof", _FIRST, _SNAPSHOT),
    ("7", "Celle", _FIRST, None),
}


def _history(warehouse: Warehouse) -> set[tuple[str, str, str, str | None]]:
    rows = warehouse.table(customer.CONTRACT).collect()
    days = [
        (str(row["_tech_valid_from"])[:10], row["_tech_valid_to"] and str(row["_tech_valid_to"])[:10]) for row in rows
    ]
    return {(row["customer_id"].lstrip("0"), row["city"], *day) for row, day in zip(rows, days, strict=True)}


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Everything delivered in time, loaded at once, and then what comes late."""
    root = tmp_path_factory.mktemp("snapshots")
    write_landing(root / "landing", {"feeds.toml": _FEEDS, **_DELIVERED})
    loaded = Warehouse(spark, root / "lake", root / "landing")
    first = loaded.step(*_TABLES)
    assert first["silver.customer"].absent == first["silver.currency"].absent == 1
    write_landing(root / "landing", _LATE)
    late = loaded.step(*_TABLES)
    assert late["silver.customer"].outcomes == {"inserted": 1, "woven_in": 1}
    return loaded


def test_what_a_snapshot_lacks_is_deleted_also_if_an_older_row_of_it_comes_later(warehouse: Warehouse) -> None:
    assert _history(warehouse) == _HISTORY
    rows = warehouse.table(currency.CONTRACT).collect()
    assert {row["currency"]: row["is_deleted"] for row in rows} == {"JPY": False, "KWD": False, "XXX": True}


def test_all_deliveries_at_once_give_the_same_as_the_late_one_after_the_snapshot(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    at_once = Warehouse(warehouse.spark, tmp_path / "lake", warehouse.landing)
    at_once.step(*_TABLES)
    assert rows_of(at_once.table(customer.CONTRACT)) == rows_of(warehouse.table(customer.CONTRACT))


def test_a_snapshot_in_several_files_is_taken_in_one_micro_batch(warehouse: Warehouse) -> None:
    log = f"DESCRIBE HISTORY delta.`{warehouse.lake}/bronze/sap_kna1`"
    commits = warehouse.spark.sql(log).where("operation = 'WRITE'").collect()
    # One of two rows each for the deltas (the empty one has none), and one for the snapshot.
    assert sorted(int(commit["operationMetrics"]["numOutputRows"]) for commit in commits) == [1, 2, 4, 5]


def test_a_snapshot_that_lacks_too_much_is_refused_until_it_is_whole_or_allowed(warehouse: Warehouse) -> None:
    part = {"customers/20260406/a.csv": "KUNNR,ORT01\n1,Bonn\n"}
    write_landing(warehouse.landing, part | {"customers/20260406/_delivery.json": '{"snapshot": true}'})
    before = warehouse.files("bronze", "silver", "ops")
    for _ in range(2):
        with pytest.raises(SnapshotRefusedError, match=r"20260406 .* would delete 4 of 5 keys \(80%\)") as refused:
            warehouse.step(*_TABLES)
        assert (refused.value.absent, refused.value.alive) == (4, 5)
    assert warehouse.files("bronze", "silver", "ops") == before
    # Taken away, and delivered again whole.
    shutil.rmtree(warehouse.landing / "customers" / "20260406")
    whole = {"customers/20260407/a.csv": "KUNNR,ORT01\n1,Bonn\n2,Trier\n3,Kiel\n4,Jena\n7,Celle\n"}
    write_landing(warehouse.landing, whole | {"customers/20260407/_delivery.json": '{"snapshot": true}'})
    assert warehouse.step(*_TABLES)["silver.customer"].outcomes == {"equal": 5}
    # Right as it is, and allowed by name.
    allowed = {"customers/20260408/_delivery.json": '{"snapshot": true, "max_deleted_share": 0.8}'}
    write_landing(warehouse.landing, {"customers/20260408/a.csv": "KUNNR,ORT01\n1,Bonn\n"} | allowed)
    assert warehouse.step(*_TABLES)["silver.customer"].absent == 4
    assert sum(to is None for _, _, _, to in _history(warehouse)) == 1


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"a.csv": "KUNNR,ORT01\n", "_delivery.json": '{"snapshot": true}'}, "without rows, which would delete"),
        ({"a.csv": "KUNNR,ORT01\n1,Bonn\n", "_delivery.json": '{"rows": 2}'}, "has 1 rows, but .* says 2"),
        ({"a.csv": "KUNNR,ORT01\n,Bonn\n", "_delivery.json": '{"snapshot": true}'}, "row 1 of a full snapshot"),
        ({"a.csv": "KUNNR,ORT01\n1,Bonn\n", "_delivery.json": "{"}, "_delivery.json: is no JSON"),
        ({"a.csv": "KUNNR,ORT01\n1,Bonn\n", "_delivery.json": '{"snap": 1}'}, "snap: is not a key of a delivery"),
    ],
)
def test_a_delivery_that_is_not_what_it_declares_is_refused(
    spark: SparkSession, tmp_path: Path, files: dict[str, str], problem: str
) -> None:
    landing = write_landing(
        tmp_path,
        {"feeds.toml": _FEEDS} | {f"customers/20260401/{name}": text for name, text in files.items()},
    )
    feed = next(feed for feed in read_feeds(landing) if feed.name == "customers")
    with pytest.raises(DeliveryError, match=problem):
        read_new(spark, feed, landing, "spark_catalog.bronze.nowhere", complete_files(landing, feed))
