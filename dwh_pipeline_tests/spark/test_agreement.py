"""What has to agree between tables: every expectation on rows made by hand, and all of them on one small warehouse.

A case has a key of its own, so that one question is asked of all cases of an expectation.
"""

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from dwh_pipeline.lake import catalog
from dwh_pipeline.loads.checks import CHECKS
from dwh_pipeline.loads.silver import MOST_BROADCAST_KEYS, rows_of_keys
from dwh_pipeline.quality.expectations import (
    Finding,
    fact_has_the_lines_of_silver,
    header_totals_equal_items,
    line_has_one_customer_version,
    no_gap_but_a_deletion,
    open_version_equals_newest_change,
)
from dwh_pipeline.tables import customer, dim_customer
from dwh_pipeline.tables.scd2 import DAWN
from dwh_pipeline_tests.frames import frame_of
from dwh_pipeline_tests.landings import CUSTOMER_COLUMNS
from dwh_pipeline_tests.warehouse import Warehouse, write_landing

_START = datetime(2026, 4, 1, tzinfo=UTC)


def _found(finding: Finding, *names: str) -> set[tuple[object, ...]]:
    """These fields of all samples; there are as many as rows that fail."""
    samples = [json.loads(sample) for sample in finding.samples]
    assert len(samples) == finding.failing_rows
    return {tuple(sample.get(name) for name in names) for sample in samples}


def _versions(spark: SparkSession, cases: Iterable[tuple[str, str]]) -> DataFrame:
    """Versions as `value@from-to`, in days; day 0 is the dawn, and no `to` leaves it open. change_seq is the day."""
    rows = []
    for key, versions in cases:
        for version in versions.split():
            value, _, interval = version.partition("@")
            first, _, last = interval.partition("-")
            start = _START + timedelta(days=int(first)) if int(first) else datetime.fromisoformat(f"{DAWN}+00:00")
            end = _START + timedelta(days=int(last)) if last else None
            rows.append((key, None if value == "_" else value, "same", f"{int(first):04d}", start, end))
    schema = "key STRING, city STRING, name STRING, change_seq STRING, _tech_valid_from TIMESTAMP, "
    return frame_of(spark, f"{schema} _tech_valid_to TIMESTAMP", rows)


# Key -> versions; value of the newest change, "-" if it deletes, None if there is none; what is wrong.
_NEWEST: dict[str, tuple[str, str | None, str | None]] = {
    "one version": ("A@0-", "A", None),
    "many versions": ("A@0-3 B@3-5 A@5-", "A", None),
    "no value is a value": ("_@0-", "_", None),
    "deleted": ("A@0-3", "-", None),
    "deleted before it was there": ("", "-", None),
    "recreated with a gap": ("A@0-3 B@5-", "B", None),
    "newest change not taken": ("A@0-3 B@3-", "C", "differs in city"),
    "blank not taken": ("A@0-", "_", "differs in city"),
    "not loaded": ("", "A", "has no open version"),
    "closed without a deletion": ("A@0-3", "A", "has no open version"),
    "deletion not taken": ("A@0-", "-", "has an open version, but was deleted or never delivered"),
    "out of nowhere": ("A@0-", None, "has an open version, but was deleted or never delivered"),
}


def test_the_open_version_is_what_the_newest_change_says(spark: SparkSession) -> None:
    newest = [
        (key, None if value in ("_", "-") else value, "same", value == "-")
        for key, (_, value, _) in _NEWEST.items()
        if value is not None
    ]
    finding = open_version_equals_newest_change(
        _versions(spark, ((key, versions) for key, (versions, _, _) in _NEWEST.items())),
        frame_of(spark, "key STRING, city STRING, name STRING, is_deleted BOOLEAN", newest),
        ("key",),
        ("name", "city"),
    )
    wrong = {(key, problem) for key, (_, _, problem) in _NEWEST.items() if problem}
    assert _found(finding, "key", "problem") == wrong


