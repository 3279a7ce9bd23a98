"""Real files that others wrote, from landing to revenue, with figures computed outside of this project.

Each set is loaded once for all its tests, then again to see that nothing changes.
"""

import shutil
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.outcomes import LoadReport
from dwh_pipeline.loads.checks import CHECKS
from dwh_pipeline.sap.fields import SAP_TABLES
from dwh_pipeline.tables import (
    agg_revenue_month,
    bronze,
    customer,
    fct_order_line,
    quarantine,
    sales_order,
    sales_order_line,
)
from dwh_pipeline_tests.warehouse import Warehouse, rows_of

_ORDERS = """
rename = { SALESORDERID = "VBELN", CREATEDAT = "AUDAT", PARTNERID = "KUNNR", CURRENCY = "WAERK", NETAMOUNT = "NETWR" }
constants = { MANDT = "100", VBTYP = "C" }
"""
_ITEMS = """
constants = { MANDT = "100" }
[feeds.%s.rename]
SALESORDERID = "VBELN"
SALESORDERITEM = "POSNR"
PRODUCTID = "MATNR"
CURRENCY = "WAERK"
NETAMOUNT = "NETWR"
QUANTITY = "KWMENG"
QUANTITYUNIT = "VRKME"
"""
_PARTNERS = """
rename = { PARTNERID = "KUNNR", COMPANYNAME = "NAME1", PHONENUMBER = "TELF1", FAXNUMBER = "TELFX" }
constants = { MANDT = "100" }
"""


def _feed(name: str, table: str, keys: str) -> str:
    return f'[feeds.{name}]\ntable = "{table}"\n{keys}\n'


def _bikes_feeds() -> str:
    return (
        _feed("orders", "VBAK", 'amounts = "external"\nsequence = "CHANGEDAT"' + _ORDERS)
        + _feed("items", "VBAP", 'amounts = "external"' + _ITEMS % "items")
        + _feed("partners", "KNA1", 'sequence = "CHANGEDAT"' + _PARTNERS)
    )


def _content_feeds() -> str:
    comma = 'delimiter = ";"\ndecimal = "comma"\namounts = "external"\n'
    return (
        _feed("orders", "VBAK", comma + 'sequence = "CHANGEDAT"' + _ORDERS)
        + _feed("items", "VBAP", comma + _ITEMS % "items")
        + _feed("partners", "KNA1", comma + 'date_format = "yyyy-MM-dd"\nsequence = "CHANGEDAT"' + _PARTNERS)
    )


def _warehouse(spark: SparkSession, root: Path, feeds: str, files: dict[str, Path]) -> Warehouse:
    landing = root / "landing"
    landing.mkdir()
    (landing / "feeds.toml").write_text(feeds, encoding="utf-8")
    for target, source in files.items():
        (landing / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, landing / target)
    return Warehouse(spark, root / "lake", landing)


def _loaded_sample(
    spark: SparkSession, source: Path, root: Path, feeds: str
) -> tuple[Warehouse, dict[str, LoadReport]]:
    files = {"orders": "SalesOrders.csv", "items": "SalesOrderItems.csv", "partners": "BusinessPartners.csv"}
    loaded = _warehouse(spark, root, feeds, {f"{feed}/0001/{name}": source / name for feed, name in files.items()})
    return loaded, loaded.load()


@pytest.fixture(scope="module")
def bikes(
    spark: SparkSession, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Warehouse, dict[str, LoadReport]]:
    source = shared_data / "sap-samples" / "Sample_Bikes"
    return _loaded_sample(spark, source, tmp_path_factory.mktemp("bikes"), _bikes_feeds())


@pytest.fixture(scope="module")
def content(
    spark: SparkSession, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Warehouse, dict[str, LoadReport]]:
    source = shared_data / "sap-samples" / "SAP_Sample_Content"
    return _loaded_sample(spark, source, tmp_path_factory.mktemp("content"), _content_feeds())


