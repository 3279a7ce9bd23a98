"""The landing area of the demonstration: a small, invented SAP system, delivered as a replication tool would.

Makes ``data/landing``: ``feeds.toml`` and four feeds, KNA1, VBAK and VBAP in five deliveries, TCURX in three.
Customers, orders and what happened to them are declared below; the files follow from them without chance and without a
clock, so the same code writes the same bytes.

    python data/generate.py           rewrites data/landing; a file there that is not made here is removed
    python data/generate.py --check   writes nothing; exits 1 and names the files that differ

What does not belong here: rules of the warehouse (nothing is imported from it, and no amount is calculated for it),
real companies or people, and volume: tests that need many rows make their own.
"""

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Final

Row = dict[str, str]
Key = tuple[str, ...]

LANDING: Final = Path(__file__).resolve().parent / "landing"

# A delivery holds what happened since the one before, up to 06:00 UTC of its day.
INITIAL: Final = "initial"
INITIAL_AT: Final = "2026-01-20T04:00"
FEBRUARY: Final = "delta/20260205"
MARCH: Final = "delta/20260310"
APRIL: Final = "delta/20260408"
MAY: Final = "delta/20260504"
CUT_AT: Final[Mapping[str, str]] = {
    INITIAL: INITIAL_AT,
    FEBRUARY: "2026-02-05T06:00",
    MARCH: "2026-03-10T06:00",
    APRIL: "2026-04-08T06:00",
    MAY: "2026-05-04T06:00",
}

# Codes of SAP Datasphere replication flows.
LOADED: Final = "L"
INSERTED: Final = "I"
UPDATED: Final = "U"
UPSERTED: Final = "A"
BEFORE: Final = "B"
DELETED_KEY_ONLY: Final = "X"
DELETED: Final = "D"
ARCHIVED: Final = "M"
TOOL_COLUMNS: Final = ("__operation_type", "__sequence_number", "__timestamp")

NO_DATE: Final = "00000000"
CENT: Final = Decimal("0.01")
# Currencies of the orders that do not have two decimals; SAP stores all amounts as if they had.
DECIMALS: Final[Mapping[str, int]] = {"JPY": 0, "KWD": 3, "CLP": 0}


@dataclass(frozen=True, slots=True)
class Table:
    """A SAP table: its key and its other columns, in the order in which they are delivered."""

    key: str
    attributes: str

    @property
    def key_columns(self) -> list[str]:
        """The columns that identify a row."""
        return self.key.split()

    @property
    def columns(self) -> list[str]:
        """All columns, the key first."""
        return self.key_columns + self.attributes.split()


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one row: when it happened, and the fields that it set; the others stay as they were.

    It comes with the first delivery after it happened, unless `delivery` names another, and once more in `again`.
    With `before`, the image before the change is delivered too. `delivered_as` is what the file says instead.
    """

    at: str
    key: Key
    fields: Row = field(default_factory=dict)
    operation: str = UPDATED
    delivery: str = ""
    again: str = ""
    before: bool = False
    delivered_as: Row = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Product:
    """What can be ordered. Prices are per `per` units, in EUR and in USD."""

    number: str
    text: str
    group: str
    unit: str
    eur: str
    usd: str
    per: int = 1


@dataclass(frozen=True, slots=True)
class Category:
    """What a document category (VBTYP) brings with it."""

    order_type: str
    item_category: str
    is_return: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """One sales document as it was created: a line of `ORDERS`."""

    client: str
    number: str
    created: str
    category: str
    customer: str
    currency: str
    items: str

    @property
    def name(self) -> str:
        """How the order is called in this file."""
        return f"{self.client} {self.number}"


KNA1: Final = Table(
    key="MANDT KUNNR",
    attributes="NAME1 NAME2 STRAS ORT01 PSTLZ REGIO LAND1 SPRAS KTOKD TELF1 STCEG LOEVM CVP_XBLCK ERDAT ERNAM",
)
VBAK: Final = Table(
    key="MANDT VBELN",
    attributes="ERDAT ERZET ERNAM AUDAT VBTYP AUART VKORG VTWEG SPART KUNNR NETWR WAERK BSTNK GBSTK AEDAT UPD_TMSTMP",
)
VBAP: Final = Table(
    key="MANDT VBELN POSNR",
    attributes="MATNR ARKTX MATKL PSTYV KWMENG VRKME NETPR KPEIN KMEIN NETWR WAERK ABGRU SHKZG KOWRR UEPOS WERKS "
    "GBSTA ERDAT AEDAT",
)

FEEDS_TOML: Final = """\
# What each folder beside this file holds. Deliveries are the folders below it; their names sort in time.
# Not needed here: `sequence` (profile plain only: the column that orders the changes), `rename` (delivered name =
# SAP name) and `constants` (fields that every row of the feed has, for example MANDT).