# Key -> versions; days of its deletions; where the gaps without one start (the day, 0 is the dawn).
_GAPS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "touching": ("A@0-3 B@3-", (), ()),
    "deleted": ("A@0-3", (3,), ()),
    "deleted, then recreated": ("A@0-3 A@5-", (3,), ()),
    "deleted twice in a row": ("A@0-3 A@5-", (3, 4), ()),
    "deleted before it was there": ("A@5-", (3,), ()),
    "closed without a deletion": ("A@0-3", (), (3,)),
    "a version is missing": ("A@0-3 B@5-", (), (3,)),
    "the first version is missing": ("A@5-", (), (0,)),
    "deleted in another gap": ("A@0-3 B@5-7 C@9-", (7,), (3,)),
    "deleted at the change that opened the version": ("A@0-3 B@5-7", (5,), (3, 7)),
    "deleted after the next version": ("A@0-3 B@5-", (6,), (3,)),
    "two are missing and the end": ("A@2-3 B@5-7", (), (0, 3, 7)),
}


def test_a_key_has_no_version_only_where_it_was_deleted(spark: SparkSession) -> None:
    deletions = [(key, f"{day:04d}") for key, (_, days, _) in _GAPS.items() for day in days]
    # Of another key, so no excuse.
    deletions += [("deleted", "0004"), ("somebody else", "0004")]
    finding = no_gap_but_a_deletion(
        _versions(spark, ((key, versions) for key, (versions, _, _) in _GAPS.items())),
        frame_of(spark, ["key", "change_seq"], deletions),
        ("key",),
        DAWN,
    )
    starts = {day: f"{_START + timedelta(days=day):%Y-%m-%dT00:00:00.000Z}" for day in range(1, 10)}
    starts[0] = "1900-01-01T00:00:00.000Z"
    assert _found(finding, "key", "from") == {(key, starts[day]) for key, (_, _, days) in _GAPS.items() for day in days}


# Customer -> versions as key@from-to, in days of April 2026; all lines are of day 3, which ends as day 4 begins.
_CUSTOMERS: dict[str, tuple[tuple[str, int, int | None], ...]] = {
    "one": (("one", 1, None),),
    "two": (("two, first", 1, 3), ("two, second", 3, None)),
    "changed as the day ends": (("until", 1, 4), ("from", 4, None)),
    "deleted as the day ends": (("deleted", 1, 4),),
    "deleted before": (("gone", 1, 3),),
    "too new": (("new", 4, None),),
    "twice": (("twice, first", 1, None), ("twice, second", 2, 9)),
}
# Customer of a line -> its customer_key; how many versions there are, if it is wrong.
_LINE_VERSIONS: list[tuple[str | None, str, int | None]] = [
    ("one", "one", None),
    ("one", dim_customer.UNKNOWN_KEY, 1),
    ("two", "two, second", None),
    ("two", "two, first", 1),
    ("two", "one", 1),
    ("changed as the day ends", "until", None),
    ("changed as the day ends", "from", 1),
    ("deleted as the day ends", "deleted", None),
    ("deleted before", dim_customer.UNKNOWN_KEY, None),
    ("deleted before", "gone", 0),
    ("too new", dim_customer.UNKNOWN_KEY, None),
    ("too new", "new", 0),
    ("never delivered", dim_customer.UNKNOWN_KEY, None),
    ("never delivered", "one", 0),
    (None, dim_customer.UNKNOWN_KEY, None),
    ("twice", "twice, first", 2),
    ("twice", "twice, second", 2),
]


def test_a_line_has_the_one_version_of_its_customer_or_the_unknown_member(spark: SparkSession) -> None:
    days = {day: datetime(2026, 4, day, tzinfo=UTC) for day in range(1, 10)}
    versions: list[tuple[object, ...]] = [
        ("100", name, key, days[first], days[last] if last else None)
        for name, found in _CUSTOMERS.items()
        for key, first, last in found
    ]
    # The unknown member, and the customer of the same number in another client.
    versions.append((None, None, dim_customer.UNKNOWN_KEY, days[1], None))
    versions.append(("200", "one", "of another client", days[1], None))
    lines: list[tuple[object, ...]] = [
        ("100", str(n), name, key, date(2026, 4, 3)) for n, (name, key, _) in enumerate(_LINE_VERSIONS)
    ]
    lines.append(("100", "without a date", "one", dim_customer.UNKNOWN_KEY, None))
    finding = line_has_one_customer_version(
        frame_of(
            spark,
            "client_id STRING, order_id STRING, customer_id STRING, customer_key STRING, document_date DATE",
            lines,
        ),
        frame_of(
            spark,
            "client_id STRING, customer_id STRING, customer_key STRING, valid_from TIMESTAMP, valid_to TIMESTAMP",
            versions,
        ),
        ("client_id", "order_id"),
        dim_customer.UNKNOWN_KEY,
    )
    wrong = {(str(n), key, found) for n, (_, key, found) in enumerate(_LINE_VERSIONS) if found is not None}
    assert _found(finding, "order_id", "customer_key", "versions") == wrong


