"""The landing area of the demonstration is what its generator writes, and holds the situations it is meant to show.

Reads the committed files as they are, without Spark and without the warehouse. How a load deals with a situation
belongs to the tests of that load.
"""

import csv
import importlib.util
import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
LANDING = ROOT / "data" / "landing"
GOLDEN_REVENUE = ROOT / "dwh_pipeline_tests" / "golden" / "demo_revenue.csv"

INITIAL, FEBRUARY, MARCH, APRIL, MAY = "initial", *(f"delta/{day}" for day in (20260205, 20260310, 20260408, 20260504))
CHANGE_FEEDS = {"customers": ("MANDT", "KUNNR"), "orders": ("MANDT", "VBELN"), "lines": ("MANDT", "VBELN", "POSNR")}
UPSERTS = {"L", "I", "U", "A"}
DELETES = {"X", "D"}
SIGN = {"C": 1, "I": 1, "L": 1, "H": -1, "K": -1}


@dataclass(frozen=True)
class Delivered:
    """One row of one file: where it was delivered, when it happened, what it says."""

    delivery: str
    position: int
    row: dict[str, str]

    @property
    def at(self) -> str:
        return self.row["__timestamp"]

    @property
    def operation(self) -> str:
        return self.row["__operation_type"]

    @property
    def values(self) -> dict[str, str]:
        return {name: value for name, value in self.row.items() if not name.startswith("__")}


