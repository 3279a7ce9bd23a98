"""Random histories of SAP rows, and what has to become of them: a fold in plain Python. No test here.

The fold is written from the rules, not from the package, and uses neither Spark nor any module of `dwh_pipeline`. Two
changes at one time with different content are decided by a hash that only the warehouse knows: so such a key has more
than one possible outcome, and the fold gives all of them.

Values are texts, as Spark writes them: `true`, `12.50000`, `2026-01-31 00:00:00`; None is NULL.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product

Row = dict[str, str | None]
Key = tuple[str, ...]
Values = tuple[str, ...]

KEYS = {"KNA1": ("KUNNR",), "VBAK": ("VBELN",), "VBAP": ("VBELN", "POSNR")}
FIELDS = {
    "KNA1": ("NAME1", "ORT01", "LOEVM", "ERNAM"),
    "VBAK": ("AUDAT", "VBTYP", "KUNNR", "WAERK", "NETWR"),
    "VBAP": ("MATNR", "KWMENG", "VRKME", "NETPR", "KPEIN", "NETWR", "WAERK", "ABGRU", "SHKZG", "GBSTA"),
}
MOST_ROWS = 4  # of one key
DAWN = "1900-01-01 00:00:00"
_START = datetime(2026, 1, 1, tzinfo=UTC)
_END = datetime(2026, 12, 1, tzinfo=UTC)
_MIDNIGHTS = (60, 120)  # days after the start
_DELETES, _BEFORE_IMAGE = ("D", "R"), "X"
_SIGNS = {"C": 1, "I": 1, "L": 1, "H": -1, "K": -1}
_LENGTHS = {"KUNNR": 10, "VBELN": 10, "POSNR": 6}


@dataclass(frozen=True)
class Change:
    """One delivered row. `spelled` is the key as the file has it, with or without zeros in front."""

    at: datetime
    operation: str  # 0RECORDMODE
    spelled: Key
    values: Values

    @property
    def sequence(self) -> str:
        """The time of the change, as the feed delivers it."""
        return f"{self.at:%Y%m%d%H%M%S}"


@dataclass(frozen=True)
class Histories:
    """The changes of every key of every table, in the order in which they happen to arrive."""

    changes: dict[str, dict[Key, list[Change]]]
    decimals: list[tuple[str, str, datetime]]  # TCURX: currency, CURRDEC, time

    @property
    def keys(self) -> int:
        """How many keys have a history."""
        return sum(len(keys) for keys in self.changes.values())

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return sum(len(changes) for keys in self.changes.values() for changes in keys.values())


# ---------------------------------------------------------------------------------------------------------- generator


def random_histories(seed: int, customers: int = 40, orders: int = 60, lines: int = 120) -> Histories:
    """Histories of customers, headers and lines; some headers and customers that others refer to are never there."""
    choice = random.Random(seed)  # noqa: S311
    customer_ids = [*(f"{1000 + n}" for n in range(customers - 1)), "Cust7"]
    order_ids = [f"{5000 + n}" for n in range(orders)]
    items: list[Key] = [(order, f"{10 * n}") for order in (*order_ids, "5900", "5901", "5902") for n in (1, 2, 3)]

    def header() -> Values:
        return _header(choice, choice.choice([*customer_ids, "9998", "9999"]))

    ids: dict[str, list[Key]] = {
        "KNA1": [(id_,) for id_ in customer_ids],
        "VBAK": [(id_,) for id_ in order_ids],
        "VBAP": choice.sample(items, lines),
    }
    contents: dict[str, Callable[[], Values]] = {
        "KNA1": lambda: _customer(choice),
        "VBAK": header,
        "VBAP": lambda: _line(choice),
    }
    changes = {
        table: {silver_key(table, key): _history(choice, table, key, contents[table]) for key in keys}
        for table, keys in ids.items()
    }
    decimals = [
        ("JPY", "2", _moment(choice)),
        ("JPY", "", _END),  # blank is 0
        ("KWD", "3", _moment(choice)),
        ("CLF", "1", _moment(choice)),
        ("CLF", "4", _END),
    ]
    return Histories(changes, decimals)


def silver_key(table: str, key: Key) -> Key:
    """The key with the zeros that belong in front of a number."""
    return tuple(_padded(part, _LENGTHS[name]) for name, part in zip(KEYS[table], key, strict=True))


def _history(choice: random.Random, table: str, key: Key, content: Callable[[], Values]) -> list[Change]:
    padded, blank = silver_key(table, key), ("",) * len(FIELDS[table])

    def change(at: datetime, operation: str, values: Values) -> Change:
        return Change(at, operation, choice.choice((key, padded)), values)

    changes: list[Change] = []
    values = content()
    only_deleted = choice.random() < 0.05
    for at in sorted({_moment(choice) for _ in range(choice.randint(1, 4))}):
        if only_deleted or choice.random() < 0.2:
            changes.append(change(at, choice.choice(_DELETES), choice.choice((blank, values))))
            if choice.random() < 0.3 and not only_deleted:  # a deletion wins over an upsert of the same time
                changes.append(change(at, "", content()))
            continue
        if changes and choice.random() < 0.2:
            changes.append(change(at, _BEFORE_IMAGE, values))
        values = values if choice.random() < 0.2 else content()  # a repeated value is no new version
        changes.append(change(at, choice.choice(("", "N")), values))
    upserts = [one for one in changes if one.operation in ("", "N")]
    if upserts and choice.random() < 0.3:
        changes.append(replace(choice.choice(upserts), values=content()))  # a tie
    if choice.random() < 0.4:
        changes.append(choice.choice(changes))  # delivered twice
    choice.shuffle(changes)
    return changes[:MOST_ROWS]


def _moment(choice: random.Random) -> datetime:
    """A second of the first half of 2026; often one of few midnights, where one day ends and the next begins."""
    if choice.random() < 0.3:
        return _START + timedelta(days=choice.choice(_MIDNIGHTS))
    return _START + timedelta(days=choice.randrange(180), seconds=choice.randrange(86400))


def _day(choice: random.Random) -> datetime:
    """A day of the first half of 2026, often the one that ends with such a midnight."""
    days = choice.choice(_MIDNIGHTS) - 1 if choice.random() < 0.3 else choice.randrange(180)
    return _START + timedelta(days=days)


def _customer(choice: random.Random) -> Values:
    return (
        choice.choice(("Alpha", "Beta ", "Gamma AG", "", "  ")),
        choice.choice(("Ulm", "Bonn", "Kiel", "")),
        choice.choice(("", "", "", "X")),
        choice.choice(("MEIER", "SCHULZ")),
    )


def _header(choice: random.Random, customer: str) -> Values:
    day = _day(choice)
    return (
        choice.choice((f"{day:%Y%m%d}",) * 8 + ("00000000", "")),
        choice.choice(("C",) * 8 + ("I", "L", "H", "H", "K", "B", "G", "ZZ", "")),
        choice.choice((customer, customer, customer, _padded(customer, 10), "")),
        choice.choice(("EUR", "EUR", "JPY", "KWD", "")),
        f"{choice.randrange(100000) / 100:.2f}",
    )


def _line(choice: random.Random) -> Values:
    return (
        choice.choice(("4711", "A-1", "000000000000004711", "")),
        choice.choice(("1", "2.500", "12.000", "3.000-", "")),
        choice.choice(("PC", "KG", "")),
        choice.choice(("150.00", "19.90", "")),
        choice.choice(("1", "10", "100", "0", "")),
        choice.choice((f"{choice.randrange(100000) / 100:.2f}",) * 8 + ("12.50-", "")),
        choice.choice(("EUR", "EUR", "eur", "JPY", "JPY", "KWD", "CLF", "USD", "")),
        choice.choice(("", "", "", "", "01")),
        choice.choice(("", "", "", "", "X")),
        choice.choice(("A", "B", "C", "")),
    )


# --------------------------------------------------------------------------------------------------------- the silver


def decimals_of(changes: Iterable[tuple[str, str, datetime]]) -> dict[str, int]:
    """The newest CURRDEC of every currency."""
    return {currency: int(text or "0") for currency, text, _ in sorted(changes, key=lambda change: change[2])}


def possible_customers(changes: Iterable[Change]) -> list[list[Row]]:
    """What the versions of a customer may be, one list for every way in which its ties may end."""
    moments = _moments(changes)
    contents: list[list[Values | None]] = [
        [None] if any(one.operation in _DELETES for one in same) else [*_contents(same)] for same in moments.values()
    ]
    return [_versions(list(moments), states) for states in product(*contents)]


def possible_rows(changes: Iterable[Change], row_of: Callable[[Values], Row]) -> list[Row | None]:
    """What the row of a header or line may be (`row_of` its values); None if there is nothing to make a row of."""
    moments = _moments(changes)
    if not moments:
        return [None]
    newest = max(moments)
    state: Row = {
        "is_deleted": _flag(any(one.operation in _DELETES for one in moments[newest])),
        "is_archived": "false",
        "change_seq": _change_seq(newest),
    }
    upserts = [contents for same in moments.values() if (contents := _contents(same))]
    return [{**row_of(values), **state} for values in upserts[-1]] if upserts else [dict(state)]


def _moments(changes: Iterable[Change]) -> dict[datetime, list[Change]]:
    """The changes that have an effect, by time, oldest first."""
    moments: dict[datetime, list[Change]] = {}
    for change in sorted(changes, key=lambda one: one.at):
        if change.operation != _BEFORE_IMAGE:
            moments.setdefault(change.at, []).append(change)
    return moments


def _contents(same: Iterable[Change]) -> list[Values]:
    return sorted({one.values for one in same if one.operation not in _DELETES})


def _versions(moments: list[datetime], states: tuple[Values | None, ...]) -> list[Row]:
    versions: list[Row] = []
    tracked: Row | None = None  # of the version that is open
    for at, values in zip(moments, states, strict=True):
        now = None if values is None else _tracked(values)
        if now == tracked:
            continue
        if tracked is not None:
            versions[-1] |= {"_tech_valid_to": _time(at), "_tech_is_current": "false"}
        if values is not None and now is not None:
            # Unless a deletion precedes it, the first version reaches back.
            versions.append(
                {
                    **now,
                    "created_by": _blank(values[3]),
                    "change_seq": _change_seq(at),
                    "_tech_valid_from": DAWN if at == moments[0] else _time(at),
                    "_tech_valid_to": None,
                    "_tech_is_current": "true",
                }
            )
        tracked = now
    return versions


def _tracked(values: Values) -> Row:
    name, city, deletion_flag, _ = values
    return {
        "customer_name": _blank(name),
        "city": _blank(city),
        "is_marked_for_deletion": _flag(deletion_flag == "X"),
    }


def header_row(values: Values, decimals: Mapping[str, int]) -> Row:
    """The values of a header."""
    day, category, customer, currency, net_value = values
    digits = decimals.get(currency, 2)
    return {
        "document_date": None if day in ("", "00000000") else f"{day[:4]}-{day[4:6]}-{day[6:]}",
        "document_category": _blank(category),
        "customer_id": _blank(_padded(customer, 10)),
        "currency": _blank(currency),
        "order_net_value": _decimal(_amount(net_value, digits), 5),
        "currency_decimals": str(digits),
    }


def line_row(values: Values, decimals: Mapping[str, int]) -> Row:
    """The values of a line, amounts in the decimals of the line's own currency."""
    material, quantity, unit, price, per, net_value, currency, rejected, returned, status = values
    digits = decimals.get(currency.upper(), 2)
    net_price, units = _amount(price, digits), int(per or "1") or 1
    return {
        "product_id": _blank(_padded(material, 18)),
        "quantity": _decimal(_amount(quantity, 2), 3),
        "quantity_unit": _blank(unit),
        "net_price": _decimal(net_price, 5),
        "price_unit_quantity": str(units),
        "unit_price": _decimal(None if net_price is None else net_price / units, 9),
        "line_net_value": _decimal(_amount(net_value, digits), 5),
        "currency": _blank(currency.upper()),
        "currency_decimals": str(digits),
        "rejection_reason_code": _blank(rejected),
        "is_return": _flag(returned == "X"),
        "status": _blank(status),
    }


