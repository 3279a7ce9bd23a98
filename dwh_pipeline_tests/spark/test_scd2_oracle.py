"""Customers against another engine: streams of events with the history that Spark's own SCD2 engine made of them.

Every stream is delivered in several cuts, each to a client of its own, so that a few loads carry all of them. The
streams and the expected histories are files beside the project.
"""

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.lake import catalog, writes
from dwh_pipeline.loads import silver_customer
from dwh_pipeline.sap.fields import KNA1
from dwh_pipeline.tables import bronze
from dwh_pipeline_tests.frames import frame_of

_ORACLE = Path(__file__).parents[2].parent / "shared" / "oracle"
SOURCE, TARGET = "spark_catalog.bronze.sap_kna1", "spark_catalog.silver.customer"
LOADS = 4
START = datetime(2026, 4, 1, 10, tzinfo=UTC)
_STARTED, _DAWN = int(START.timestamp()), int(datetime(1900, 1, 1, tzinfo=UTC).timestamp())
SCHEMA = (
    "change_seq STRING, change_op STRING, _tech_batch_id STRING, _tech_source_file STRING, _tech_row_number BIGINT, "
    "MANDT STRING, KUNNR STRING, ORT01 STRING"
)

Cut = list[list[int]]  # per load: the events, by their position in the stream
Version = tuple[str, str, str | None, int, int | None, bool]  # client, customer, city, from, to, reaches back


@dataclass(frozen=True)
class Event:
    """One change of a customer."""

    customer: int
    city: str | None
    seq: int
    is_delete: bool

    @property
    def change_seq(self) -> str:
        """The sequence number as a time, one second each."""
        return f"{START + timedelta(seconds=self.seq):%Y%m%d%H%M%S}".zfill(20) + "0" * 9


@dataclass(frozen=True)
class Scenario:
    """One stream in one cut, in a client of its own."""

    client: str
    name: str
    events: list[Event]
    cut: Cut
    expected: set[Version]


def _at_once(events: list[Event]) -> Cut:
    return [list(range(len(events))), *([] for _ in range(LOADS - 1))]