def generator() -> ModuleType:
    """`data/generate.py`, which is in no package."""
    spec = importlib.util.spec_from_file_location("demo_landing_generator", ROOT / "data" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def delivered_rows(file: Path, *, delimiter: str = ",") -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        if file.suffix == ".jsonl":
            return [json.loads(line) for line in stream]
        return list(csv.DictReader(stream, delimiter=delimiter))


@cache
def delivered(feed: str) -> tuple[Delivered, ...]:
    """All rows of a feed, in the order of their delivery."""
    found = []
    for delivery in (INITIAL, FEBRUARY, MARCH, APRIL, MAY):
        for file in sorted((LANDING / feed / delivery).glob("part-*")):
            found += [Delivered(delivery, position, row) for position, row in enumerate(delivered_rows(file))]
    return tuple(found)


def changes(feed: str, *key: str) -> list[Delivered]:
    """All rows of one key, in the order in which they happened."""
    names = CHANGE_FEEDS[feed]
    of_key = [change for change in delivered(feed) if tuple(change.row[name] for name in names) == key]
    return sorted(of_key, key=lambda change: (change.at, change.delivery, change.position))


def keys(feed: str) -> set[tuple[str, ...]]:
    return {tuple(change.row[name] for name in CHANGE_FEEDS[feed]) for change in delivered(feed)}


def latest(feed: str, *key: str) -> dict[str, str]:
    """Find the newest image of one key; empty where its newest change deletes it."""
    *_, newest = [change for change in changes(feed, *key) if change.operation != "B"]
    if newest.operation in DELETES:
        return {}
    return [change for change in changes(feed, *key) if change.operation in UPSERTS][-1].values


def current(feed: str) -> Iterator[dict[str, str]]:
    return filter(None, (latest(feed, *key) for key in sorted(keys(feed))))


def in_delivery(feed: str, delivery: str, *key: str) -> list[Delivered]:
    return [change for change in changes(feed, *key) if change.delivery == delivery]


def values_of(feed: str, field: str, *key: str) -> list[str]:
    return [change.row[field] for change in changes(feed, *key)]


def number(text: str) -> Decimal:
    return -Decimal(text[:-1]) if text.endswith("-") else Decimal(text)


def currency_decimals() -> dict[str, int]:
    files = sorted((LANDING / "currencies").glob("*/part-*.csv"))
    return {row["CURRKEY"]: int(row["CURRDEC"]) for file in files for row in delivered_rows(file, delimiter=";")}


def revenue_by_month() -> list[list[str]]:
    """Add up the revenue that follows from the files: a second opinion on what the warehouse makes of them."""
    decimals = currency_decimals()
    headers = {(row["MANDT"], row["VBELN"]): row for row in current("orders")}
    amounts: dict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    orders: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for line in current("lines"):
        header = headers.get((line["MANDT"], line["VBELN"]), defaultdict(str))
        date = header["AUDAT"].strip("0")
        month = f"{header['AUDAT'][:4]}-{header['AUDAT'][4:6]}-01" if date else ""
        currency = line["WAERK"] or header["WAERK"]
        sign = 0 if line["ABGRU"] else SIGN.get(header["VBTYP"], 0)
        sign = -abs(sign) if line["SHKZG"] else sign
        group = (line["MANDT"], month, currency)
        amounts[group] += sign * number(line["NETWR"]).scaleb(2 - decimals.get(line["WAERK"], 2))
        orders[group].append(line["VBELN"])
    return [
        [*group, f"{amounts[group]:.5f}", str(len(orders[group])), str(len(set(orders[group])))]
        for group in sorted(orders)
    ]


# --- the files and their generator


def test_committed_files_are_what_the_generator_writes() -> None:
    generate = generator()
    assert generate.differences(LANDING, generate.landing_files()) == []


def test_writing_repairs_what_the_check_finds(tmp_path: Path) -> None:
    generate = generator()
    files = generate.landing_files()
    (tmp_path / "stray.csv").write_text("not ours")
    assert generate.differences(tmp_path, files) == sorted([*files, "stray.csv"])
    generate.write(tmp_path, files)
    assert generate.differences(tmp_path, files) == []


def test_check_exits_with_1_and_names_the_file_that_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    generate = generator()
    generate.write(tmp_path, generate.landing_files())
    monkeypatch.setattr(generate, "LANDING", tmp_path)
    assert generate.main(["--check"]) == 0
    (tmp_path / "feeds.toml").write_text("changed")
    assert generate.main(["--check"]) == 1
    assert "feeds.toml" in capsys.readouterr().out


def test_four_feeds_are_declared_with_known_keys() -> None:
    feeds = tomllib.loads((LANDING / "feeds.toml").read_text(encoding="utf-8"))["feeds"]
    assert {name: (feed["table"], feed["profile"], feed["format"]) for name, feed in feeds.items()} == {
        "customers": ("KNA1", "replication_flow", "csv"),
        "orders": ("VBAK", "replication_flow", "csv"),
        "lines": ("VBAP", "replication_flow", "jsonl"),
        "currencies": ("TCURX", "plain", "csv"),
    }
    known = {"table", "profile", "format", "delimiter", "encoding", "decimal", "date_format", "amounts"}
    assert all(feed.keys() <= known for feed in feeds.values())


def test_every_feed_has_at_least_three_deliveries() -> None:
    for feed in ("customers", "orders", "lines", "currencies"):
        assert len({file.parent for file in (LANDING / feed).rglob("part-*")}) >= 3, feed


@pytest.mark.parametrize("feed", CHANGE_FEEDS)
def test_initial_load_has_its_marker_and_initial_rows_only(feed: str) -> None:
    assert (LANDING / feed / INITIAL / "_SUCCESS").read_bytes() == b""
    assert {change.operation for change in delivered(feed) if change.delivery == INITIAL} == {"L"}
    assert all(change.operation != "L" for change in delivered(feed) if change.delivery != INITIAL)


def test_all_codes_of_the_replication_flow_occur() -> None:
    assert {change.operation for feed in CHANGE_FEEDS for change in delivered(feed)} == set("LIUABXDM")


def test_every_value_is_a_string_and_every_row_has_a_time() -> None:
    for feed in CHANGE_FEEDS:
        for change in delivered(feed):
            assert all(isinstance(value, str) for value in change.row.values())
            assert change.row["__sequence_number"] == ""
            assert len(change.at) == len("2026-01-05T08:00:00.000000Z")


def test_the_landing_area_is_small() -> None:
    assert (len(keys("customers")), len(keys("orders")), len(keys("lines"))) == (13, 46, 112)
    assert sum(file.stat().st_size for file in LANDING.rglob("*.*")) < 150_000


def test_orders_are_from_january_to_april_2026() -> None:
    assert {row["ERDAT"][:6] for row in current("orders")} == {"202601", "202602", "202603", "202604"}


# --- customers


def test_same_customer_number_means_different_customers_in_two_clients() -> None:
    assert latest("customers", "100", "0000100001")["NAME1"] != latest("customers", "200", "0000100001")["NAME1"]


def test_names_have_umlauts() -> None:
    assert latest("customers", "100", "0000100002")["NAME1"] == "Zweirad Grünspecht e.K."


def test_a_customer_moves() -> None:
    assert values_of("customers", "ORT01", "200", "0000100001") == ["Omaha", "Lincoln"]
    assert values_of("customers", "STRAS", "200", "0000100002") == ["77 Harbor Lane", "12 Aerial Lift Square"]


def test_a_customer_moves_away_and_back() -> None:
    assert values_of("customers", "ORT01", "100", "0000100002") == ["Füssen", "Kempten", "Füssen"]


def test_a_customer_is_deleted_with_nothing_but_the_key() -> None:
    *_, last = changes("customers", "100", "0000100004")
    assert last.operation == "X"
    assert {name for name, value in last.values.items() if value} == {"MANDT", "KUNNR"}


def test_a_customer_is_deleted_and_created_again_with_the_same_attributes() -> None:
    first, deleted, again = changes("customers", "100", "0000100005")
    assert [first.operation, deleted.operation, again.operation] == ["L", "X", "I"]
    assert first.values | {"ERDAT": ""} == again.values | {"ERDAT": ""}


def test_an_order_is_dated_while_its_customer_is_deleted() -> None:
    _, deleted, again = changes("customers", "100", "0000100005")
    date = latest("orders", "100", "0000050022")["AUDAT"]
    assert deleted.at[:10].replace("-", "") < date < again.at[:10].replace("-", "")


def test_a_customer_change_arrives_after_a_newer_one() -> None:
    loaded, late, newer = changes("customers", "100", "0000100003")
    assert [change.row["ORT01"] for change in (loaded, late, newer)] == ["Rostock", "Wismar", "Stralsund"]
    assert (late.delivery, newer.delivery) == (MARCH, FEBRUARY)
    assert late.at < newer.at


def test_a_customer_change_is_delivered_twice() -> None:
    _, first, second = changes("customers", "100", "0000100001")
    assert first.row == second.row
    assert (first.delivery, second.delivery) == (FEBRUARY, MARCH)


def test_a_customer_changes_in_an_untracked_field_only() -> None:
    before, after = changes("customers", "100", "0000100008")
    assert {name for name in before.values if before.row[name] != after.row[name]} == {"ERNAM"}


def test_a_customer_is_flagged_for_deletion_and_one_is_blocked_for_data_protection() -> None:
    assert latest("customers", "100", "MESSE01")["LOEVM"] == "X"
    assert latest("customers", "100", "0000100009")["CVP_XBLCK"] == "X"


def test_a_customer_is_created_after_the_initial_load() -> None:
    assert [change.operation for change in changes("customers", "100", "0000100009")] == ["I", "U"]


# --- order headers


@pytest.mark.parametrize(
    ("category", "order"),
    [("B", "0000050008"), ("H", "0000050013"), ("I", "0000050026"), ("K", "0000050018"), ("L", "0000050019")],
)
def test_document_category_other_than_order_occurs(category: str, order: str) -> None:
    assert latest("orders", "100", order)["VBTYP"] == category


def test_lines_of_a_return_order_carry_the_return_flag_and_positive_amounts() -> None:
    lines = [row for row in current("lines") if row["VBELN"] == "0000050013"]
    assert {row["SHKZG"] for row in lines} == {"X"}
    assert all(number(row["NETWR"]) > 0 for row in lines)


def test_customer_numbers_occur_padded_and_unpadded() -> None:
    assert {"0000100001", "100001", "MESSE01"} <= {change.row["KUNNR"] for change in delivered("orders")}


def test_a_header_names_a_customer_that_does_not_exist() -> None:
    assert latest("orders", "100", "0000050021")["KUNNR"] == "0000199999"
    assert ("100", "0000199999") not in keys("customers")


@pytest.mark.parametrize(("order", "delivery"), [("0000050017", MARCH), ("0000050024", APRIL)])
def test_a_header_arrives_one_delivery_after_its_lines(order: str, delivery: str) -> None:
    deliveries = [INITIAL, FEBRUARY, MARCH, APRIL, MAY]
    assert {change.delivery for change in changes("orders", "100", order)} == {delivery}
    of_lines = {change.delivery for key in keys("lines") if key[1] == order for change in changes("lines", *key)}
    assert of_lines == {deliveries[deliveries.index(delivery) - 1]}


def test_a_line_without_currency_has_a_header_with_one() -> None:
    assert latest("lines", "100", "0000050024", "000010")["WAERK"] == ""
    assert latest("orders", "100", "0000050024")["WAERK"] == "USD"


@pytest.mark.parametrize(
    ("order", "field", "values"),
    [("0000050010", "KUNNR", ["MESSE01", "0000100001"]), ("0000050032", "AUDAT", ["20260402", "20260331"])],
)
def test_a_header_changes_although_none_of_its_lines_does(order: str, field: str, values: list[str]) -> None:
    assert values_of("orders", field, "100", order) == values
    assert all(len(changes("lines", *key)) == 1 for key in keys("lines") if key[:2] == ("100", order))


def test_an_order_is_archived_with_its_lines() -> None:
    for feed, key in (("orders", ()), ("lines", ("000010",)), ("lines", ("000020",))):
        *_, last = changes(feed, "100", "0000050002", *key)
        assert (last.operation, last.delivery) == ("M", MAY)


def test_an_order_has_no_document_date() -> None:
    assert latest("orders", "100", "0000050031")["AUDAT"] == "00000000"


def test_dates_that_are_not_set_are_zeros() -> None:
    assert latest("orders", "100", "0000050004")["AEDAT"] == "00000000"
    assert latest("lines", "100", "0000050004", "000010")["AEDAT"] == "00000000"


def test_a_time_is_the_end_of_the_day() -> None:
    assert latest("orders", "100", "0000050010")["ERZET"] == "240000"


def test_a_text_holds_the_delimiter_and_quotes() -> None:
    assert latest("orders", "100", "0000050011")["BSTNK"] == 'Tor 2, "Nord"'


def test_header_totals_are_the_sum_of_the_lines_but_for_one_order() -> None:
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for line in current("lines"):
        if not line["ABGRU"] and not line["KOWRR"]:
            sums[line["MANDT"], line["VBELN"]] += number(line["NETWR"])
    totals = {(row["MANDT"], row["VBELN"]): number(row["NETWR"]) for row in current("orders")}
    assert {order for order, total in totals.items() if sums[order] != total} == {("200", "0000050004")}


# --- order lines


def test_a_line_changes_its_quantity_with_the_image_before_beside_it() -> None:
    loaded, before, after = changes("lines", "100", "0000050001", "000010")
    assert [change.operation for change in (loaded, before, after)] == ["L", "B", "U"]
    assert before.values == loaded.values
    assert before.at == after.at
    assert (before.row["KWMENG"], after.row["KWMENG"]) == ("2.000", "3.000")


def test_a_line_changes_its_price() -> None:
    assert values_of("lines", "NETPR", "100", "0000050003", "000020") == ["12.50", "11.90"]


def test_a_line_is_rejected_and_wanted_again() -> None:
    assert values_of("lines", "ABGRU", "100", "0000050005", "000020") == ["", "91", ""]


def test_a_line_is_rejected_for_good() -> None:
    assert values_of("lines", "ABGRU", "100", "0000050009", "000020") == ["", "50"]


def test_a_line_is_deleted_with_nothing_but_the_key_and_one_with_its_last_image() -> None:
    *_, key_only = changes("lines", "100", "0000050012", "000030")
    assert (key_only.operation, key_only.row["MATNR"]) == ("X", "")
    *_, with_image = changes("lines", "200", "0000050005", "000020")
    assert (with_image.operation, with_image.row["MATNR"]) == ("D", "BELL-CU")


def test_a_line_change_is_delivered_twice() -> None:
    _, first, second = changes("lines", "100", "0000050014", "000010")
    assert first.row == second.row
    assert (first.delivery, second.delivery) == (FEBRUARY, MARCH)


def test_a_line_change_arrives_after_a_newer_one() -> None:
    _, late, newer = changes("lines", "200", "0000050002", "000010")
    assert (late.delivery, late.row["KWMENG"]) == (MARCH, "4.000")
    assert (newer.delivery, newer.row["KWMENG"]) == (FEBRUARY, "2.000")


def test_a_line_changes_twice_within_one_delivery() -> None:
    assert len(in_delivery("lines", APRIL, "100", "0000050029", "000010")) == 3


def test_a_line_has_an_unreadable_amount_and_is_corrected_by_a_newer_change() -> None:
    broken, corrected = changes("lines", "100", "0000050016", "000020")
    assert (broken.delivery, broken.row["NETWR"]) == (FEBRUARY, "ABC")
    assert (corrected.delivery, corrected.row["NETWR"]) == (MARCH, "140.00")


def test_no_other_amount_is_unreadable() -> None:
    texts = [change.row["NETWR"] for change in delivered("lines") if change.operation != "X"]
    assert [text for text in texts if not text.removesuffix("-").replace(".", "", 1).isdigit()] == ["ABC"]


def test_a_discount_has_its_minus_behind() -> None:
    discount = latest("lines", "100", "0000050004", "000030")
    assert (discount["NETPR"], discount["NETWR"]) == ("25.00-", "25.00-")


@pytest.mark.parametrize(
    ("order", "item", "per"),
    [("0000050005", "000010", "100"), ("0000050023", "000010", "100"), ("0000050023", "000020", "0")],
)
def test_a_price_is_per_100_pieces_or_per_none(order: str, item: str, per: str) -> None:
    assert latest("lines", "100", order, item)["KPEIN"] == per


@pytest.mark.parametrize(
    ("order", "currency", "stored"),
    [("0000050006", "JPY", "300.00"), ("0000050007", "KWD", "123.45"), ("0000050001", "EUR", "1647.00")],
)
def test_amounts_are_stored_with_two_decimals_whatever_the_currency(order: str, currency: str, stored: str) -> None:
    line = latest("lines", "100", order, "000010")
    assert (line["WAERK"], line["NETWR"]) == (currency, stored)


def test_dollars_are_sold_in_client_200() -> None:
    assert latest("lines", "200", "0000050001", "000010")["WAERK"] == "USD"


@pytest.mark.parametrize(
    "is_of_kind",
    [
        lambda number: len(number) == 18 and number.isdigit(),
        lambda number: not number.isdigit() and number.isupper(),
        lambda number: number != number.upper(),
    ],
    ids=["numeric, padded to 18", "with letters", "with small letters"],
)
def test_material_numbers_of_each_kind_occur(is_of_kind: Callable[[str], bool]) -> None:
    assert any(is_of_kind(row["MATNR"]) for row in current("lines"))


def test_free_goods_belong_to_another_line() -> None:
    assert latest("lines", "100", "0000050029", "000030")["UEPOS"] == "000010"


# --- currencies


def test_currencies_are_repeated_and_then_more_come() -> None:
    files = [LANDING / "currencies" / delivery / "part-0001.csv" for delivery in ("0001", "0002", "0003")]
    first, repeated, more = (delivered_rows(file, delimiter=";") for file in files)
    assert first == repeated == [{"CURRKEY": "JPY", "CURRDEC": "0"}, {"CURRKEY": "KWD", "CURRDEC": "3"}]
    assert more == [{"CURRKEY": "CLP", "CURRDEC": "0"}, {"CURRKEY": "TND", "CURRDEC": "3"}]


def test_orders_in_a_currency_come_before_its_decimals() -> None:
    assert latest("lines", "200", "0000050003", "000010")["WAERK"] == "CLP"
    assert "CLP" not in (LANDING / "currencies" / "0001" / "part-0001.csv").read_text()


# --- what follows from all of it


def test_the_golden_revenue_follows_from_the_files() -> None:
    with GOLDEN_REVENUE.open(encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["client_id", "revenue_month", "currency", "revenue_amount", "line_count", "order_count"]
    assert rows == revenue_by_month()