# Line -> quantities in silver, "-" if it is deleted; in the fact; whether they agree.
_QUANTITIES: dict[str, tuple[tuple[str | None, ...], tuple[str | None, ...], bool]] = {
    "same": (("5",), ("5",), True),
    "without a quantity": ((None,), (None,), True),
    "deleted": (("-",), (), True),
    "not in the fact": (("5",), (), False),
    "not in silver": ((), ("5",), False),
    "deleted, but in the fact": (("-",), ("5",), False),
    "twice in the fact": (("5",), ("5", "5"), False),
    "another quantity": (("5",), ("5.001",), False),
    "no quantity in the fact": (("5",), (None,), False),
}


def test_the_fact_has_the_lines_of_silver_and_no_others(spark: SparkSession) -> None:
    lines = [
        (line, None if quantity in (None, "-") else Decimal(quantity), quantity == "-")
        for line, (silver, _, _) in _QUANTITIES.items()
        for quantity in silver
    ]
    facts = [
        (line, None if quantity is None else Decimal(quantity))
        for line, (_, found, _) in _QUANTITIES.items()
        for quantity in found
    ]
    finding = fact_has_the_lines_of_silver(
        frame_of(spark, "line STRING, quantity DECIMAL(15,3)", facts),
        frame_of(spark, "line STRING, quantity DECIMAL(15,3), is_deleted BOOLEAN", lines),
        ("line",),
    )
    assert _found(finding, "line") == {(line,) for line, (_, _, agrees) in _QUANTITIES.items() if not agrees}


# Order -> its total and currency; its items as value, currency and what else; the sum, if it differs. Amounts are as
# in silver: in the decimals of their currency, or of two decimals where there is none.
_DECIMALS = {"EUR": 2, "JPY": 0, "KWD": 3, None: 2, "external": None}
_Item = tuple[str, str | None, str]
_TOTALS: dict[str, tuple[str | None, str | None, tuple[_Item, ...], str | None]] = {
    "equal": ("70", "EUR", (("50", "EUR", ""), ("20", "EUR", "")), None),
    "a cent between": ("70.01", "EUR", (("70", "EUR", ""),), None),
    "two cents between": ("70.02", "EUR", (("70", "EUR", ""),), "70"),
    "a cent less": ("69.99", "EUR", (("70", "EUR", ""),), None),
    "a yen between": ("30001", "JPY", (("30000", "JPY", ""),), None),
    "two yen between": ("30002", "JPY", (("30000", "JPY", ""),), "30000"),
    "a fils between": ("12.346", "KWD", (("12.345", "KWD", ""),), None),
    "two fils between": ("12.347", "KWD", (("12.345", "KWD", ""),), "12.345"),
    "rejected": ("50", "EUR", (("50", "EUR", ""), ("20", "EUR", "rejected")), None),
    "rejected, but in the total": ("70", "EUR", (("50", "EUR", ""), ("20", "EUR", "rejected")), "50"),
    "all rejected": ("0", "EUR", (("50", "EUR", "rejected"),), None),
    "all rejected, but in the total": ("50", "EUR", (("50", "EUR", "rejected"),), "0"),
    "statistical": ("50", "EUR", (("50", "EUR", ""), ("20", "EUR", "statistical")), None),
    "deleted": ("50", "EUR", (("50", "EUR", ""), ("20", "EUR", "deleted")), None),
    "all deleted": ("50", "EUR", (("50", "EUR", "deleted"),), None),
    "no items": ("50", "EUR", (), None),
    "no total": (None, "EUR", (("50", "EUR", ""),), None),
    "deleted order": ("70", "EUR", (("50", "EUR", ""),), None),
    "item with the currency of its order": ("30000", "JPY", (("300", None, ""),), None),
    "order with the currency of its items": ("300", None, (("30000", "JPY", ""),), None),
    "no currency at all": ("70", None, (("70", None, ""),), None),
    "item in another currency": ("70", "EUR", (("50", "EUR", ""), ("20", "JPY", "")), "50"),
    "external amounts": ("30000", "external", (("30000", "external", ""),), None),
}