# ----------------------------------------------------------------------------------------------------------- the gold


def fact(line: Row, header: Row | None, versions: list[Row]) -> Row:
    """The fact of a line that is not deleted, with its header (None: missing or deleted).

    `versions` are those of the header's customer. `customer_from` is the start of the version that the fact points to,
    None for the unknown member. A line without a currency has that of its header, and its decimals.
    """
    known: Row = header or {}
    category, day, currency = known.get("document_category"), known.get("document_date"), line["currency"]
    factor = Decimal(1)
    if currency is None and header is not None:
        currency = header["currency"]
        factor = Decimal(10) ** (2 - int(header["currency_decimals"] or "2"))
    net_value = _times(line["line_net_value"], factor)
    is_rejected = line["rejection_reason_code"] is not None
    is_return = line["is_return"] == "true" or _SIGNS.get(category or "") == -1
    counts = category in _SIGNS and not is_rejected
    revenue = (net_value or Decimal(0)) * (-1 if is_return else 1) if counts else Decimal(0)
    return {
        "customer_id": known.get("customer_id"),
        "customer_from": _in_effect(versions, day),
        "document_date": day,
        "document_category": category,
        **{name: line[name] for name in ("product_id", "quantity", "quantity_unit")},
        "unit_price": _decimal(_times(line["unit_price"], factor), 9),
        "line_net_value": _decimal(net_value, 5),
        "currency": currency,
        "revenue_amount": _decimal(revenue, 5),
        "is_rejected": _flag(is_rejected),
        "is_return": _flag(is_return),
    }


