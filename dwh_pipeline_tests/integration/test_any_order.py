"""The promise, end to end: however the same changes are cut, ordered and repeated, silver and gold are the same.

One lake carries all ways of delivering: each has a client of its own. At the end the clients have to be equal to each
other and to a fold in plain Python (`histories`).
"""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.loads import warehouse
from dwh_pipeline.tables import agg_revenue_month, customer, dim_customer, fct_order_line, sales_order, sales_order_line
from dwh_pipeline_tests.integration import histories
from dwh_pipeline_tests.integration.histories import Change, Histories, Key, Row
from dwh_pipeline_tests.warehouse import Warehouse, write_landing

SEEDS = (20260401,)
ROUNDS = histories.MOST_ROWS
GOLD_ROUND = 2  # gold is built once in between, and at the end
AT_ONCE, ROW_BY_ROW, RANDOM = "100", "200", ("300", "400", "500")
CLIENTS = (AT_ONCE, ROW_BY_ROW, *RANDOM)

FEEDS = (
    "".join(
        f'[feeds.{table.lower()}]\ntable = "{table}"\nprofile = "recordmode"\nsequence = "CHANGED"\n'
        for table in histories.KEYS
    )
    + '[feeds.tcurx]\ntable = "TCURX"\nsequence = "CHANGED"\n'
)
# The columns of silver that the fold knows, besides the key.
FOLDED = {
    customer.CONTRACT: (
        *("customer_name", "city", "is_marked_for_deletion", "created_by", "change_seq"),
        *("_tech_valid_from", "_tech_valid_to", "_tech_is_current"),
    ),
    sales_order.CONTRACT: (
        *("document_date", "document_category", "customer_id", "currency", "order_net_value", "currency_decimals"),
        *("is_deleted", "is_archived", "change_seq"),
    ),
    sales_order_line.CONTRACT: (
        *("product_id", "quantity", "quantity_unit", "net_price", "price_unit_quantity", "unit_price"),
        *("line_net_value", "currency", "currency_decimals", "rejection_reason_code", "is_return", "status"),
        *("is_deleted", "is_archived", "change_seq"),
    ),
}
TABLES = (*FOLDED, dim_customer.CONTRACT, fct_order_line.CONTRACT, agg_revenue_month.CONTRACT)


@dataclass
class Loaded:
    """A warehouse after all rounds, and what it holds: rows as texts, by table and client."""

    warehouse: Warehouse
    told: Histories
    seed: int
    delivered_rows: int = 0
    rows: dict[TableContract, dict[str, list[Row]]] = field(default_factory=dict)

    def of(self, contract: TableContract, client: str = AT_ONCE) -> list[Row]:
        return self.rows[contract].get(client, [])


def _rounds(told: Histories, choice: random.Random) -> list[dict[str, list[str]]]:
    """Per round: file below the landing area -> its lines."""
    files: list[dict[str, list[str]]] = [{} for _ in range(ROUNDS)]
    again = [choice.randrange(first, ROUNDS) for first in range(ROUNDS)]  # when a delivery comes a second time

    def put(round_: int, table: str, line: str, repeated: bool) -> None:
        files[round_].setdefault(f"{table.lower()}/{round_:02d}/part.csv", []).append(line)
        if repeated:
            name = f"{table.lower()}/{round_:02d}-again/part.csv"
            files[again[round_]].setdefault(name, []).append(line)

    for table, keys in told.changes.items():
        for changes in keys.values():
            for position, change in enumerate(changes):
                put(0, table, _line(AT_ONCE, change), repeated=False)
                put(position, table, _line(ROW_BY_ROW, change), repeated=False)
                for client in RANDOM:
                    put(choice.randrange(ROUNDS), table, _line(client, change), repeated=True)
    for currency, digits, at in told.decimals:  # never in the first round, so some amounts are derived again
        put(choice.randrange(1, ROUNDS), "TCURX", f"{currency},{digits},{at:%Y%m%d%H%M%S}", repeated=True)
    for round_ in files:
        for lines in round_.values():
            choice.shuffle(lines)
    return files


def _line(client: str, change: Change) -> str:
    return ",".join((client, *change.spelled, *change.values, change.operation, change.sequence))


def _header_of(file: str) -> str:
    table = file.partition("/")[0].upper()
    if table == "TCURX":
        return "CURRKEY,CURRDEC,CHANGED"
    return ",".join(("MANDT", *histories.KEYS[table], *histories.FIELDS[table], "0RECORDMODE", "CHANGED"))


def _collected(wh: Warehouse, contract: TableContract) -> dict[str, list[Row]]:
    table = wh.table(contract)
    rows: dict[str, list[Row]] = {}
    for row in table.select(*(F.col(name).cast("string") for name in table.columns)).collect():
        values = row.asDict()
        rows.setdefault(values.pop("client_id"), []).append(values)
    return rows