@pytest.fixture(scope="module")
def fivetran(spark: SparkSession, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    formats = {"KNA1": "yyyyMMdd", "VBAK": "yyyy-MM-dd", "VBAP": "yyyy-MM-dd"}
    feeds = "".join(
        _feed(table.lower(), table, f'profile = "fivetran"\ndate_format = "{date_format}"')
        for table, date_format in formats.items()
    )
    files = {
        f"{table}/0001/sap_{table}_data.csv": shared_data / "dbt-sap" / f"sap_{table}_data.csv"
        for table in ("kna1", "vbak", "vbap")
    }
    loaded = _warehouse(spark, tmp_path_factory.mktemp("fivetran"), feeds, files)
    loaded.load()
    return loaded


def test_bikes_have_their_orders_lines_and_customers(bikes: tuple[Warehouse, dict[str, LoadReport]]) -> None:
    _, reports = bikes
    rows = {name: reports[name].rows for name in ("silver.sales_order", "silver.sales_order_line", "silver.customer")}
    assert rows == {"silver.sales_order": 334, "silver.sales_order_line": 1930, "silver.customer": 40}


def test_bikes_give_the_revenue_of_eighteen_months(bikes: tuple[Warehouse, dict[str, LoadReport]]) -> None:
    loaded, _ = bikes
    months = loaded.table(agg_revenue_month.CONTRACT).select(
        F.date_format("revenue_month", "yyyy-MM"), "revenue_amount"
    )
    revenue = dict(map(tuple, months.collect()))
    assert len(revenue) == 18
    assert sum(revenue.values()) == Decimal("3224839.625")
    assert (revenue["2018-01"], revenue["2019-06"]) == (Decimal("112847.000"), Decimal("143820.250"))


def test_loading_the_bikes_again_writes_nothing(bikes: tuple[Warehouse, dict[str, LoadReport]]) -> None:
    loaded, _ = bikes
    before = loaded.versions()
    reports = loaded.load()
    assert loaded.versions() == before
    assert {report.rows_read for report in reports.values()} == {0}


def test_repeated_orders_of_the_sample_content_are_conflicts(content: tuple[Warehouse, dict[str, LoadReport]]) -> None:
    loaded, reports = content
    assert loaded.outcomes(reports["silver.sales_order"]) == {"inserted": 3699, "conflicting": 1467}
    vbak = SAP_TABLES["VBAK"]
    check = next(check for check in CHECKS if check.contract is bronze.contract_of(vbak))
    finding = check.ask(loaded.spark, loaded.place.catalog)
    assert (finding.failing_rows, len(finding.samples)) == (1211, 20)


def test_lines_without_a_header_stay_in_the_fact(content: tuple[Warehouse, dict[str, LoadReport]]) -> None:
    loaded, reports = content
    assert reports["gold.fct_order_line"].rows == 17_818
    orphan = F.col("document_category").isNull()
    facts = loaded.table(fct_order_line.CONTRACT).groupBy(orphan.alias("orphan"), "currency")
    sums = facts.agg(F.count("*"), F.sum("revenue_amount"), F.sum("line_net_value")).collect()
    assert {tuple(row) for row in sums} == {
        (False, "USD", 12_940, Decimal("23099809.62"), Decimal("23099809.62")),
        (True, "USD", 4_878, Decimal(0), Decimal("8837082.63")),
    }


def test_the_same_orders_stand_whatever_the_order_of_the_file(
    content: tuple[Warehouse, dict[str, LoadReport]], spark: SparkSession, tmp_path: Path
) -> None:
    loaded, _ = content
    expected = rows_of(loaded.table(sales_order.CONTRACT))
    first, *rows = (loaded.landing / "orders/0001/SalesOrders.csv").read_text(encoding="utf-8-sig").splitlines()
    files = {
        f"orders/{delivery}/part.csv": "\n".join([first, *part]) + "\n"
        for delivery, part in (("0001", rows[:1:-2]), ("0002", rows[::2]), ("0003", rows[1::-1]))
    }
    feeds = _feed("orders", "VBAK", _content_feeds().split("[feeds.items]")[0].split("\n", 2)[2])
    landing = tmp_path / "landing"
    for name, text in {"feeds.toml": feeds, **files}.items():
        (landing / name).parent.mkdir(parents=True, exist_ok=True)
        (landing / name).write_text(text, encoding="utf-8")
    shuffled = Warehouse(spark, tmp_path / "lake", landing)
    shuffled.step(bronze.CONTRACTS["VBAK"].qualified_name, sales_order.CONTRACT.qualified_name)
    assert rows_of(shuffled.table(sales_order.CONTRACT)) == expected


def test_every_column_of_a_fivetran_file_arrives_in_bronze(fivetran: Warehouse) -> None:
    delivered = {
        name: len(
            [
                column
                for column in fivetran.table(bronze.CONTRACTS[name]).columns
                if column not in bronze.TECHNICAL_NAMES
            ]
        )
        for name in ("KNA1", "VBAK", "VBAP")
    }
    assert delivered == {"KNA1": 197, "VBAK": 161, "VBAP": 389}


def test_the_deleted_header_of_fivetran_is_a_tombstone(fivetran: Warehouse) -> None:
    orders = fivetran.table(sales_order.CONTRACT).select("is_deleted", F.col("order_type").isNull().alias("is_blank"))
    assert sorted(map(tuple, orders.collect())) == [(False, False), (True, True)]
    assert fivetran.table(customer.CONTRACT).where("_tech_is_current").count() == 3


def test_a_line_with_text_for_numbers_is_kept_with_its_reason(fivetran: Warehouse) -> None:
    assert fivetran.table(sales_order_line.CONTRACT).isEmpty()
    rejected = fivetran.table(quarantine.CONTRACT).collect()
    assert [(row["source_table"], row["reason"]) for row in rejected] == [
        ("bronze.sap_vbap", "UEPOS is not 6 digits: POS1")
    ]


def test_loading_the_fivetran_files_again_writes_nothing(fivetran: Warehouse) -> None:
    before = fivetran.versions()
    fivetran.load()
    assert fivetran.versions() == before