def test_a_header_total_is_the_sum_of_its_items_to_one_smallest_unit(spark: SparkSession) -> None:
    def currency(name: str | None) -> dict[str, object]:
        return {"currency": "JPY" if name == "external" else name, "currency_decimals": _DECIMALS[name]}

    orders = [
        {"order_id": order, "order_net_value": total and Decimal(total), "is_deleted": order == "deleted order"}
        | currency(name)
        for order, (total, name, _, _) in _TOTALS.items()
    ]
    lines = [
        {"order_id": order, "line_net_value": Decimal(value), "is_deleted": what == "deleted",
         "rejection_reason_code": "91" if what == "rejected" else None,
         "statistical_value_flag": "X" if what == "statistical" else None} | currency(name)
        for order, (_, _, items, _) in _TOTALS.items() for value, name, what in items
    ]  # fmt: skip
    lines.append({"order_id": "no header", "line_net_value": Decimal(1), "is_deleted": False, **currency("EUR")})
    common = "order_id STRING, currency STRING, currency_decimals INT, is_deleted BOOLEAN"
    finding = header_totals_equal_items(
        frame_of(spark, f"{common}, order_net_value DECIMAL(20,5)", orders),
        frame_of(
            spark,
            f"{common}, line_net_value DECIMAL(20,5), rejection_reason_code STRING, statistical_value_flag STRING",
            lines,
        ),
        ("order_id",),
    )
    wrong = {(order, float(total or 0), float(sum_)) for order, (total, _, _, sum_) in _TOTALS.items() if sum_}
    assert _found(finding, "order_id", "total", "sum_of_items") == wrong


# More customers for the small landing: recreated, archived, absent from the snapshot, deleted and then archived.
_MORE_CUSTOMERS = {
    "customers/delta/20260402/part.csv": f"""{CUSTOMER_COLUMNS}
100,0000010003,Ost,Jena,I,2026-03-20T00:00:00Z
100,0000010003,,,D,2026-03-21T00:00:00Z
100,0000010003,Ost,Jena,I,2026-03-25T00:00:00Z
100,0000010004,West,Kiel,I,2026-03-20T00:00:00Z
100,0000010004,,,M,2026-03-22T00:00:00Z
100,0000010005,Mitte,Fulda,I,2026-03-20T00:00:00Z
100,0000010006,Rand,Emden,I,2026-03-20T00:00:00Z
100,0000010006,,,X,2026-03-21T00:00:00Z
100,0000010006,,,M,2026-03-22T00:00:00Z
""",
    "customers/delta/20260403/_delivery.json": '{"snapshot": true, "max_deleted_share": 0.9}',
    "customers/delta/20260403/part.csv": f"""{CUSTOMER_COLUMNS}
100,0000010001,Nord,Koeln,U,2026-03-15T12:00:00Z
100,0000010002,Sued,Ulm,U,2026-03-16T12:00:00Z
100,0000010003,Ost,Jena,U,2026-03-25T12:00:00Z
""",
}
_PENDING = {
    "customers/delta/20260404/part.csv": f"""{CUSTOMER_COLUMNS}
100,0000010001,Nord,Aachen,U,2026-04-03T12:00:00Z
100,0000010007,Neu,Trier,I,2026-04-03T12:00:00Z
""",
}
_PENDING_SNAPSHOT = {
    "customers/delta/20260405/_delivery.json": '{"snapshot": true, "max_deleted_share": 0.9}',
    "customers/delta/20260405/part.csv": f"""{CUSTOMER_COLUMNS}
100,0000010007,Neu,Trier,U,2026-04-03T12:00:00Z
""",
}
_OPEN, _GAP = "open_version_equals_newest_change", "no_gap_but_a_deletion"
# Check -> what spoils it, and the sample that it then has.
_SPOILED: dict[str, tuple[str, dict[str, object]]] = {
    _OPEN: (
        "UPDATE silver.customer SET city = 'Nirgends' WHERE customer_id = '0000010002' AND _tech_is_current",
        {"customer_id": "0000010002", "problem": "differs in city"},
    ),
    _GAP: (
        "DELETE FROM silver.customer WHERE customer_id = '0000010001' AND NOT _tech_is_current",
        {"customer_id": "0000010001", "from": "1900-01-01T00:00:00.000Z"},
    ),
    "line_has_one_customer_version": (
        "UPDATE gold.fct_order_line SET customer_key = '-1' WHERE order_id = '0000004711'",
        {"order_id": "0000004711", "line_number": "000010", "customer_key": "-1", "versions": 1},
    ),
    "fact_has_the_lines_of_silver": (
        "DELETE FROM gold.fct_order_line WHERE order_id = '0000004712'",
        {"order_id": "0000004712", "line_number": "000010", "silver_rows": 1, "fact_rows": 0},
    ),
    "header_totals_equal_items": (
        "UPDATE silver.sales_order SET order_net_value = 71 WHERE order_id = '0000004711'",
        {"order_id": "0000004711", "total": 71, "sum_of_items": 70},
    ),
}