@pytest.fixture(scope="module", params=SEEDS, ids=lambda seed: f"seed {seed}")
def loaded(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """The warehouse after all rounds; only the last one and one in between build gold."""
    seed: int = request.param
    told = histories.random_histories(seed)
    root = tmp_path_factory.mktemp("any_order")
    wh = Warehouse(spark, root / "lake", root / "landing")
    (wh.landing / "tcurx").mkdir(parents=True)
    result = Loaded(wh, told, seed)
    for number, files in enumerate(_rounds(told, random.Random(seed + 1))):  # noqa: S311
        result.delivered_rows += sum(map(len, files.values()))
        texts = {file: "\n".join((_header_of(file), *lines, "")) for file, lines in files.items()}
        write_landing(wh.landing, {"feeds.toml": FEEDS, **texts})
        gold = warehouse.GOLD if number in (GOLD_ROUND, ROUNDS - 1) else ()
        for step in (*warehouse.INGEST, *warehouse.SILVER, *gold):
            step.run(wh.place, None)
    result.rows = {contract: _collected(wh, contract) for contract in TABLES}
    print(  # noqa: T201
        f"seed {seed}: {told.keys * len(CLIENTS)} histories ({told.keys} keys in {len(CLIENTS)} clients), "
        f"{told.rows} rows each, {result.delivered_rows} rows delivered in {ROUNDS} rounds"
    )
    return result


def _multiset(rows: list[Row], *aside: str) -> Counter[tuple[tuple[str, str | None], ...]]:
    return Counter(tuple((name, value) for name, value in sorted(row.items()) if name not in aside) for row in rows)


@pytest.mark.parametrize("contract", TABLES, ids=lambda contract: contract.name)
def test_every_way_of_delivering_gives_the_same_rows(loaded: Loaded, contract: TableContract) -> None:
    expected = _multiset(loaded.of(contract), "customer_key")  # which is a hash of the client too
    assert expected
    for client in CLIENTS[1:]:
        found = _multiset(loaded.of(contract, client), "customer_key")
        assert (found - expected, expected - found) == (Counter(), Counter()), f"client {client}, seed {loaded.seed}"


def _by_key(rows: list[Row], columns: tuple[str, ...], key: tuple[str, ...]) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] or "" for name in key), []).append({name: row[name] for name in columns})
    return found


def _found(loaded: Loaded, contract: TableContract) -> dict[Key, list[Row]]:
    """The rows of silver by key (client aside), with the columns that the fold knows."""
    key = [name for name in contract.primary_key if name not in ("client_id", "_tech_valid_from")]
    found = _by_key(loaded.of(contract), FOLDED[contract], tuple(key))
    for rows in found.values():
        rows.sort(key=lambda row: row.get("_tech_valid_from") or "")
    return found


def _completed(row: Row | None, contract: TableContract) -> list[Row]:
    """A key that was only deleted has no values."""
    return [] if row is None else [{name: row.get(name) for name in FOLDED[contract]}]


def _possible(loaded: Loaded, contract: TableContract) -> dict[Key, list[list[Row]]]:
    told, decimals = loaded.told, histories.decimals_of(loaded.told.decimals)
    if contract is customer.CONTRACT:
        return {key: histories.possible_customers(changes) for key, changes in told.changes["KNA1"].items()}
    table, row_of = ("VBAK", histories.header_row) if contract is sales_order.CONTRACT else ("VBAP", histories.line_row)
    without_values: Row = {"currency_decimals": "2"}
    return {
        key: [
            _completed(None if row is None else without_values | row, contract)
            for row in histories.possible_rows(changes, lambda values: row_of(values, decimals))
        ]
        for key, changes in told.changes[table].items()
    }


@pytest.mark.parametrize("contract", FOLDED, ids=lambda contract: contract.name)
def test_silver_is_what_a_fold_in_plain_python_makes_of_the_changes(loaded: Loaded, contract: TableContract) -> None:
    found, possible = _found(loaded, contract), _possible(loaded, contract)
    assert set(found) <= set(possible), f"seed {loaded.seed}"
    wrong = {
        key: {"found": found.get(key, []), "possible": outcomes}
        for key, outcomes in possible.items()
        if found.get(key, []) not in outcomes
    }
    assert wrong == {}, f"seed {loaded.seed}"


def _expected_facts(loaded: Loaded) -> dict[Key, Row]:
    """Facts of the lines as silver has them: what silver has is compared with the fold by the test before."""
    versions = _found(loaded, customer.CONTRACT)
    headers = {key: row for key, (row,) in _found(loaded, sales_order.CONTRACT).items() if row["is_deleted"] == "false"}
    facts: dict[Key, Row] = {}
    for key, (line,) in _found(loaded, sales_order_line.CONTRACT).items():
        header = headers.get(key[:1])
        customer_id = (header or {}).get("customer_id") or ""
        if line["is_deleted"] == "false":
            facts[key] = histories.fact(line, header, versions.get((customer_id,), []))
    return facts


def test_facts_are_what_plain_python_makes_of_the_lines(loaded: Loaded) -> None:
    started = {row["customer_key"]: row["valid_from"] for row in loaded.of(dim_customer.CONTRACT)}
    found = {
        (row["order_id"], row["line_number"]): {
            **{name: value for name, value in row.items() if name not in ("order_id", "line_number", "customer_key")},
            "customer_from": started.get(row["customer_key"]),
        }
        for row in loaded.of(fct_order_line.CONTRACT)
    }
    assert found == _expected_facts(loaded), f"seed {loaded.seed}"


def test_monthly_revenue_is_the_sum_in_plain_python(loaded: Loaded) -> None:
    found = loaded.of(agg_revenue_month.CONTRACT)
    expected = histories.months(_expected_facts(loaded))
    assert _multiset(found) == _multiset(expected), f"seed {loaded.seed}"


def test_a_load_without_anything_new_makes_no_version(loaded: Loaded) -> None:
    before = loaded.warehouse.versions()
    loaded.warehouse.load()
    assert loaded.warehouse.versions() == before, f"seed {loaded.seed}"
