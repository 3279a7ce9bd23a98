"""Contracts and outcomes: what they refuse where they are made, and what they answer."""

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime

import pytest

from dwh_pipeline.contracts.outcomes import OUTCOME_MEANINGS, DeliveryCounts, LoadReport, Outcome, Written
from dwh_pipeline.contracts.table import CHANGE_SEQ, LOADED_AT, ROW_HASH, Column, StoredAs, TableContract
from dwh_pipeline.errors import LedgerMismatchError

CONTRACT = TableContract(
    schema="silver",
    name="customer",
    description="One row per customer version",
    columns=(
        Column("client_id", "STRING", "Client", nullable=False),
        Column("customer_id", "STRING", "Customer", nullable=False),
        Column("city", "STRING", "City"),
        CHANGE_SEQ,
        LOADED_AT,
    ),
    primary_key=("client_id", "customer_id"),
    stored_as=StoredAs.SCD2,
    upstream=("bronze.sap_kna1",),
)


def test_a_contract_answers_what_its_columns_are() -> None:
    assert CONTRACT.qualified_name == "silver.customer"
    assert CONTRACT.column_names == ("client_id", "customer_id", "city", "change_seq", "_tech_loaded_at")
    assert CONTRACT.compared_columns == ("client_id", "customer_id", "city", "change_seq")
    assert CONTRACT.required_columns == ("client_id", "customer_id", "change_seq")
    assert CONTRACT.column("city") == Column("city", "STRING", "City")


def test_a_column_that_is_not_declared_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="town"):
        CONTRACT.column("town")


def test_a_primary_key_has_to_be_declared() -> None:
    with pytest.raises(ValueError, match=r"silver.customer: primary key columns \['kunnr'\] are not declared"):
        replace(CONTRACT, primary_key=("client_id", "kunnr"))


def test_a_column_is_declared_once() -> None:
    with pytest.raises(ValueError, match=r"silver.customer: columns \['city'\] are declared twice"):
        replace(CONTRACT, columns=(*CONTRACT.columns, Column("city", "STRING", "again")))


def test_a_contract_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        CONTRACT.name = "client"  # type: ignore[misc]


def test_only_the_time_of_loading_may_differ_between_two_runs() -> None:
    assert set(CONTRACT.column_names) - set(CONTRACT.compared_columns) == {LOADED_AT.name}
    assert ROW_HASH.name.startswith("_tech_")
    assert not CHANGE_SEQ.nullable


def test_every_outcome_has_a_meaning() -> None:
    assert set(OUTCOME_MEANINGS) == set(Outcome)


def test_every_row_read_has_one_outcome() -> None:
    counts = DeliveryCounts("silver.customer", "0001", False, 3, {Outcome.INSERTED: 2, Outcome.QUARANTINED: 1})
    assert sum(counts.outcomes.values()) == counts.rows_read


@pytest.mark.parametrize("outcomes", [{}, {Outcome.INSERTED: 2}, {Outcome.INSERTED: 3, Outcome.EQUAL: 1}])
def test_a_row_that_is_lost_or_counted_twice_is_an_error(outcomes: dict[Outcome, int]) -> None:
    with pytest.raises(LedgerMismatchError) as raised:
        DeliveryCounts("silver.customer", "0001", False, 3, outcomes)
    error = raised.value
    assert (error.table, error.batch_id, error.rows_read) == ("silver.customer", "0001", 3)
    assert error.rows_counted == sum(outcomes.values())


def test_a_report_adds_up_its_deliveries() -> None:
    report = LoadReport(
        table="silver.customer",
        rows=5,
        written=Written(inserted=3, updated=1, version=7),
        deliveries=(
            DeliveryCounts("silver.customer", "0001", False, 3, {Outcome.INSERTED: 2, Outcome.OLDER: 1}),
            DeliveryCounts(
                "silver.customer", "0002", True, 2, {Outcome.INSERTED: 1, Outcome.CLOSED: 1, Outcome.EQUAL: 0}
            ),
        ),
        started_at=datetime(2026, 4, 1, tzinfo=UTC),
        seconds=1.5,
    )
    assert report.rows_read == 5
    assert report.outcomes == {Outcome.INSERTED: 3, Outcome.CLOSED: 1, Outcome.OLDER: 1}
