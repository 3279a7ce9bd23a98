"""Errors: one root, facts as fields, and a text that a person can act on."""

import inspect

import pytest

from dwh_pipeline import errors
from dwh_pipeline.errors import (
    ContractViolationError,
    DeliveryError,
    DeliveryNotFoundError,
    ExpectationFailedError,
    FeedError,
    LandingError,
    LedgerMismatchError,
    SessionError,
    SettingsError,
    TableNotFoundError,
    UnknownOperationError,
    WarehouseError,
)

CASES: list[tuple[WarehouseError, dict[str, object], str]] = [
    (
        SettingsError("DWH_LAKE", "must be an absolute path"),
        {"setting": "DWH_LAKE", "problem": "must be an absolute path"},
        "DWH_LAKE: must be an absolute path",
    ),
    (SessionError("Java was not found; install Java 17"), {}, "Java was not found; install Java 17"),
    (
        FeedError("orders", "table", "is missing"),
        {"feed": "orders", "key": "table", "problem": "is missing"},
        "feeds.toml, [feeds.orders] table: is missing",
    ),
    (
        LandingError("/srv/landing", "is missing"),
        {"path": "/srv/landing", "problem": "is missing"},
        "/srv/landing: is missing",
    ),
    (
        DeliveryError("orders/0001/part-1.csv", "has no header"),
        {"file": "orders/0001/part-1.csv", "problem": "has no header"},
        "orders/0001/part-1.csv: has no header",
    ),
    (
        UnknownOperationError("slt", code="Z", file="orders/0001/part-1.csv", row=7),
        {"profile": "slt", "code": "Z", "file": "orders/0001/part-1.csv", "row": 7},
        "orders/0001/part-1.csv, row 7: operation 'Z' is not known to the profile slt",
    ),
    (
        TableNotFoundError("silver.customer"),
        {"table": "silver.customer"},
        "silver.customer does not exist yet; load what it is built from first",
    ),
    (
        DeliveryNotFoundError("bronze.sap_kna1", "0009", ("0001", "0002")),
        {"table": "bronze.sap_kna1", "batch_id": "0009", "known": ("0001", "0002")},
        "bronze.sap_kna1 holds no delivery '0009'; it holds 0001, 0002",
    ),
    (
        ContractViolationError("silver.customer", missing=("city",), unexpected=("town",)),
        {"table": "silver.customer", "missing": ("city",), "unexpected": ("town",)},
        "silver.customer: missing columns ['city'], unexpected columns ['town']",
    ),
    (
        LedgerMismatchError("silver.customer", "0001", rows_read=3, rows_counted=2),
        {"table": "silver.customer", "batch_id": "0001", "rows_read": 3, "rows_counted": 2},
        "silver.customer, delivery 0001: 3 rows read but 2 accounted for",
    ),
    (
        ExpectationFailedError("silver.customer", "primary key is unique", 2),
        {"table": "silver.customer", "expectation": "primary key is unique", "failing_rows": 2},
        "silver.customer: primary key is unique does not hold (2 failing rows)",
    ),
]


@pytest.mark.parametrize(("error", "facts", "start"), CASES, ids=[type(error).__name__ for error, _, _ in CASES])
def test_an_error_holds_its_facts_and_says_them(error: WarehouseError, facts: dict[str, object], start: str) -> None:
    assert str(error).startswith(start)
    assert "\n" not in str(error)
    assert {name: getattr(error, name) for name in facts} == facts


def test_a_table_without_deliveries_says_so() -> None:
    assert str(DeliveryNotFoundError("bronze.sap_kna1", "0009", ())).endswith("it holds none")


def test_every_error_has_one_root_and_says_when_it_is_raised() -> None:
    declared = [
        error for _, error in inspect.getmembers(errors, inspect.isclass) if error.__module__ == errors.__name__
    ]
    assert [error for error in declared if not issubclass(error, WarehouseError) or not error.__doc__] == []
