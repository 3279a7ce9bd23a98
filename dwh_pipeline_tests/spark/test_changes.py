"""Rows of a typed view as changes: their values, their hash, and the reason why one cannot be taken."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal

from pyspark.sql import Row, SparkSession

from dwh_pipeline.sap.fields import KNA1, TCURX, VBAK, VBAP, SapTable
from dwh_pipeline.sap.values import Amounts, ValueFormat
from dwh_pipeline.sap.values import Decimal as Mark
from dwh_pipeline.tables.changes import read_changes
from dwh_pipeline_tests.frames import frame_of

TECHNICAL = {
    "change_seq": "0001",
    "change_op": "U",
    "_tech_batch_id": "0001",
    "_tech_source_file": "feed/0001/part-1.csv",
    "_tech_row_hash": "hash of bronze",
    "_corrupt_record": None,
}
KEYS: Mapping[str, dict[str, str | None]] = {
    "KNA1": {"client_id": "100", "customer_id": "0000010001"},
    "VBAK": {"client_id": "100", "order_id": "0000004711"},
    "VBAP": {"client_id": "100", "order_id": "0000004711", "line_number": "000010"},
    "TCURX": {"currency": "JPY"},
}


def changes(
    spark: SparkSession, table: SapTable, *rows: Mapping[str, str | None], value_format: ValueFormat | None = None
) -> list[Row]:
    """Changes of delivered rows, in their order; key and technical columns are good unless a row says otherwise."""
    columns = list(dict.fromkeys([*TECHNICAL, *KEYS[table.name], *(name for row in rows for name in row), "position"]))
    delivered = [{**TECHNICAL, **KEYS[table.name], **row, "position": str(i)} for i, row in enumerate(rows)]
    typed = frame_of(spark, columns, delivered)
    read = read_changes(typed, table, value_format or ValueFormat())
    return sorted(read.collect(), key=lambda row: int(row["position"]))


def reasons(spark: SparkSession, table: SapTable, *rows: Mapping[str, str | None]) -> list[str | None]:
    return [row["reason"] for row in changes(spark, table, *rows)]


def hashes(spark: SparkSession, table: SapTable, *rows: Mapping[str, str | None]) -> list[str | None]:
    return [row["_tech_row_hash"] for row in changes(spark, table, *rows)]


def test_a_change_has_typed_values_and_keeps_where_it_came_from(spark: SparkSession) -> None:
    delivered = {
        "quantity": "1.234,5",
        "line_net_value": "10,00-",
        "created_date": "01.04.2026",
        "price_unit_quantity": "0",
    }
    value_format = ValueFormat(date_format="dd.MM.yyyy", decimal=Mark.COMMA, amounts=Amounts.EXTERNAL)
    (change,) = changes(spark, VBAP, {"line_number": "10", "is_return": "X", **delivered}, value_format=value_format)
    found = change.asDict()
    expected = {
        "client_id": "100",
        "order_id": "0000004711",
        "line_number": "000010",
        "quantity": Decimal("1234.500"),
        "line_net_value": Decimal("-10.00000"),
        "created_date": date(2026, 4, 1),
        "price_unit_quantity": 1,
        "is_return": True,
        "product_id": None,
        "reason": None,
        **{name: value for name, value in TECHNICAL.items() if name != "_tech_row_hash"},
    }
    assert {name: found[name] for name in expected} == expected


def test_every_field_of_the_table_is_there_whatever_was_delivered(spark: SparkSession) -> None:
    (change,) = changes(spark, VBAP, {"something_else": "kept"})
    assert {field.canonical for field in VBAP.fields} < set(change.asDict())
    assert change["something_else"] == "kept"


def test_m03_a_row_without_a_key_has_a_reason(spark: SparkSession) -> None:
    found = reasons(
        spark,
        VBAP,
        {"client_id": None},
        {"client_id": "   "},
        {"order_id": ""},
        {"line_number": None},
        {"line_number": "000000"},
        {"order_id": None, "change_op": "D"},
        {"client_id": None, "order_id": None, "line_number": None},
        {"line_number": "1234567"},
        {"order_id": "12345678901", "change_op": "D"},
    )
    assert found == [
        "null_key: MANDT is missing",
        "null_key: MANDT is missing",
        "null_key: VBELN is missing",
        "null_key: POSNR is missing",
        None,
        "null_key: VBELN is missing",
        "null_key: MANDT is missing",
        "POSNR is not 6 digits: 1234567",
        "VBELN is longer than 10 characters: 12345678901",
    ]


def test_a_currency_without_a_key_has_a_reason(spark: SparkSession) -> None:
    expected = ["null_key: CURRKEY is missing", "CURRDEC is not one of 0 to 5: X", None]
    assert reasons(spark, TCURX, {"currency": " "}, {"currency_decimals": "X"}, {"currency_decimals": None}) == expected


def test_m04_a_row_without_an_order_or_a_known_operation_has_a_reason(spark: SparkSession) -> None:
    found = reasons(spark, VBAP, {"change_seq": None}, {"change_op": None}, {"change_op": "Z"})
    assert found == [
        "change_seq: the delivered values give no order",
        "change_op is unknown: NULL",
        "change_op is unknown: Z",
    ]


def test_a_record_that_was_not_split_is_malformed_before_anything_else(spark: SparkSession) -> None:
    malformed = {"_corrupt_record": "100;4711", "client_id": None, "quantity": "ABC", "change_op": None}
    (found,) = reasons(spark, VBAP, malformed)
    assert found is not None
    assert found.startswith("malformed record")


def test_unreadable_attributes_matter_to_upserts_only(spark: SparkSession) -> None:
    broken = {"quantity": "ABC", "created_date": "20260230"}
    found = reasons(spark, VBAP, *({"change_op": operation, **broken} for operation in "IUDMB"))
    expected = "KWMENG is no DECIMAL(15,3) with a decimal point: ABC"
    assert found == [expected, expected, None, None, None]


def test_blank_empty_and_missing_have_the_same_hash(spark: SparkSession) -> None:
    blank = [{"rejection_reason_code": value, "product_group": value} for value in (None, "", "   ")]
    assert len(set(hashes(spark, VBAP, *blank, {"product_group": ""}, {}))) == 1


def test_the_hash_is_of_the_values_and_of_nothing_else(spark: SparkSession) -> None:
    one = {"quantity": "5", "product_id": "4711", "line_description": "Bell"}
    same = [
        one,
        one | {"quantity": "5.000", "product_id": "000000000000004711", "line_description": "Bell  "},
        one | {"change_seq": "0009", "change_op": "I", "_tech_batch_id": "0002", "_tech_row_hash": "another"},
        one | {"something_else": "no field of the table"},
        one | {"line_number": "20"},
    ]
    other = [
        one | {"quantity": "6"},
        one | {"line_description": " Bell"},
        one | {"line_description": "bell"},
        one | {"rejection_reason_code": "91"},
        {"product_id": "4711", "line_description": "Bell"},
    ]
    found = hashes(spark, VBAP, *same, *other)
    assert len(set(found[: len(same)])) == 1
    assert len(set(found)) == 1 + len(other)


def test_a_hash_keeps_values_apart(spark: SparkSession) -> None:
    pairs = [("AB", "C"), ("A", "BC"), ("ABC", None), (None, "ABC"), ('A","customer_name_2":"B', None), ("A", "B")]
    rows = [{"customer_name": first, "customer_name_2": second} for first, second in pairs]
    assert len(set(hashes(spark, KNA1, *rows))) == len(pairs)


def test_a_hash_sees_a_change_of_a_microsecond(spark: SparkSession) -> None:
    times = ["20260401120000.0000010", "20260401120000.0000020", "20260401120000.0010000", "20260401120000"]
    found = hashes(spark, VBAK, *({"updated_at_utc": at} for at in times))
    assert len(set(found)) == len(times)


def test_deletions_have_no_hash(spark: SparkSession) -> None:
    found = hashes(spark, VBAP, *({"change_op": operation, "quantity": "5"} for operation in "IUBDM"))
    assert [hash_ is None for hash_ in found] == [False, False, True, True, True]