def months(facts: Mapping[Key, Row]) -> list[Row]:
    """Revenue, lines and orders by month and currency."""
    groups: dict[tuple[str | None, str | None], list[tuple[str, Decimal]]] = {}
    for (order, _), row in facts.items():
        day = row["document_date"]
        month = None if day is None else f"{day[:7]}-01"
        groups.setdefault((month, row["currency"]), []).append((order, Decimal(row["revenue_amount"] or "0")))
    return [
        {
            "revenue_month": month,
            "currency": currency,
            "revenue_amount": _decimal(sum((revenue for _, revenue in lines), Decimal(0)), 5),
            "line_count": str(len(lines)),
            "order_count": str(len({order for order, _ in lines})),
        }
        for (month, currency), lines in groups.items()
    ]


def _in_effect(versions: list[Row], day: str | None) -> str | None:
    """The start of the version in effect at the end of the day: what begins with the next day is not, yet."""
    if day is None:
        return None
    end = f"{date.fromisoformat(day) + timedelta(days=1)} 00:00:00"
    for row in versions:
        valid_from, valid_to = row["_tech_valid_from"] or "", row["_tech_valid_to"]
        if valid_from < end and (valid_to is None or end <= valid_to):
            return valid_from
    return None


# --------------------------------------------------------------------------------------------------------- the values


def _padded(text: str, length: int) -> str:
    return text.zfill(length) if text.isdigit() else text


def _blank(text: str) -> str | None:
    return text.rstrip() or None


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _change_seq(at: datetime) -> str:
    return f"{at:%Y%m%d%H%M%S}".zfill(20) + "0" * 9


def _amount(text: str, digits: int) -> Decimal | None:
    if not text:
        return None
    number = Decimal(f"-{text[:-1]}" if text.endswith("-") else text)
    return number * Decimal(10) ** (2 - digits)


def _times(text: str | None, factor: Decimal) -> Decimal | None:
    return None if text is None else Decimal(text) * factor


def _decimal(number: Decimal | None, places: int) -> str | None:
    return None if number is None else f"{number + 0:.{places}f}"