def _slices(events: list[Event]) -> Cut:
    """A slice of every customer's events per load, in the order of the stream."""
    loads: Cut = [[] for _ in range(LOADS)]
    for customer in {event.customer for event in events}:
        own = [i for i, event in enumerate(events) if event.customer == customer]
        for position, i in enumerate(own):
            loads[position * LOADS // len(own)].append(i)
    return loads


def _newest_first(events: list[Event]) -> Cut:
    """Every later load is of changes that are older than those before."""
    order = sorted(range(len(events)), key=lambda i: -events[i].seq)
    return [order[n * len(order) // LOADS : (n + 1) * len(order) // LOADS] for n in range(LOADS)]


def _dealt(events: list[Event]) -> Cut:
    """The i-th event of every customer in load i, and round again."""
    loads: Cut = [[] for _ in range(LOADS)]
    seen: dict[int, int] = {}
    for i, event in enumerate(events):
        seen[event.customer] = seen.get(event.customer, -1) + 1
        loads[seen[event.customer] % LOADS].append(i)
    return loads


def _random_with_repeats(seed: int, events: list[Event]) -> Cut:
    """Every event in one load, or in up to three, or more than once in the same."""
    choice = random.Random(seed)  # noqa: S311
    loads: Cut = [[] for _ in range(LOADS)]
    for i in range(len(events)):
        for load in choice.choices(range(LOADS), k=choice.choice((1, 1, 2, 3))):
            loads[load].append(i)
    for chosen in loads:
        choice.shuffle(chosen)
    return loads


def _scenarios() -> list[Scenario]:
    found = []
    for number, file in enumerate(sorted(_ORACLE.glob("scd2_*.json")), start=1):
        content = json.loads(file.read_text(encoding="utf-8"))
        events = [Event(**event) for event in content["events"]]
        cuts = {
            "at once": _at_once(events),
            "slices": _slices(events),
            "newest first": _newest_first(events),
            "dealt": _dealt(events),
            "random 1": _random_with_repeats(number, events),
            "random 2": _random_with_repeats(1000 + number, events),
        }
        for position, (name, cut) in enumerate(cuts.items()):
            client = f"{number}{position:02d}"
            expected = _expected(client, events, content["expected"])
            found.append(Scenario(client, f"{file.stem}, {name}", events, cut, expected))
    return found


def _expected(client: str, events: list[Event], history: list[dict[str, Any]]) -> set[Version]:
    """The oracle's versions. Here the first one reaches back to 1900, unless a deletion precedes it."""
    first = {event.customer: event.seq for event in sorted(events, key=lambda event: -event.seq)}
    return {
        (
            client,
            f"{row['customer']:010d}",
            row["city"],
            row["from_seq"],
            row["to_seq"],
            row["from_seq"] == first[row["customer"]],
        )
        for row in history
    }


def _rows(scenarios: list[Scenario], load: int, delivery: str) -> list[tuple[object, ...]]:
    chosen = [(scenario.client, scenario.events[i]) for scenario in scenarios for i in scenario.cut[load]]
    return [
        (
            event.change_seq,
            "D" if event.is_delete else "U",
            delivery,
            f"customers/{delivery}/part.csv",
            row,
            client,
            str(event.customer),
            event.city,
        )
        for row, (client, event) in enumerate(chosen, start=1)
    ]


def _deliver(spark: SparkSession, rows: list[tuple[object, ...]]) -> None:
    writes.append(spark, SOURCE, bronze.contract_of(KNA1), frame_of(spark, SCHEMA, rows))


def _found(spark: SparkSession) -> list[Version]:
    def seconds(name: str) -> Column:
        return (F.unix_seconds(F.col(name)) - _STARTED).alias(name)

    rows = catalog.read(spark, TARGET).select(
        "client_id", "customer_id", "city", "change_seq", seconds("_tech_valid_from"), seconds("_tech_valid_to")
    )
    found: list[Version] = []
    for client, customer, city, change_seq, valid_from, valid_to in rows.collect():
        opened = datetime.strptime(change_seq[6:20], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        seq = int((opened - START).total_seconds())
        assert valid_from == seq or valid_from == _DAWN - _STARTED
        found.append((client, customer, city, seq, valid_to, valid_from != seq))
    return found


def _versions_of_table(lake: Path) -> set[str]:
    return {path.name for path in lake.glob("silver/customer/_delta_log/*.json")}


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    if not _ORACLE.is_dir():
        pytest.skip(f"the streams are not here: {_ORACLE}")
    return _scenarios()


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, shared_lake: Path, scenarios: list[Scenario]) -> Path:
    """The lake after all deliveries came in, one per load."""
    for load in range(LOADS):
        _deliver(spark, _rows(scenarios, load, str(load)))
        silver_customer.run(spark, SOURCE, TARGET)
    return shared_lake


def test_every_cut_of_a_stream_gives_the_history_that_sparks_own_engine_gives(
    spark: SparkSession, loaded: Path, scenarios: list[Scenario]
) -> None:
    catalog.use_lake(spark, loaded)
    found = _found(spark)
    assert len(found) == len(set(found))
    for scenario in scenarios:
        own = {version for version in found if version[0] == scenario.client}
        assert own == scenario.expected, f"{scenario.name}: too many, too few"
    assert len(found) == sum(len(scenario.expected) for scenario in scenarios)


def test_streams_delivered_and_replayed_again_make_no_version(
    spark: SparkSession, loaded: Path, scenarios: list[Scenario]
) -> None:
    catalog.use_lake(spark, loaded)
    before = _versions_of_table(loaded)
    _deliver(spark, [row for load in range(LOADS) for row in _rows(scenarios, load, f"{load} again")])
    again = silver_customer.run(spark, SOURCE, TARGET)
    replay = silver_customer.run(spark, SOURCE, TARGET, "2")
    rows = sum(len(load) for scenario in scenarios for load in scenario.cut)
    assert again.rows_read == rows
    assert replay.rows_read == sum(len(scenario.cut[2]) for scenario in scenarios)
    effects = {"inserted", "updated", "closed", "woven_in", "deleted", "rederived", "conflicting"}
    assert not effects & {*again.outcomes, *replay.outcomes}
    assert _versions_of_table(loaded) == before
