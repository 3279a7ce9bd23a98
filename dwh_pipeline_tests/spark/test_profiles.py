"""What each replication tool's rows become: an operation, a place in the order of changes, and a time."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.sap.profiles import PROFILES, DeclaredOrder, Profile, change_time, operation, own_order
from dwh_pipeline_tests.frames import frame_of

LOCATION = {"_tech_batch_id": "0001", "_tech_source_file": "orders/0001/part-1.csv", "_tech_row_number": "1"}
# A change of every profile that has an order of its own, and a row of an initial load.
CHANGE: Mapping[str, dict[str, str | None]] = {
    "fivetran": {"_fivetran_deleted": "false", "_fivetran_synced": "2026-04-01T12:00:00Z"},
    "replication_flow": {"__operation_type": "U", "__timestamp": "2026-04-01T12:00:00Z"},
    "slt": {"IUUC_OPERATION": "U", "IUUC_TIMESTAMP": "20260401120000"},
    "odp": {
        "ODQ_CHANGEMODE": "U",
        "ODQ_ENTITYCNTR": "1",
        "ODQ_TSN": "20260401120000.000001000",
        "ODQ_UNITNO": "1",
        "ODQ_RECORDNO": "1",
    },
    "qlik": {"header__change_oper": "U", "header__change_seq": "20260401120000000000000000000000001"},
}
INITIAL: Mapping[str, dict[str, str | None]] = {
    "replication_flow": {"__operation_type": "L", "__timestamp": "2026-04-01T12:00:00Z"},
    "slt": {"IUUC_OPERATION": "", "IUUC_TIMESTAMP": "20260401120000"},
    "odp": CHANGE["odp"] | {"ODQ_CHANGEMODE": ""},
    "qlik": {"header__change_oper": "", "header__change_seq": ""},
}
TIME_COLUMN = {"fivetran": "_fivetran_synced", "replication_flow": "__timestamp", "slt": "IUUC_TIMESTAMP"}

# Each value is later than the one before it.
NUMBERS = ["0", "9", "10", "10.5", "11", "20260401", "20260402", "20260401120000", "20260401120000.1", "20260401120001"]
DATES = ["20260401", "2026-04-02", "20260403", "2026-12-31", "20270101"]
TIMES = [
    "20260401120000",
    "2026-04-01T12:00:00.000000001Z",
    "20260401120000.0000001",
    "2026-04-01T12:00:00.0000002Z",
    "2026-04-01T14:00:00.1+02:00",
    "2026-04-01 12:00:00.11",
    "20260401120000.1234566",
    "20260401120000,1234567",
    "2026-04-01T12:00:00.1234568Z",
    "2026-04-01T12:00:00.2Z",
    "2026-04-01T13:30:00+01:00",
    "2026-04-01T23:59:59.999999Z",
    "2026-04-02T01:00:00+01:00",
    "2026-04-02T00:00:00.5Z",
]
UNORDERED = ["", " ", None, "ABC", "-1", "1e5", "2026-02-30", "2026-04-01T25:00:00Z", "01.04.2026", "1.2.3", "9" * 21]


def changes(
    spark: SparkSession,
    profile: Profile,
    rows: Sequence[Mapping[str, object]],
    *,
    sequence: str | None = None,
    restarts: bool = False,
) -> list[Row]:
    """`op`, `seq`, `at` (UTC, as text) and `own` order of delivered rows, in turn; in one place unless they say so."""
    names = list(dict.fromkeys([*LOCATION, *profile.own_columns, *(sequence or "").split(), "position"]))
    placed = [{**LOCATION, **row, "position": str(position)} for position, row in enumerate(rows)]
    seq = profile.change_seq(DeclaredOrder(sequence, restarts))
    return (
        frame_of(spark, names, placed)
        .select(
            operation(profile).alias("op"),
            seq.alias("seq"),
            change_time(seq).cast("string").alias("at"),
            own_order(seq).alias("own"),
            F.col("position").cast("int").alias("position"),
        )
        .orderBy("position")
        .collect()
    )


@pytest.mark.parametrize(
    ("profile", "operations"),
    [
        ("plain", [({}, "U")]),
        (
            "fivetran",
            [
                ({"_fivetran_deleted": "true"}, "D"),
                ({"_fivetran_deleted": "TRUE "}, "D"),
                ({"_fivetran_deleted": "false"}, "U"),
                ({"_fivetran_deleted": "False"}, "U"),
                ({"_fivetran_deleted": ""}, "U"),
                ({"_fivetran_deleted": None}, "U"),
                ({"_fivetran_deleted": "yes"}, None),
            ],
        ),
        (
            "replication_flow",
            [
                *(({"__operation_type": code}, op) for code, op in zip("LIUABXDM", "IUUUBDDM", strict=True)),
                ({"__operation_type": " U "}, "U"),
                ({"__operation_type": "u"}, None),
                ({"__operation_type": "R"}, None),
                ({"__operation_type": None}, None),
            ],
        ),
        (
            "slt",
            [
                *(({"IUUC_OPERATION": code}, op) for code, op in zip("IUDA", "UUDM", strict=True)),
                ({"IUUC_OPERATION": ""}, "I"),
                ({"IUUC_OPERATION": " "}, "I"),
                ({"IUUC_OPERATION": None}, "I"),
                ({"IUUC_OPERATION": "M"}, None),
            ],
        ),
        (
            "odp",
            [
                ({"ODQ_CHANGEMODE": "C", "ODQ_ENTITYCNTR": "1"}, "U"),
                ({"ODQ_CHANGEMODE": "U", "ODQ_ENTITYCNTR": "1"}, "U"),
                ({"ODQ_CHANGEMODE": "U", "ODQ_ENTITYCNTR": "-1"}, "B"),
                ({"ODQ_CHANGEMODE": "U", "ODQ_ENTITYCNTR": "1-"}, "B"),
                ({"ODQ_CHANGEMODE": "U", "ODQ_ENTITYCNTR": "-1.000"}, "B"),
                ({"ODQ_CHANGEMODE": "U", "ODQ_ENTITYCNTR": None}, "U"),
                ({"ODQ_CHANGEMODE": "D", "ODQ_ENTITYCNTR": "-1"}, "D"),
                ({"ODQ_CHANGEMODE": "D", "ODQ_ENTITYCNTR": "0"}, "D"),
                ({"ODQ_CHANGEMODE": "", "ODQ_ENTITYCNTR": "1"}, "I"),
                ({"ODQ_CHANGEMODE": None, "ODQ_ENTITYCNTR": None}, "I"),
                ({"ODQ_CHANGEMODE": "C", "ODQ_ENTITYCNTR": "-1"}, None),
                ({"ODQ_CHANGEMODE": "X", "ODQ_ENTITYCNTR": "1"}, None),
            ],
        ),
        (
            "qlik",
            [
                *(({"header__change_oper": code}, op) for code, op in zip("IUDB", "UUDB", strict=True)),
                ({"header__change_oper": ""}, "I"),
                ({"header__change_oper": None}, "I"),
                ({"header__change_oper": "A"}, None),
            ],
        ),
        (
            "recordmode",
            [
                *(({"0RECORDMODE": code}, op) for code, op in zip("NXDR", "UBDD", strict=True)),
                ({"0RECORDMODE": ""}, "U"),
                ({"0RECORDMODE": " "}, "U"),
                ({"0RECORDMODE": None}, "U"),
                ({"0RECORDMODE": "A"}, None),
            ],
        ),
    ],
)
def test_p05_a_code_means_one_operation_or_none(
    spark: SparkSession, profile: str, operations: list[tuple[dict[str, str | None], str | None]]
) -> None:
    delivered = [row for row, _ in operations]
    found = [row["op"] for row in changes(spark, PROFILES[profile], delivered)]
    assert list(zip(delivered, found, strict=True)) == operations


@pytest.mark.parametrize("profile", PROFILES)
def test_an_order_of_changes_has_one_width_and_a_floor_of_zeros(spark: SparkSession, profile: str) -> None:
    initial = [INITIAL[profile]] if profile in INITIAL else []
    elsewhere: dict[str, str | None] = {
        "_tech_batch_id": "delta/2026-04-01T06-00-00",
        "_tech_source_file": "orders/delta/2026-04-01T06-00-00/Bestellungen März+1.csv",
        "_tech_row_number": "1234567",
    }
    change = CHANGE.get(profile, {})
    found = changes(spark, PROFILES[profile], [*initial, change, change | elsewhere])
    seqs = [row["seq"] for row in found]
    assert len({len(seq) for seq in seqs}) == 1
    if initial:
        assert (found[0]["op"], set(seqs[0])) == ("I", {"0"})
        assert seqs[0] < seqs[1]


@pytest.mark.parametrize("later", [NUMBERS, DATES, TIMES], ids=["numbers", "dates", "times"])
def test_the_text_of_a_sequence_has_the_order_of_its_values(spark: SparkSession, later: list[str]) -> None:
    found = changes(spark, PROFILES["plain"], [{"CHANGEDAT": value} for value in later], sequence="CHANGEDAT")
    seqs = [row["seq"] for row in found]
    assert {len(seq) for seq in seqs} == {29}
    assert [(a, b) for a, b in pairwise(zip(later, seqs, strict=True)) if a[1] >= b[1]] == []


def test_m07_a_counter_that_restarts_in_each_delivery_is_ordered_behind_the_delivery(spark: SparkSession) -> None:
    rows: list[dict[str, object]] = [
        {"_tech_batch_id": "1", "SEQ": "5000"},
        {"_tech_batch_id": "2", "SEQ": "3"},
        {"_tech_batch_id": "2", "SEQ": "20"},
        {"_tech_batch_id": "10", "SEQ": "1"},
    ]
    found = [row["seq"] for row in changes(spark, PROFILES["plain"], rows, sequence="SEQ", restarts=True)]
    assert found == sorted(found)
    assert len({len(seq) for seq in found}) == 1


def test_the_same_moment_has_the_same_place_however_it_is_written(spark: SparkSession) -> None:
    one_moment = [
        "20260401120000",
        "20260401120000.0000000",
        " 20260401120000 ",
        "2026-04-01T12:00:00Z",
        "2026-04-01 12:00:00",
        "2026-04-01T14:00:00+02:00",
        "2026-04-01T12:00:00.000Z",
    ]
    rows = [{"CHANGEDAT": value} for value in one_moment]
    assert len({row["seq"] for row in changes(spark, PROFILES["plain"], rows, sequence="CHANGEDAT")}) == 1


@pytest.mark.parametrize("profile", TIME_COLUMN)
def test_changes_of_a_feed_with_times_are_ordered_by_them(spark: SparkSession, profile: str) -> None:
    # The position runs against the time, so it does not decide.
    rows = [
        CHANGE[profile] | {TIME_COLUMN[profile]: value, "_tech_row_number": str(100 - position)}
        for position, value in enumerate(TIMES)
    ]
    seqs = [row["seq"] for row in changes(spark, PROFILES[profile], rows)]
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize("profile", [*TIME_COLUMN, "plain"])
def test_changes_at_the_same_time_are_ordered_by_delivery_file_and_row(spark: SparkSession, profile: str) -> None:
    positions = [
        ("9", "a.csv", "10"),
        ("10", "a.csv", "9"),
        ("10", "a.csv", "10"),
        ("10", "a.csv", "100"),
        ("10", "a1.csv", "1"),
        ("10", "b.csv", "1"),
        ("20260401", "a.csv", "1"),
        ("20260401-2", "a.csv", "1"),
        ("20260401T0600", "a.csv", "1"),
    ]
    rows = [
        CHANGE.get(profile, {})
        | {"_tech_batch_id": delivery, "_tech_source_file": f"f/{delivery}/{file}", "_tech_row_number": row}
        for delivery, file, row in positions
    ]
    seqs = [row["seq"] for row in changes(spark, PROFILES[profile], rows)]
    assert seqs == sorted(set(seqs))


def test_deliveries_of_a_plain_feed_are_ordered_by_their_time(spark: SparkSession) -> None:
    deliveries = {
        "initial": None,
        "delta/20251231": "2025-12-31 00:00:00",
        "20260401": "2026-04-01 00:00:00",
        "delta/20260401-2": "2026-04-01 00:00:00",
        "delta/20260401/0002": "2026-04-01 00:00:00",
        "20260401T0600": "2026-04-01 06:00:00",
        "2026-04-01T06-30-15": "2026-04-01 06:30:15",
        "20260401070000": "2026-04-01 07:00:00",
        "202604010730": "2026-04-01 07:30:00",
        "20260401T0800Z": "2026-04-01 08:00:00",
        "2026-04-02": "2026-04-02 00:00:00",
    }
    found = changes(spark, PROFILES["plain"], [{"_tech_batch_id": delivery} for delivery in deliveries])
    assert dict(zip(deliveries, [row["at"] for row in found], strict=True)) == deliveries
    seqs = [row["seq"] for row in found]
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize("profile", [*TIME_COLUMN, "plain"])
def test_what_cannot_be_ordered_is_null(spark: SparkSession, profile: str) -> None:
    column = TIME_COLUMN.get(profile, "CHANGEDAT")
    rows = [CHANGE.get(profile, {}) | {column: value} for value in UNORDERED]
    found = changes(spark, PROFILES[profile], rows, sequence=None if profile in TIME_COLUMN else column)
    assert [value for value, row in zip(UNORDERED, found, strict=True) if row["seq"] is not None] == []


def test_odp_is_ordered_by_transaction_unit_and_record(spark: SparkSession) -> None:
    numbers = [
        ("20260401120000.000001000", "", ""),
        ("20260401120000.000001", "1", "9"),
        ("20260401120000000001000", "1", "10"),
        ("20260401120000_000001000", "2", "1"),
        ("20260401120000.000002000", "1", "1"),
        ("20260401120000.5", "1", "1"),
        ("20260401120001", "1", "1"),
    ]
    rows = [
        CHANGE["odp"] | {"ODQ_TSN": tsn, "ODQ_UNITNO": unit, "ODQ_RECORDNO": record} for tsn, unit, record in numbers
    ]
    seqs = [row["seq"] for row in changes(spark, PROFILES["odp"], rows)]
    assert seqs == sorted(set(seqs))


def test_odp_without_readable_numbers_has_no_order(spark: SparkSession) -> None:
    broken: list[dict[str, str | None]] = [
        {"ODQ_TSN": None},
        {"ODQ_TSN": "ABC"},
        {"ODQ_TSN": "2026"},
        {"ODQ_TSN": "20260401120000.0000010001"},
        {"ODQ_UNITNO": "X"},
        {"ODQ_RECORDNO": "12345678901"},
    ]
    rows = [CHANGE["odp"] | columns for columns in broken]
    assert [row["seq"] for row in changes(spark, PROFILES["odp"], rows)] == [None] * len(rows)


def test_qlik_is_ordered_by_its_number(spark: SparkSession) -> None:
    numbers = [
        "9",
        "10",
        "20260401120000" + "0" * 20 + "9",
        "20260401120000" + "0" * 19 + "10",
        "20260401120001" + "0" * 21,
    ]
    rows = [CHANGE["qlik"] | {"header__change_seq": number} for number in numbers]
    seqs = [row["seq"] for row in changes(spark, PROFILES["qlik"], rows)]
    assert seqs == sorted(set(seqs))


def test_qlik_before_image_has_the_place_of_its_update(spark: SparkSession) -> None:
    before, after = changes(spark, PROFILES["qlik"], [CHANGE["qlik"] | {"header__change_oper": "B"}, CHANGE["qlik"]])
    assert (before["op"], after["op"]) == ("B", "U")
    assert before["seq"] == after["seq"]


def test_qlik_change_without_a_number_has_no_order_but_a_full_load_is_the_floor(spark: SparkSession) -> None:
    codes = ["", "I", "U", "D", "B"]
    rows: list[dict[str, str | None]] = [{"header__change_oper": code, "header__change_seq": None} for code in codes]
    rows += [CHANGE["qlik"] | {"header__change_seq": text} for text in ("ABC", "1" * 36, "-1")]
    found = changes(spark, PROFILES["qlik"], rows)
    assert [row["seq"] and set(row["seq"]) for row in found] == [{"0"}, {"0"}, *[None] * 6]


@pytest.mark.parametrize(
    ("profile", "column", "times"),
    [
        (
            "plain",
            "CHANGEDAT",
            {
                "20260401": "2026-04-01 00:00:00",
                "2026-04-01": "2026-04-01 00:00:00",
                "20260401120000.1234567": "2026-04-01 12:00:00.123456",
                "4711": None,
                "12345678": None,
                "99991231": None,
                "20260230": None,
                "ABC": None,
            },
        ),
        ("fivetran", "_fivetran_synced", {"2026-04-01T14:00:00.5+02:00": "2026-04-01 12:00:00.5"}),
        ("replication_flow", "__timestamp", {"2026-04-01T12:00:00.000001Z": "2026-04-01 12:00:00.000001"}),
        ("slt", "IUUC_TIMESTAMP", {"20260401120000.25": "2026-04-01 12:00:00.25"}),
        ("odp", "ODQ_TSN", {"20260401120000.000001000": "2026-04-01 12:00:00.000001"}),
        ("qlik", "header__change_seq", {"20260401120000" + "25" + "0" * 19: "2026-04-01 12:00:00.25"}),
        ("recordmode", "CHANGEDAT", {"20260401": "2026-04-01 00:00:00"}),
    ],
)
def test_the_time_of_a_change_is_read_from_its_place(
    spark: SparkSession, profile: str, column: str, times: dict[str, str | None]
) -> None:
    initial = [INITIAL[profile]] if profile in INITIAL else []
    rows = [CHANGE.get(profile, {}) | {column: value} for value in times]
    sequence = None if profile in CHANGE else column
    found = changes(spark, PROFILES[profile], [*rows, *initial], sequence=sequence)
    assert [row["at"] for row in found] == [*times.values(), *(None for _ in initial)]


@pytest.mark.parametrize("name", CHANGE)
def test_the_own_order_of_a_change_is_told_by_its_values_and_not_by_its_place(spark: SparkSession, name: str) -> None:
    rows = [row for row in (CHANGE[name], INITIAL.get(name)) if row is not None]
    elsewhere: dict[str, str | None] = {
        "_tech_batch_id": "0002",
        "_tech_source_file": "orders/0002/part-2.csv",
        "_tech_row_number": "7",
    }
    found = changes(spark, PROFILES[name], [*rows, *(row | elsewhere for row in rows)])
    here, there = ([row["own"] for row in found[n : n + len(rows)]] for n in (0, len(rows)))
    assert here == there
    assert len(set(here)) == len(rows)
    if PROFILES[name].order_is_in_rows:
        assert here == [row["seq"] for row in found[: len(rows)]]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_declared_sequence_is_the_own_order(spark: SparkSession, restarts: bool) -> None:
    rows = [{"SEQ": "1"}, {"SEQ": "2"}]
    found = changes(spark, PROFILES["plain"], rows, sequence="SEQ", restarts=restarts)
    assert [row["own"] for row in found] == [row["seq"] for row in found]


@pytest.mark.parametrize("deliveries", [("delta/20260401", "delta/20260402"), ("0001", "0002"), ("first", "second")])
def test_without_any_order_in_the_rows_the_own_order_is_that_of_the_deliveries(
    spark: SparkSession, deliveries: tuple[str, str]
) -> None:
    rows = [{"_tech_batch_id": delivery, "_tech_row_number": row} for delivery in deliveries for row in "12"]
    found = changes(spark, PROFILES["plain"], rows)
    assert len({row["seq"] for row in found}) == len(rows)
    first, same, second, same_again = (row["own"] for row in found)
    assert (first, second) == (same, same_again)
    assert first < second
