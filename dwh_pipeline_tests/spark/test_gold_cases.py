"""Cases G, P-09 and P-10 of public bug reports, each test named after its number: what revenue may never do.

G-01, growing on a re-run or after a crash, is in `integration/test_demo_reruns` too, on real tables.
"""

from datetime import UTC, date, datetime
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.quality.expectations import every_row_has
from dwh_pipeline.tables import agg_revenue_month, dim_customer, fct_order_line
from dwh_pipeline_tests.frames import frame_of

_LINES = (
    "client_id STRING, order_id STRING, line_number STRING, product_id STRING, quantity DECIMAL(15,3), "
    "quantity_unit STRING, unit_price DECIMAL(20,9), line_net_value DECIMAL(20,5), currency STRING, "
    "currency_decimals INT, rejection_reason_code STRING, is_return BOOLEAN, is_deleted BOOLEAN"
)
_ORDERS = (
    "client_id STRING, order_id STRING, customer_id STRING, document_date DATE, document_category STRING, "
    "currency STRING, currency_decimals INT, is_deleted BOOLEAN"
)
_DIMENSION = "client_id STRING, customer_id STRING, customer_key STRING, valid_from TIMESTAMP, valid_to TIMESTAMP"


def _line(order: str, line: str, net: str, **fields: object) -> dict[str, object]:
    return {
        "client_id": "100",
        "order_id": order,
        "line_number": line,
        "line_net_value": Decimal(net),
        "currency": "EUR",
        "currency_decimals": 2,
        "is_return": False,
        "is_deleted": False,
        **fields,
    }


def _facts(
    spark: SparkSession,
    lines: list[dict[str, object]],
    orders: dict[str, tuple[str | None, str]],
    customers: tuple[str, ...] = ("0000010001",),
    *,
    currency: str = "EUR",
) -> DataFrame:
    """The fact of these lines; `orders` gives customer and category per order, all of 2026-03-15 in one currency."""
    headers = [
        {"client_id": "100", "order_id": order, "customer_id": customer, "document_date": date(2026, 3, 15),
         "document_category": category, "currency": currency, "currency_decimals": 2, "is_deleted": False}
        for order, (customer, category) in orders.items()
    ]  # fmt: skip
    versions = [
        ("100", customer, f"key of {customer}", datetime(1900, 1, 1, tzinfo=UTC), None) for customer in customers
    ]
    return fct_order_line.build(
        frame_of(spark, _LINES, lines), frame_of(spark, _ORDERS, headers), frame_of(spark, _DIMENSION, versions)
    )


def test_g01_building_twice_gives_one_row_per_month_with_the_same_sum(spark: SparkSession) -> None:
    facts = _facts(spark, [_line("1", "10", "100.00")], {"1": ("0000010001", "C")})
    for _ in range(2):
        rows = agg_revenue_month.build(facts).collect()
        assert [(row["revenue_amount"], row["line_count"]) for row in rows] == [(Decimal("100.00000"), 1)]


def test_g02_currencies_and_units_are_never_added_up(spark: SparkSession) -> None:
    lines = [
        _line("1", "10", "100.00", quantity=Decimal(5), quantity_unit="ST"),
        _line("1", "20", "100.00", currency="USD", quantity=Decimal(2), quantity_unit="KAR"),
        _line("1", "30", "30000", currency="JPY", currency_decimals=0),
    ]
    aggregate = agg_revenue_month.build(_facts(spark, lines, {"1": ("0000010001", "C")}))
    found = {row["currency"]: row["revenue_amount"] for row in aggregate.collect()}
    assert found == {"EUR": Decimal(100), "USD": Decimal(100), "JPY": Decimal(30000)}
    assert "quantity" not in aggregate.columns


def test_g03_an_unknown_customer_loses_no_revenue_and_heals(spark: SparkSession) -> None:
    lines = [_line("1", "10", "100.00"), _line("2", "10", "40.00"), _line("3", "10", "10.00")]
    orders: dict[str, tuple[str | None, str]] = {
        "1": ("0000010001", "C"),
        "2": ("0000099999", "C"),
        "3": (None, "C"),
    }

    def by_key(customers: tuple[str, ...]) -> dict[str, Decimal]:
        rows = _facts(spark, lines, orders, customers).groupBy("customer_key").sum("revenue_amount").collect()
        return dict(map(tuple, rows))

    unknown = dim_customer.UNKNOWN_KEY
    assert by_key(("0000010001",)) == {"key of 0000010001": Decimal(100), unknown: Decimal(50)}
    healed = by_key(("0000010001", "0000099999"))
    assert healed == {"key of 0000010001": Decimal(100), "key of 0000099999": Decimal(40), unknown: Decimal(10)}


def test_g05_sums_are_exact_for_any_number_of_partitions(spark: SparkSession) -> None:
    lines = [
        _line("1", str(n), "999999999999999.99999" if n == 0 else "0.12345", unit_price=Decimal("0.123456789"))
        for n in range(1000)
    ]
    facts = _facts(spark, lines, {"1": ("0000010001", "C")})
    totals = {
        agg_revenue_month.build(facts.repartition(partitions, "line_number")).collect()[0]["revenue_amount"]
        for partitions in (1, 200)
    }
    assert totals == {Decimal("999999999999999.99999") + 999 * Decimal("0.12345")}
    assert facts.select("unit_price").first() == (Decimal("0.123456789"),)


def test_p09_rejected_lines_returns_and_quotations_count_as_sap_means_them(spark: SparkSession) -> None:
    lines = [
        _line("4713", "10", "100.00"),
        _line("4713", "20", "50.00", rejection_reason_code="91"),
        _line("4714", "10", "30.00", is_return=True),
        _line("4715", "10", "500.00"),
        _line("4716", "10", "5.00", is_deleted=True),
    ]
    orders: dict[str, tuple[str | None, str]] = {
        "4713": ("0000010001", "C"),
        "4714": ("0000010001", "H"),
        "4715": ("0000010001", "B"),
    }
    facts = _facts(spark, lines, orders)
    assert agg_revenue_month.build(facts).collect()[0]["revenue_amount"] == Decimal(70)
    assert facts.count() == 4
    assert facts.where("is_rejected").count() == 1


def test_p10_a_line_waits_for_its_header_and_follows_it_to_another_customer(spark: SparkSession) -> None:
    lines = [_line("4716", "10", "100.00", currency=None)]
    customers = ("0000010001", "0000010002")

    def after(orders: dict[str, tuple[str | None, str]]) -> tuple[str, str | None, Decimal]:
        row = _facts(spark, lines, orders, customers, currency="USD").collect()[0]
        return (row["customer_key"], row["currency"], row["revenue_amount"])

    assert after({}) == (dim_customer.UNKNOWN_KEY, None, Decimal(0))
    assert after({"4716": ("0000010001", "C")}) == ("key of 0000010001", "USD", Decimal(100))
    assert after({"4716": ("0000010002", "C")}) == ("key of 0000010002", "USD", Decimal(100))


def test_p04_p10_a_line_without_a_currency_is_reported(spark: SparkSession) -> None:
    facts = _facts(spark, [_line("1", "10", "1.00"), _line("2", "10", "1.00", currency=None)], {"1": (None, "C")})
    finding = every_row_has(facts, F.col("currency").isNotNull(), fct_order_line.CONTRACT.primary_key)
    assert (finding.failing_rows, len(finding.samples)) == (1, 1)
    assert '"order_id":"2"' in finding.samples[0]
