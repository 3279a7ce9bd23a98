"""What a delivered text means, kind by kind: its value, NULL for none, or a reason why it cannot be read."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.sap.currency import in_own_decimals
from dwh_pipeline.sap.fields import SAP_TABLES, Kind, SapField
from dwh_pipeline.sap.values import Amounts, ValueFormat, reason, text, value
from dwh_pipeline.sap.values import Decimal as Mark
from dwh_pipeline_tests.frames import frame_of

UNREADABLE = "unreadable"
POINT, COMMA = ValueFormat(decimal=Mark.POINT), ValueFormat(decimal=Mark.COMMA)
EXTERNAL = ValueFormat(amounts=Amounts.EXTERNAL)


def field(name: str) -> SapField:
    table, _, column = name.partition(".")
    return next(field for field in SAP_TABLES[table].fields if field.name == column)


def reading(sap_field: SapField, delivered: Column, value_format: ValueFormat) -> tuple[Column, Column]:
    """Value and reason of a delivered text."""
    trimmed = text(sap_field, delivered)
    read = value(sap_field, trimmed, value_format)
    problem = reason(sap_field, trimmed, read, value_format)
    return read, F.lit(None).cast("string") if problem is None else problem


def rows_of(
    spark: SparkSession, name: str, texts: list[str | None], value_format: ValueFormat
) -> list[tuple[str | None, object, str | None]]:
    """(delivered, value, reason) of every text; a time stamp as text, in UTC."""
    read, problem = reading(field(name), F.col("delivered"), value_format)
    read = read.cast("string") if field(name).kind is Kind.TIMESTAMP else read
    frame = frame_of(spark, ["delivered"], [[delivered] for delivered in texts])
    return [tuple(row) for row in frame.select("delivered", read.alias("value"), problem.alias("reason")).collect()]


def check(
    spark: SparkSession, name: str, expected: Mapping[str | None, object], value_format: ValueFormat = POINT
) -> None:
    """Every text has its value, or is `UNREADABLE`: NULL with a reason."""
    found = {}
    for delivered, read, problem in rows_of(spark, name, list(expected), value_format):
        assert read is None or problem is None, f"{delivered!r} has both a value and a reason"
        found[delivered] = read if problem is None else UNREADABLE
    assert found == expected


def test_a_client_has_three_digits(spark: SparkSession) -> None:
    check(
        spark,
        "VBAK.MANDT",
        {
            "100": "100",
            "000": "000",
            "1": "001",
            " 42 ": "042",
            "": None,
            "   ": None,
            None: None,
            "1000": UNREADABLE,
            "1A": UNREADABLE,
            "-1": UNREADABLE,
            "100\n": UNREADABLE,
        },
    )


def test_a_text_loses_blanks_behind_and_nothing_else(spark: SparkSession) -> None:
    check(
        spark,
        "KNA1.NAME1",
        {
            "Acme  ": "Acme",
            "  Acme": "  Acme",
            "Acme\nNord": "Acme\nNord",
            'Acme "Nord"; \\': 'Acme "Nord"; \\',
            "Müller": "Müller",
            "acme": "acme",
            "00": "00",
            "X" * 300: "X" * 300,
            "": None,
            " ": None,
            "\t": "\t",
            None: None,
        },
    )


def test_p03_keys_are_padded_only_if_they_are_digits(spark: SparkSession) -> None:
    check(
        spark,
        "KNA1.KUNNR",
        {
            "0000010001": "0000010001",
            "10001": "0000010001",
            "0000010001 ": "0000010001",
            "7": "0000000007",
            "A10001": "A10001",
            "a10001": "a10001",
            "A1": "A1",
            "CUST001   ": "CUST001",
            "12 34": "12 34",
            "-5": "-5",
            "0": "0000000000",
            "": None,
            "          ": None,
            None: None,
            "00000010001": UNREADABLE,
            "CUSTOMER0001": UNREADABLE,
        },
    )


def test_p03_material_numbers_are_padded_to_18_and_never_cut(spark: SparkSession) -> None:
    forty = "0" * 22 + "000000000000004711"
    check(
        spark,
        "VBAP.MATNR",
        {
            "000000000000004711": "000000000000004711",
            "4711": "000000000000004711",
            "4711 ": "000000000000004711",
            "1234567890123456789": "1234567890123456789",
            forty: forty,
            "Bell-cu": "Bell-cu",
            "M" * 40: "M" * 40,
            "": None,
            None: None,
            "M" * 41: UNREADABLE,
            "1" * 41: UNREADABLE,
        },
    )


def test_a_line_number_has_six_digits(spark: SparkSession) -> None:
    check(
        spark,
        "VBAP.POSNR",
        {
            "000010": "000010",
            "10": "000010",
            "0000000010": "000010",
            "0" * 60 + "10": "000010",
            "000000": "000000",
            "0": "000000",
            " 10 ": "000010",
            "": None,
            None: None,
            "1000000": UNREADABLE,
            "0001000000": UNREADABLE,
            "10.0": UNREADABLE,
            "-10": UNREADABLE,
            "1O": UNREADABLE,
            "10\n": UNREADABLE,
        },
    )


def test_a_line_number_that_refers_to_another_is_none_if_it_is_zero(spark: SparkSession) -> None:
    expected = {"000010": "000010", "20": "000020", "000000": None, "0": None, "": None, None: None, "ABC": UNREADABLE}
    check(spark, "VBAP.UEPOS", expected)


def test_p01_initial_dates_are_none_and_impossible_ones_are_reported(spark: SparkSession) -> None:
    check(
        spark,
        "VBAK.AUDAT",
        {
            "20260401": date(2026, 4, 1),
            "00000000": None,
            "": None,
            "        ": None,
            None: None,
            "99991231": date(9999, 12, 31),
            "00010101": date(1, 1, 1),
            "20240229": date(2024, 2, 29),
            "20260230": UNREADABLE,
            "20261301": UNREADABLE,
            "00000401": UNREADABLE,
            "20260400": UNREADABLE,
            "2026041": UNREADABLE,
            "202604011": UNREADABLE,
            "+120260401": UNREADABLE,
            "-20260401": UNREADABLE,
            "20260401\n": UNREADABLE,
            "2026-04-01": UNREADABLE,
            "01.04.2026": UNREADABLE,
            "-": UNREADABLE,
            "today": UNREADABLE,
        },
    )


@pytest.mark.parametrize(
    ("date_format", "first_of_april", "initial", "other"),
    [
        ("yyyyMMdd", "20260401", "00000000", "2026-04-01"),
        ("yyyy-MM-dd", "2026-04-01", "0000-00-00", "20260401"),
        ("dd.MM.yyyy", "01.04.2026", "00.00.0000", "04/01/2026"),
        ("MM/dd/yyyy", "04/01/2026", "00/00/0000", "04.01.2026"),
        ("dd/MM/yyyy", "01/04/2026", "00/00/0000", "04/31/2026"),
    ],
)
def test_dates_have_the_format_that_is_declared(
    spark: SparkSession, date_format: str, first_of_april: str, initial: str, other: str
) -> None:
    longer = first_of_april.replace("2026", "+12026")
    expected: dict[str | None, object] = {
        first_of_april: date(2026, 4, 1),
        initial: None,
        "00000000": None,
        other: UNREADABLE,
        longer: UNREADABLE,
        "./-": UNREADABLE,
    }
    check(spark, "VBAK.AUDAT", expected, ValueFormat(date_format=date_format))


def test_p01_the_end_of_the_day_is_a_time(spark: SparkSession) -> None:
    check(
        spark,
        "VBAK.ERZET",
        {
            "134636": "134636",
            "000000": "000000",
            "235959": "235959",
            "240000": "240000",
            "": None,
            None: None,
            "240001": UNREADABLE,
            "236000": UNREADABLE,
            "13:46:36": "134636",
            "24:00:00": "240000",
            "1346": UNREADABLE,
        },
    )


def test_a_time_stamp_is_utc_to_the_microsecond(spark: SparkSession) -> None:
    check(
        spark,
        "VBAK.UPD_TMSTMP",
        {
            "20260401134636.1234567": "2026-04-01 13:46:36.123456",
            "20260401134636,5": "2026-04-01 13:46:36.5",
            "20260401134636": "2026-04-01 13:46:36",
            "20260401134636.": "2026-04-01 13:46:36",
            "0": None,
            "0.0000000": None,
            "": None,
            None: None,
            "20260230134636.0000000": UNREADABLE,
            "20260401240000": UNREADABLE,
            "00000401134636": UNREADABLE,
            "20260401": UNREADABLE,
            "20260401134636.12345678": UNREADABLE,
            "2026-04-01T13:46:36Z": "2026-04-01 13:46:36",
            "2026-04-01 13:46:36.25": "2026-04-01 13:46:36.25",
            "2026-02-30 13:46:36": UNREADABLE,
            "2026-04-01": UNREADABLE,
        },
    )


@pytest.mark.parametrize(
    ("value_format", "expected"),
    [
        (
            POINT,
            {
                "100.00-": Decimal("-100.00"),
                "1.234,56": UNREADABLE,
                "1.234,56-": UNREADABLE,
                " 12.50 ": Decimal("12.50"),
                "12,50": UNREADABLE,
                "-5": Decimal(-5),
                "1,234": UNREADABLE,
                "": None,
                "ABC": UNREADABLE,
                "1.234": Decimal("1.234"),
                ".5": Decimal("0.5"),
                "5.": Decimal(5),
                "+5": Decimal(5),
                "1.234.567": UNREADABLE,
            },
        ),
        (
            COMMA,
            {
                "100.00-": UNREADABLE,
                "1.234,56": Decimal("1234.56"),
                "1.234,56-": Decimal("-1234.56"),
                " 12.50 ": UNREADABLE,
                "12,50": Decimal("12.50"),
                "-5": Decimal(-5),
                "1,234": Decimal("1.234"),
                "": None,
                "ABC": UNREADABLE,
                "1.234": Decimal(1234),
                ",5": Decimal("0.5"),
                "5,": Decimal(5),
                "+5": Decimal(5),
                "1.234.567": Decimal(1234567),
                "1234.567": UNREADABLE,
                "0.123": UNREADABLE,
                "1,2,3": UNREADABLE,
                "1,234.5": UNREADABLE,
            },
        ),
    ],
    ids=["point", "comma"],
)
def test_p02_numbers_are_read_by_the_declared_decimal_mark(
    spark: SparkSession, value_format: ValueFormat, expected: Mapping[str | None, object]
) -> None:
    check(spark, "VBAP.NETWR", expected, value_format)


@pytest.mark.parametrize("value_format", [POINT, COMMA], ids=["point", "comma"])
def test_a_number_has_one_sign_and_nothing_but_digits(spark: SparkSession, value_format: ValueFormat) -> None:
    expected: dict[str | None, object] = {"0": Decimal(0), "-0": Decimal(0), "0-": Decimal(0), "0005": Decimal(5)}
    broken = [
        "-5-",
        "+5-",
        "--5",
        "5--",
        "5 -",
        "-",
        "+",
        ".",
        ",",
        "1e3",
        "1E3",
        "NaN",
        "Infinity",
        "0x1F",
        "٣",
        "5\n",
    ]
    check(spark, "VBAP.NETWR", expected | dict.fromkeys(broken, UNREADABLE), value_format)


def test_a_number_is_never_rounded_and_never_overflows(spark: SparkSession) -> None:
    check(
        spark,
        "VBAP.KWMENG",
        {
            "999999999999.999": Decimal("999999999999.999"),
            "1.5000": Decimal("1.500"),
            "1.500" + "0" * 40: Decimal("1.500"),
            "0" * 40 + "1.5": Decimal("1.5"),
            "1000000000000": UNREADABLE,
            "12345678901234567.123": UNREADABLE,
            "1.0001": UNREADABLE,
            "1.0000000000001": UNREADABLE,
            "0.0000000000000000001": UNREADABLE,
            "9" * 60: UNREADABLE,
        },
    )


def test_an_internal_amount_leaves_room_for_the_shift_of_its_currency(spark: SparkSession) -> None:
    largest, too_large = "9999999999999.99", "10000000000000.00"
    check(spark, "VBAP.NETWR", {largest: Decimal(largest), too_large: UNREADABLE})
    check(spark, "VBAP.NETWR", {too_large: Decimal(too_large), "12345678901234567.123": UNREADABLE}, EXTERNAL)
    shifted = in_own_decimals(F.lit(largest).cast("DECIMAL(20,5)"), F.lit(0), type_="DECIMAL(20,5)")
    assert spark.range(1).select(shifted).collect()[0][0] == Decimal("999999999999999")


def test_p04_an_amount_has_the_decimals_of_its_currency(spark: SparkSession) -> None:
    rows = [
        ("JPY", "300.00", 0),
        ("KWD", "123.45", 3),
        ("EUR", "10.00", 2),
        ("USDN", "0.01", 5),
        ("external", "1.234", None),
    ]
    frame = frame_of(spark, "currency STRING, stored STRING, decimals INT", rows)
    shifted = in_own_decimals(F.col("stored").cast("DECIMAL(20,5)"), F.col("decimals"), type_="DECIMAL(20,5)")
    assert {
        row["currency"]: row["shifted"] for row in frame.select("currency", shifted.alias("shifted")).collect()
    } == {
        "JPY": Decimal(30000),
        "KWD": Decimal("12.345"),
        "EUR": Decimal(10),
        "USDN": Decimal("0.00001"),
        "external": Decimal("1.234"),
    }


def test_a_price_is_per_one_unit_where_none_is_given(spark: SparkSession) -> None:
    expected = {
        "100": 100,
        "1": 1,
        "0": 1,
        "00000": 1,
        "0.00": 1,
        "": 1,
        None: 1,
        "1000.000": 1000,
        "-1": UNREADABLE,
        "1.5": UNREADABLE,
        "X": UNREADABLE,
        "99999999999": UNREADABLE,
    }
    check(spark, "VBAP.KPEIN", expected)


def test_a_count_of_zero_is_not_maintained(spark: SparkSession) -> None:
    expected = {"12": 12, "0": None, "0.000": None, "": None, None: None, ".": UNREADABLE, "1.5": UNREADABLE}
    check(spark, "KNA1.JMZAH", expected)
    check(spark, "KNA1.JMZAH", {"0,000": None, "0.000": UNREADABLE, ",": UNREADABLE}, COMMA)


def test_decimals_of_a_currency_are_few_and_none_where_they_are_blank(spark: SparkSession) -> None:
    expected = {"0": 0, "3": 3, "5": 5, "": 0, None: 0, "6": UNREADABLE, "-1": UNREADABLE, "2.5": UNREADABLE}
    check(spark, "TCURX.CURRDEC", expected)


def test_a_flag_is_x_or_blank(spark: SparkSession) -> None:
    expected = {"X": True, " X ": True, "": False, " ": False, None: False}
    check(spark, "KNA1.LOEVM", expected | dict.fromkeys(["x", "true", "1", "-", "XX"], UNREADABLE))


def test_a_currency_is_upper_case(spark: SparkSession) -> None:
    check(spark, "VBAP.WAERK", {"EUR ": "EUR", "eur": "EUR", "": None, None: None, "XXX": "XXX"})


def test_a_reason_says_what_is_wrong_with_which_field_and_shows_the_text(spark: SparkSession) -> None:
    (audat,) = rows_of(spark, "VBAK.AUDAT", ["20260230"], POINT)
    (netwr,) = rows_of(spark, "VBAP.NETWR", ["1,5"], POINT)
    assert audat[2] == "AUDAT is no date yyyyMMdd: 20260230"
    assert netwr[2] == "NETWR is no DECIMAL(18,5) with a decimal point: 1,5"


@pytest.mark.parametrize("table", SAP_TABLES)
@pytest.mark.parametrize("value_format", [POINT, COMMA], ids=["point", "comma"])
def test_no_text_becomes_null_without_a_reason(spark: SparkSession, table: str, value_format: ValueFormat) -> None:
    texts = [
        "?",
        "-",
        "--1",
        "1-1",
        ".",
        ",",
        "1e5",
        "NaN",
        "9" * 50,
        "2026-02-30",
        "%",
        "null",
        "\\N",
        "0-0",
        "\u00a0",
    ]
    readings = {
        sap_field.name: reading(sap_field, F.col("delivered"), value_format) for sap_field in SAP_TABLES[table].fields
    }
    lost = [F.when(read.isNull() & problem.isNull(), F.lit(name)) for name, (read, problem) in readings.items()]
    frame = frame_of(spark, ["delivered"], [[delivered] for delivered in texts])
    found = frame.select("delivered", F.concat_ws(" ", *lost).alias("lost")).where("lost <> ''").collect()
    assert [tuple(row) for row in found] == []


@pytest.mark.parametrize("table", SAP_TABLES)
def test_a_missing_value_is_no_reason_to_complain(spark: SparkSession, table: str) -> None:
    problems = [reading(sap_field, F.col("delivered"), POINT)[1] for sap_field in SAP_TABLES[table].fields]
    frame = frame_of(spark, ["delivered"], [[None], [""], ["   "]])
    assert [row[0] for row in frame.select(F.concat_ws(" ", *problems)).collect()] == ["", "", ""]