[feeds.customers]
table = "KNA1"                  # customer master
profile = "replication_flow"    # operation in __operation_type, order by __timestamp
format = "csv"                  # first line: column names
delimiter = ","                 # one character
encoding = "utf-8"              # names have umlauts
decimal = "point"               # 1234.56, a minus may come last
date_format = "yyyyMMdd"        # 00000000 is no date
amounts = "internal"            # as SAP stores them: shifted by TCURX

[feeds.orders]
table = "VBAK"                  # sales document headers
profile = "replication_flow"    # as customers
format = "csv"                  # first line: column names
delimiter = ","                 # values that hold one are quoted
encoding = "utf-8"              # as customers
decimal = "point"               # as customers
date_format = "yyyyMMdd"        # as customers
amounts = "internal"            # 30,000 JPY is written 300.00

[feeds.lines]
table = "VBAP"                  # sales document items
profile = "replication_flow"    # as customers
format = "jsonl"                # one object a line, every value a string
encoding = "utf-8"              # as customers
decimal = "point"               # a discount is written 25.00-
date_format = "yyyyMMdd"        # as customers
amounts = "internal"            # 12.345 KWD is written 123.45

[feeds.currencies]
table = "TCURX"                 # decimals of the currencies that do not have two
profile = "plain"               # no operation: every row is what holds now; order by delivery, file and row
format = "csv"                  # first line: column names
delimiter = ";"                 # the other feeds have a comma
encoding = "utf-8"              # as customers
decimal = "point"               # as customers
date_format = "yyyyMMdd"        # TCURX has no dates
amounts = "internal"            # TCURX has no amounts
"""

# CLP comes long after the first orders in CLP.
CURRENCIES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "0001": (("JPY", "0"), ("KWD", "3")),
    "0002": (("JPY", "0"), ("KWD", "3")),
    "0003": (("CLP", "0"), ("TND", "3")),
}

# Client 100 is a wholesaler in Germany, client 200 its sister in America. The same number is not the same customer.
CUSTOMERS: Final = """
100|0000100001|Nordwind Fahrrad GmbH||Hafenallee 12|Kiel|24103|01|DE|D|0001|+49 000 100001|DE000100001
100|0000100002|Zweirad Grünspecht e.K.|Inh. Jörg Grünspecht|Mühlgasse 3|Füssen|87629|09|DE|D|0001|+49 000 100002|
100|0000100003|Küstenspeiche OHG||Am Strande 7|Rostock|18055|13|DE|D|0001|+49 000 100003|DE000100003
100|0000100004|Pedalfuchs Handels AG||Domstraße 81|Köln|50668|05|DE|D|0001|+49 000 100004|DE000100004
100|0000100005|Speichenmühle & Söhne KG|Großhandel, Werkstatt|Neißeufer 4|Görlitz|02826|14|DE|D|0001|+49 000 100005|
100|0000100006|Kaminari Ringu K.K.||Sakae 9-9-9|Nagoya|460-0008|23|JP|J|0002|+81 000 100006|
100|0000100007|Zahrat Wheels W.L.L.||Block 99, Street 999|Kuwait City|||KW|E|0002|+965 000 100007|
100|0000100008|Sattelzauber Vertriebs GmbH||Donaulände 55|Linz|4020|OÖ|AT|D|0001|+43 000 100008|ATU00010008
100|MESSE01|Messekasse Radtage||Halle 7|Friedrichshafen|88046|08|DE|D|CPD||
200|0000100001|Bluestem Crank Company||999 Prairie Road|Omaha|68102|NE|US|E|0001|+1 000 100001|
200|0000100002|Lupine Spoke Works LLC||77 Harbor Lane|Duluth|55802|MN|US|E|0001|+1 000 100002|
200|0000100003|Ciclos Arrayán SpA|Taller y tienda|Avenida del Río 1234|Valdivia|5090000|14|CL|S|0001|+56 000 100003|
"""
PRIVATE_CUSTOMER: Final = (
    "100|0000100009|Änne Tölzig-Immergrün||Weinbergweg 2 b|Weißenfels|06667|15|DE|D|0003|+49 000 100009|"
)
PRODUCTS: Final[Mapping[str, Product]] = {
    # Numeric material numbers are padded to 18 digits, others stay as they are, lower case included.
    "CITY-28": Product("CITY-28", 'Stadtrad 28", 7 Gänge', "RAD", "ST", eur="549.00", usd="599.00"),
    "TREK-27": Product("TREK-27", "Trekkingrad 27 Gänge", "RAD", "ST", eur="899.00", usd="979.00"),
    "KID-20": Product("KID-20", "Kinderrad 20 Zoll, grün", "RAD", "ST", eur="249.00", usd="279.00"),
    "4711": Product("000000000000004711", "Schlauch 28 Zoll", "TEIL", "ST", eur="5.90", usd="6.50"),
    "4712": Product("000000000000004712", "Kette 8-fach", "TEIL", "ST", eur="17.50", usd="19.00"),
    "4720": Product("000000000000004720", "Speiche 262 mm", "TEIL", "ST", eur="38.00", usd="41.00", per=100),
    "BELL-CU": Product("BELL-CU", "Klingel Kupfer", "ZUBEHOER", "ST", eur="12.50", usd="13.90"),
    "LOCK-90": Product("LOCK-90", "Faltschloss 90 cm", "ZUBEHOER", "ST", eur="64.90", usd="69.90"),
    "Pump-7b": Product("Pump-7b", "Standpumpe 7 bar", "ZUBEHOER", "ST", eur="34.90", usd="37.90"),
    "SERV-MT": Product("SERV-MT", "Endmontage je Stunde", "DIENST", "STD", eur="48.00", usd="52.00"),
    "DISC": Product("DISC", "Treuerabatt", "RABATT", "ST", eur="-25.00", usd="-25.00"),
}

CATEGORIES: Final[Mapping[str, Category]] = {
    "B": Category("AG", "AGN"),  # quotation
    "C": Category("TA", "TAN"),  # order
    "H": Category("RE", "REN", is_return="X"),  # returns: amounts are stored positive
    "I": Category("KL", "KLN"),  # free of charge
    "K": Category("G2", "G2N"),  # credit memo request
    "L": Category("L2", "L2N"),  # debit memo request
}

# client|number|created on|category|customer|currency|items, each <product>*<quantity> or <product>*<quantity>@<price>
ORDERS: Final = """
100|50001|20260105|C|0000100001|EUR|CITY-28*2 4711*10 BELL-CU*5
100|50002|20260107|C|100001|EUR|TREK-27*1 LOCK-90*1
100|50003|20260108|C|0000100002|EUR|KID-20*3 BELL-CU*3 4712*6
100|50004|20260109|C|0000100003|EUR|CITY-28*1 4711*4 DISC*1
100|50005|20260112|C|0000100004|EUR|4720*400 4712*20
100|50006|20260113|C|0000100006|JPY|LOCK-90*2@15000 4711*40@650
100|50007|20260114|C|0000100007|KWD|LOCK-90*1@12.345 CITY-28*2@168.500
100|50008|20260115|B|0000100001|EUR|TREK-27*10 SERV-MT*5
100|50009|20260116|C|0000100005|EUR|KID-20*2 LOCK-90*2 Pump-7b*1
100|50010|20260116|C|MESSE01|EUR|BELL-CU*25 Pump-7b*4
100|50011|20260119|C|0000100008|EUR|CITY-28*4 TREK-27*2 SERV-MT*6.5
100|50012|20260121|C|100002|EUR|TREK-27*1 4711*6 BELL-CU*2
100|50013|20260122|H|0000100001|EUR|CITY-28*1 4711*2
100|50014|20260126|C|0000100009|EUR|CITY-28*1 LOCK-90*1 SERV-MT*1.5
100|50015|20260128|C|0000100006|JPY|LOCK-90*4@15000 Pump-7b*6@5200
100|50016|20260202|C|0000100003|EUR|TREK-27*1 4712*8 4711*20
100|50017|20260204|C|0000100004|EUR|CITY-28*2 Pump-7b*2
100|50018|20260210|K|0000100003|EUR|CITY-28*1@80.00 Pump-7b*1
100|50019|20260216|L|0000100001|EUR|SERV-MT*2 4712*1
100|50020|20260218|C|0000100007|KWD|TREK-27*1@275.250 4711*30@1.805
100|50021|20260219|C|0000199999|EUR|KID-20*1 BELL-CU*1
100|50022|20260225|C|0000100005|EUR|4712*4 4711*8
100|50023|20260227|C|0000100002|EUR|4720*300 Pump-7b*2 LOCK-90*1
100|50024|20260303|C|0000100001|USD|BELL-CU*10 LOCK-90*5 4711*20
100|50025|20260306|C|0000100008|EUR|CITY-28*2 KID-20*2 DISC*1 SERV-MT*4
100|50026|20260309|I|0000100001|EUR|BELL-CU*2@0.00 4711*2@0.00
100|50027|20260312|C|0000100002|EUR|CITY-28*1 4711*10 4712*2 BELL-CU*1
100|50028|20260317|C|0000100006|JPY|TREK-27*1@148000 BELL-CU*12@1980
100|50029|20260323|C|0000100001|EUR|KID-20*6 LOCK-90*6 BELL-CU*1@0.00
100|50030|20260330|C|0000100005|EUR|TREK-27*1 Pump-7b*1
100|50031|20260401|C|0000100003|EUR|4711*50 4712*10
100|50032|20260402|C|0000100007|KWD|CITY-28*1@168.500 SERV-MT*3@11.375
100|50033|20260414|C|0000100001|EUR|CITY-28*3 4711*15 SERV-MT*3
100|50034|20260421|C|0000100003|EUR|KID-20*1 BELL-CU*1 LOCK-90*1
200|50001|20260106|C|0000100001|USD|TREK-27*2 4711*12
200|50002|20260109|C|100002|USD|CITY-28*3 LOCK-90*3 BELL-CU*3
200|50003|20260115|C|0000100003|CLP|KID-20*2@245000 4712*10@16900
200|50004|20260119|C|0000100001|EUR|4720*250 4712*5
200|50005|20260123|C|0000100002|USD|KID-20*4 BELL-CU*4 SERV-MT*2
200|50006|20260203|C|0000100003|CLP|CITY-28*1@540000 4711*10@5900
200|50007|20260212|C|0000100001|USD|TREK-27*1 CITY-28*1 Pump-7b*2
200|50008|20260304|C|0000100003|EUR|4712*12 4720*100
200|50009|20260319|C|100002|USD|CITY-28*2 SERV-MT*2 4711*4
200|50010|20260325|H|0000100002|USD|CITY-28*1
200|50011|20260406|C|0000100001|USD|4720*500 Pump-7b*1
200|50012|20260416|C|0000100003|CLP|TREK-27*1@879000 BELL-CU*3@12400
"""

# What is special about single orders and lines when they are created.
HEADER_FIELDS: Final[Mapping[str, Row]] = {
    "100 50010": {"ERZET": "240000"},
    "100 50011": {"BSTNK": 'Tor 2, "Nord"'},
    "100 50031": {"AUDAT": NO_DATE},
    "200 50004": {"NETWR": "180.00"},  # the one total that is not the sum of its items
}
LINE_FIELDS: Final[Mapping[str, Row]] = {
    "100 50023 20": {"KPEIN": "0"},
    "100 50024 10": {"WAERK": ""},  # has the currency of its header
    "100 50029 30": {"PSTYV": "TANN", "UEPOS": "000010"},  # free goods that belong to item 10
}
BROKEN_LINES: Final[Mapping[str, Row]] = {"100 50016 20": {"NETWR": "ABC"}}
LATE_HEADERS: Final[Mapping[str, str]] = {"100 50017": MARCH, "100 50024": APRIL}


def orders() -> list[Order]:
    """List the orders as they were created."""
    return [Order(*line.split("|")) for line in ORDERS.strip().splitlines()]


def customer(line: str) -> tuple[Key, Row]:
    """Read key and fields of a customer from a line of `CUSTOMERS`."""
    client, number, *values = line.split("|")
    written = KNA1.attributes.split()[: len(values)]
    return (client, number), dict(zip(written, values, strict=True)) | {"ERDAT": "20190401", "ERNAM": "U1001"}


def customer_changes() -> list[Change]:
    """List what happened to the customers."""
    customers = dict(customer(line) for line in CUSTOMERS.strip().splitlines())
    key_of_private, private = customer(PRIVATE_CUSTOMER)
    loaded = [Change(INITIAL_AT, key, fields, LOADED) for key, fields in customers.items()]
    recreated = ("100", "0000100005")
    happened = [
        Change("2026-01-25T11:20", key_of_private, private | {"ERDAT": "20260125"}, INSERTED),
        # A -> B -> A: away in January, back in March.
        Change("2026-01-28T08:05", ("100", "0000100002"), _address("Iller 9", "Kempten", "87435")),
        Change("2026-03-03T09:40", ("100", "0000100002"), _address("Mühlgasse 3", "Füssen", "87629")),
        # Moves; the replication tool delivers this change a second time in March.
        Change("2026-02-02T09:00", ("100", "0000100001"), _address("Kai 5", "Lübeck", "23552"), again=MARCH),
        # Two moves in two days; the first is delivered a month after the second.
        Change("2026-02-03T14:30", ("100", "0000100003"), _address("Speicher 1", "Wismar", "23966"), delivery=MARCH),
        Change("2026-02-04T10:00", ("100", "0000100003"), _address("Sundweg 8", "Stralsund", "18439")),
        # Deleted in February, created again in March with the same attributes.
        Change("2026-02-12T16:45", recreated, operation=DELETED_KEY_ONLY),
        Change("2026-03-05T08:15", recreated, customers[recreated] | {"ERDAT": "20260305"}, INSERTED),
        # Nothing that the warehouse tracks: another user as the creator.
        Change("2026-02-17T12:00", ("100", "0000100008"), {"ERNAM": "U1002"}),
        Change("2026-02-26T15:10", ("200", "0000100002"), {"STRAS": "12 Aerial Lift Square"}),
        Change("2026-03-11T13:25", ("200", "0000100001"), _address("4 Sandhill Lane", "Lincoln", "68508")),
        # Deleted for good.
        Change("2026-03-12T17:00", ("100", "0000100004"), operation=DELETED_KEY_ONLY),
        Change("2026-03-25T02:30", ("100", "0000100006"), {"STRAS": "Sakae 1-1-1"}, UPSERTED),
        # A deletion flag and a data protection block are changes, not deletions.
        Change("2026-04-02T09:30", ("100", "MESSE01"), {"LOEVM": "X"}),
        Change("2026-04-15T10:50", key_of_private, {"CVP_XBLCK": "X"}),
    ]
    return loaded + happened


def line_changes() -> list[Change]:
    """List what happened to the order lines: all orders as they were created, then what was changed later."""
    created = [change for order in orders() for change in _created_lines(order)]
    happened = [
        _line("2026-01-27T10:15", "100 50001 10", {"KWMENG": "3.000", "NETWR": "1647.00"}, before=True),
        # Two changes in four days; the first is delivered a month after the second.
        _line("2026-02-01T18:20", "200 50002 10", {"KWMENG": "4.000", "NETWR": "2396.00"}, delivery=MARCH),
        _line("2026-02-04T09:10", "200 50002 10", {"KWMENG": "2.000", "NETWR": "1198.00"}),
        _line("2026-02-02T11:30", "100 50003 20", {"NETPR": "11.90", "NETWR": "35.70"}),
        # The replication tool delivers this change a second time in March.
        _line("2026-02-03T08:45", "100 50014 10", {"NETPR": "529.00", "NETWR": "529.00"}, again=MARCH),
        # The amount that came as ABC in February, sent again in a readable form.
        _line("2026-02-09T07:55", "100 50016 20", {}),
        # Rejected in February; the first is wanted again in March, the second never.
        _line("2026-02-10T13:00", "100 50005 20", {"ABGRU": "91", "GBSTA": "C"}),
        _line("2026-03-20T10:10", "100 50005 20", {"ABGRU": "", "GBSTA": "A"}),
        _line("2026-02-11T14:05", "100 50009 20", {"ABGRU": "50", "GBSTA": "C"}),
        # Deleted: once with nothing but the key, once with the last image.
        _line("2026-02-24T09:35", "100 50012 30", {}, operation=DELETED_KEY_ONLY),
        _line("2026-03-16T15:45", "200 50005 20", {}, operation=DELETED),
        _line("2026-03-11T08:20", "100 50025 10", {"KWMENG": "3.000", "NETWR": "1647.00"}),
        _line("2026-03-24T05:00", "100 50015 10", {"NETPR": "145.00", "NETWR": "580.00"}, operation=UPSERTED),
        # Created and changed twice within one delivery.
        _line("2026-03-25T09:00", "100 50029 10", {"KWMENG": "5.000", "NETWR": "1245.00"}),
        _line("2026-03-27T16:40", "100 50029 10", {"KWMENG": "4.000", "NETWR": "996.00"}),
        _line("2026-04-20T22:00", "100 50002 10", {}, operation=ARCHIVED),
        _line("2026-04-20T22:00", "100 50002 20", {}, operation=ARCHIVED),
    ]
    return created + happened


def header_changes(lines: list[Change]) -> list[Change]:
    """List what happened to the order headers.

    They are created with their lines, follow every later change of a line (total and time of change), and change by
    themselves.
    """
    created = [_created_header(order, lines) for order in orders()]
    followed = [
        _header(line.at, line.key[:2], {"NETWR": _total(lines, line.key[:2], line.at)}, delivery=line.delivery)
        for line in lines
        if line.operation not in {LOADED, INSERTED, ARCHIVED}
    ]
    happened = [
        # The sale at the fair was on account of a known customer: the lines move to it although none changed.
        _header("2026-03-18T11:11", _order_key("100", "50010"), {"KUNNR": "0000100001"}),
        # Back-dated into the month before.
        _header("2026-04-06T10:20", _order_key("100", "50032"), {"AUDAT": "20260331"}),
        Change("2026-04-20T22:00", _order_key("100", "50002"), operation=ARCHIVED),
    ]
    return created + followed + happened


def deliver(table: Table, changes: Iterable[Change]) -> dict[str, list[Row]]:
    """List the rows of every delivery, in the order in which the changes happened."""
    images: dict[Key, Row] = {}
    deliveries: dict[str, list[Row]] = {delivery: [] for delivery in CUT_AT}
    for change in sorted(changes, key=lambda change: (change.at, change.key)):
        key_only = dict.fromkeys(table.columns, "") | dict(zip(table.key_columns, change.key, strict=True))
        old = images.get(change.key, key_only)
        new = old | change.fields
        images[change.key] = new
        delivered = key_only if change.operation == DELETED_KEY_ONLY else new
        rows = [_with_tool_columns(delivered | change.delivered_as, change.operation, change.at)]
        if change.before:
            rows.insert(0, _with_tool_columns(old, BEFORE, change.at))
        for delivery in filter(None, (change.delivery or first_delivery_after(change.at), change.again)):
            deliveries[delivery].extend(rows)
    return deliveries


def first_delivery_after(at: str) -> str:
    """Name the delivery that holds what happened at this time."""
    return next(delivery for delivery, cut_at in CUT_AT.items() if at <= cut_at)


def stored(amount: Decimal, currency: str) -> str:
    """Write an amount as SAP stores it: two decimals whatever the currency, the minus behind."""
    shifted = amount.scaleb(DECIMALS.get(currency, 2) - 2).quantize(CENT)
    return f"{abs(shifted)}-" if shifted < 0 else f"{shifted}"


def read_stored(text: str) -> Decimal:
    """Read a stored amount, still with two decimals."""
    return -Decimal(text.removesuffix("-")) if text.endswith("-") else Decimal(text)


def landing_files() -> dict[str, str]:
    """Make every file of the landing area: its path below `data/landing`, and its text."""
    lines = line_changes()
    files = {"feeds.toml": FEEDS_TOML}
    for delivery, rows in deliver(KNA1, customer_changes()).items():
        files[f"customers/{delivery}/part-0001.csv"] = as_csv(rows, delimiter=",")
    for delivery, rows in deliver(VBAK, header_changes(lines)).items():
        files[f"orders/{delivery}/part-0001.csv"] = as_csv(rows, delimiter=",")
    for delivery, rows in deliver(VBAP, lines).items():
        files[f"lines/{delivery}/part-0001.jsonl"] = as_json_lines(rows)
    for delivery, currencies in CURRENCIES.items():
        rows = [{"CURRKEY": currency, "CURRDEC": decimals} for currency, decimals in currencies]
        files[f"currencies/{delivery}/part-0001.csv"] = as_csv(rows, delimiter=";")
    # An initial load counts only once its marker is there.
    return files | {f"{feed}/{INITIAL}/_SUCCESS": "" for feed in ("customers", "orders", "lines")}


def as_csv(rows: list[Row], *, delimiter: str) -> str:
    """Write rows below a line of column names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_json_lines(rows: list[Row]) -> str:
    """Write one JSON object a line."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def differences(landing: Path, files: Mapping[str, str]) -> list[str]:
    """List the paths, below `landing`, of files that are missing, differ, or are not among `files`."""
    surplus = found_in(landing) - files.keys()
    return sorted(surplus | {path for path, text in files.items() if not _is_written(landing / path, text)})


def found_in(landing: Path) -> set[str]:
    """List the paths of all files below `landing`."""
    return {path.relative_to(landing).as_posix() for path in landing.rglob("*") if path.is_file()}


def write(landing: Path, files: Mapping[str, str]) -> None:
    """Make `landing` hold exactly `files`."""
    for path in sorted(found_in(landing) - files.keys()):
        (landing / path).unlink()
        sys.stdout.write(f"removed {path}\n")
    for path, text in files.items():
        (landing / path).parent.mkdir(parents=True, exist_ok=True)
        (landing / path).write_bytes(text.encode())


def main(arguments: list[str]) -> int:
    """Write the landing area, or with ``--check`` tell whether it is as written."""
    parser = argparse.ArgumentParser(description="Write data/landing, the landing area of the demonstration.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the files are not as written")
    files = landing_files()
    if not parser.parse_args(arguments).check:
        write(LANDING, files)
        sys.stdout.write(f"{len(files)} files in {LANDING}\n")
        return 0
    different = differences(LANDING, files)
    if different:
        sys.stdout.write(f"not what data/generate.py writes: {', '.join(different)}\n")
    return 1 if different else 0


def _address(street: str, city: str, postal_code: str) -> Row:
    return {"STRAS": street, "ORT01": city, "PSTLZ": postal_code}


def _order_key(client: str, number: str) -> Key:
    return client, number.zfill(10)


def _line_key(line: str) -> Key:
    client, number, item = line.split()
    return *_order_key(client, number), item.zfill(6)


def _line(
    at: str,
    line: str,
    fields: Row,
    *,
    operation: str = UPDATED,
    delivery: str = "",
    again: str = "",
    before: bool = False,
) -> Change:
    """Make a change of the line that is written `<client> <order> <item>`."""
    changed = fields if operation == ARCHIVED else fields | {"AEDAT": _date(at)}
    return Change(at, _line_key(line), changed, operation, delivery, again, before)


def _header(at: str, key: Key, fields: Row, *, delivery: str = "") -> Change:
    """Make a change of an order header, which says itself when it was changed."""
    changed_at = f"{_date(at)}{at[11:13]}{at[14:16]}00.0000000"
    return Change(at, key, fields | {"AEDAT": _date(at), "UPD_TMSTMP": changed_at}, delivery=delivery)


def _created_lines(order: Order) -> list[Change]:
    at, operation = _created(order)
    names = [f"{order.name} {position * 10}" for position, _ in enumerate(order.items.split(), start=1)]
    return [
        Change(
            at,
            _line_key(name),
            _item(order, item, operation) | LINE_FIELDS.get(name, {}),
            operation,
            delivered_as=BROKEN_LINES.get(name, {}),
        )
        for name, item in zip(names, order.items.split(), strict=True)
    ]


def _item(order: Order, item: str, operation: str) -> Row:
    """Make the fields of an item that is written `<product>*<quantity>`, or `<product>*<quantity>@<price>`."""
    wanted, _, special_price = item.partition("@")
    name, _, quantity = wanted.partition("*")
    product = PRODUCTS[name]
    price = Decimal(special_price or (product.usd if order.currency == "USD" else product.eur))
    category = CATEGORIES[order.category]
    return {
        "MATNR": product.number,
        "ARKTX": product.text,
        "MATKL": product.group,
        "PSTYV": category.item_category,
        "KWMENG": f"{Decimal(quantity):.3f}",
        "VRKME": product.unit,
        "NETPR": stored(price, order.currency),
        "KPEIN": str(product.per),
        "KMEIN": product.unit,
        "NETWR": stored(Decimal(quantity) * price / product.per, order.currency),
        "WAERK": order.currency,
        "SHKZG": category.is_return,
        "UEPOS": "000000",
        "WERKS": f"{order.client[0]}000",
        "GBSTA": "C" if operation == LOADED else "A",
        "ERDAT": order.created,
        "AEDAT": NO_DATE,
    }


def _created_header(order: Order, lines: list[Change]) -> Change:
    at, operation = _created(order)
    key = _order_key(order.client, order.number)
    fields = {
        "ERDAT": order.created,
        "ERZET": _time(order),
        "ERNAM": f"U{order.client}{int(order.number) % 3 + 1}",
        "AUDAT": order.created,
        "VBTYP": order.category,
        "AUART": CATEGORIES[order.category].order_type,
        "VKORG": f"{order.client[0]}000",
        "VTWEG": "10",
        "SPART": "00",
        "KUNNR": order.customer,
        "NETWR": _total(lines, key, at),
        "WAERK": order.currency,
        "BSTNK": f"PO-{order.number}",
        "GBSTK": "C" if operation == LOADED else "A",
        "AEDAT": NO_DATE,
        "UPD_TMSTMP": f"{order.created}{_time(order)}.0000000",
    }
    return Change(at, key, fields | HEADER_FIELDS.get(order.name, {}), operation, LATE_HEADERS.get(order.name, ""))


def _created(order: Order) -> tuple[str, str]:
    """Tell when the replication tool saw an order created, and as which operation."""
    day, time = order.created, _time(order)
    at = f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}"
    return (INITIAL_AT, LOADED) if at <= INITIAL_AT else (at, INSERTED)


def _time(order: Order) -> str:
    """Take a time in office hours, different from order to order."""
    number = int(order.number)
    return f"{8 + number % 9:02}{number * 7 % 60:02}00"


def _date(at: str) -> str:
    return at[:10].replace("-", "")


def _total(lines: list[Change], order: Key, at: str) -> str:
    """Add up the stored total of an order at this time: all items but the deleted, rejected and statistical ones."""
    images: dict[Key, Row] = {}
    for line in sorted(lines, key=lambda line: line.at):
        if line.key[:2] == order and line.at <= at:
            is_deleted = line.operation in {DELETED, DELETED_KEY_ONLY}
            images[line.key] = {} if is_deleted else images.get(line.key, {}) | line.fields
    counted = [row for row in images.values() if row and not row.get("ABGRU") and not row.get("KOWRR")]
    # The values are stored ones already, so they are added as if all currencies had two decimals.
    return stored(sum((read_stored(row["NETWR"]) for row in counted), start=Decimal(0)), "EUR")


def _with_tool_columns(row: Row, operation: str, at: str) -> Row:
    return row | dict(zip(TOOL_COLUMNS, (operation, "", f"{at}:00.000000Z"), strict=True))


def _is_written(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