def test_what_agrees_in_a_loaded_warehouse_is_seen_to_disagree_once_it_is_spoiled(
    spark: SparkSession, small: Warehouse, tmp_path: Path
) -> None:
    loaded = small.copy(tmp_path)
    write_landing(loaded.landing, _MORE_CUSTOMERS)
    loaded.load()
    current = loaded.table(customer.CONTRACT).where("_tech_is_current").select("customer_id")
    assert sorted(row["customer_id"][-1] for row in current.collect()) == ["1", "2", "3", "4"]

    def ask(names: Iterable[str] = _SPOILED) -> dict[str, Finding]:
        asked = [check for check in CHECKS if check.name in names]
        assert not any(check.blocking for check in asked)
        return {check.name: check.ask(spark, catalog.DEFAULT_CATALOG) for check in asked}

    found = ask()
    assert set(found) == set(_SPOILED)
    assert all(finding == Finding(0, ()) for finding in found.values())

    for statement, _ in _SPOILED.values():
        spark.sql(statement)
    for name, finding in ask().items():
        assert finding.failing_rows == 1, name
        assert json.loads(finding.samples[0]).items() >= _SPOILED[name][1].items(), name

    # What a delivery that is not loaded touches (10001) is left out, what it does not touch is not.
    write_landing(loaded.landing, _PENDING)
    loaded.step("bronze.sap_kna1")
    found = ask((_OPEN, _GAP))
    assert _found(found[_OPEN], "customer_id") == {("0000010002",)}
    assert found[_GAP].passed
    write_landing(loaded.landing, _PENDING_SNAPSHOT)
    loaded.step("bronze.sap_kna1")
    assert all(finding.passed for finding in ask((_OPEN, _GAP)).values())


@pytest.mark.parametrize(
    ("at_most", "is_broadcast"), [(MOST_BROADCAST_KEYS, True), (MOST_BROADCAST_KEYS + 1, False)], ids=["few", "many"]
)
def test_h03_keys_are_broadcast_only_while_they_are_few(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], at_most: int, is_broadcast: bool
) -> None:
    # Of this size Spark would broadcast nothing by itself; the plan is never carried out.
    rows, keys = spark.range(10**10), spark.range(10**10)
    rows_of_keys(rows, keys, ("id",), at_most=at_most).explain("extended")
    plan = capsys.readouterr().out
    assert ("BroadcastHashJoin" in plan) == is_broadcast
    assert ("strategy=broadcast" in plan) == is_broadcast
