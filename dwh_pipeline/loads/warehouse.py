"""The whole warehouse, table by table: what `dwh run`, `dwh plan` and `dwh replay` do, and the assets one at a time.

A table whose load is refused stops those that are built on it, and no others.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame

from dwh_pipeline.contracts.outcomes import LoadReport
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.errors import DeliveryNotFoundError, RunIncompleteError, WarehouseError
from dwh_pipeline.lake import catalog
from dwh_pipeline.lake.landing import complete_files, read_feeds
from dwh_pipeline.lake.lease import lease
from dwh_pipeline.loads import bronze_load, gold_load, silver
from dwh_pipeline.loads.delivered import Delivered, read_delivered
from dwh_pipeline.loads.place import Place
from dwh_pipeline.loads.silver import SilverPlan
from dwh_pipeline.sap.fields import SAP_TABLES, TCURX, SapTable
from dwh_pipeline.tables import bronze, registry
from dwh_pipeline.tables.silver import SilverTable

Deliveries = tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Preview:
    """Tables as they would be: a plan of the whole warehouse goes from one to the next without writing.

    `only` are the deliveries to be planned, None for all that is pending.
    """

    place: Place
    only: Deliveries
    bronze: dict[str, Delivered] = field(default_factory=dict)
    rows: dict[str, DataFrame] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """The load of one table: `run` does it, of all that is pending or (silver) of these deliveries; `plan` tells it."""

    contract: TableContract
    run: Callable[[Place, Deliveries], LoadReport]
    plan: Callable[[Preview], LoadReport]


def _bronze_step(table: SapTable) -> Step:
    contract = bronze.contract_of(table)

    def run(place: Place, _deliveries: Deliveries = None) -> LoadReport:
        return bronze_load.run(
            place.spark,
            table,
            place.feed_of(table),
            landing=place.landing,
            checkpoints=place.checkpoints,
            target=place.name(contract),
        )

    def plan(preview: Preview) -> LoadReport:
        place = preview.place
        preview.bronze[table.name], report = bronze_load.preview(
            place.spark,
            table,
            place.feed_of(table),
            landing=place.landing,
            target=place.name(contract),
            only=preview.only,
        )
        return report

    return Step(contract, run, plan)


def _silver_step(table: SilverTable) -> Step:
    def planned(place: Place, delivered: Delivered, currencies: Delivered | None, only: Deliveries) -> SilverPlan:
        # A delivery id may occur in some feeds and not in others.
        taken = None if only is None else tuple(delivery for delivery in only if delivery in delivered.held)
        return silver.plan(place.spark, delivered, currencies, place.name(table.contract), table, deliveries=taken)

    def run(place: Place, deliveries: Deliveries = None) -> LoadReport:
        source = place.name(bronze.contract_of(table.source))
        with lease(place.lease_of(table.contract)):
            delivered = read_delivered(place.spark, source, table.source)
            currencies = silver.currencies_beside(place.spark, source, table)
            return silver.apply(place.spark, planned(place, delivered, currencies, deliveries))

    def plan(preview: Preview) -> LoadReport:
        currencies = preview.bronze[TCURX.name] if TCURX.bronze_name in table.contract.upstream else None
        silver_plan = planned(preview.place, preview.bronze[table.source.name], currencies, preview.only)
        preview.rows[table.contract.qualified_name] = silver_plan.rows_after(preview.place.spark)
        return silver.preview(silver_plan)

    return Step(table.contract, run, plan)


def _gold_step(contract: TableContract) -> Step:
    def plan(preview: Preview) -> LoadReport:
        place = preview.place
        rows, report = gold_load.preview(place.spark, place.catalog, contract, preview.rows)
        preview.rows[contract.qualified_name] = rows
        return report

    def run(place: Place, _deliveries: Deliveries = None) -> LoadReport:
        with lease(place.lease_of(contract)):
            return gold_load.run_table(place.spark, place.catalog, contract)

    return Step(contract, run, plan)


INGEST: tuple[Step, ...] = tuple(map(_bronze_step, SAP_TABLES.values()))
SILVER: tuple[Step, ...] = tuple(map(_silver_step, registry.SILVER))
GOLD: tuple[Step, ...] = tuple(map(_gold_step, registry.GOLD))


def run(place: Place) -> Iterator[LoadReport]:
    """Load every table, one after the other, and tell of each when it is done.

    Raises:
        WarehouseError: what stopped a table, after all tables that do not depend on it are loaded. Running again goes
            on from there. RunIncompleteError if there is more than one.
    """
    read_feeds(place.landing)  # what is wrong there is wrong for every table: said once
    yield from _each((*INGEST, *SILVER, *GOLD), lambda step: step.run(place, None))


def plan(place: Place, deliveries: Deliveries = None) -> Iterator[LoadReport]:
    """What `run` would report of each table; with deliveries, what loading or replaying these alone would.

    Writes nothing. The checks that guard gold are not asked.

    Raises:
        DeliveryNotFoundError: neither bronze nor the landing area holds one of the deliveries.
        WarehouseError: as `run` does.
    """
    feeds = read_feeds(place.landing)
    if deliveries is not None:
        landed = {file.delivery for feed in feeds for file in complete_files(place.landing, feed)}
        _require(deliveries, landed | _deliveries_in_bronze(place))
    preview = Preview(place, None if deliveries is None else tuple(dict.fromkeys(deliveries)))
    yield from _each((*INGEST, *SILVER, *GOLD), lambda step: step.plan(preview))


def replay(place: Place, deliveries: tuple[str, ...]) -> Iterator[LoadReport]:
    """Load deliveries that bronze holds once more into every silver table that they belong to, then build gold.

    Values are read as feeds.toml declares them now. Nothing new is taken from the landing area.

    Raises:
        DeliveryNotFoundError: bronze does not hold one of them.
        WarehouseError: as `run` does.
    """
    _require(deliveries, _deliveries_in_bronze(place))
    for feed in read_feeds(place.landing):
        source = place.name(bronze.contract_of(feed.sap_table))
        if catalog.exists(place.spark, source):
            bronze_load.declare(place.spark, feed, source)
    each_once = tuple(dict.fromkeys(deliveries))
    yield from _each((*SILVER, *GOLD), lambda step: step.run(place, each_once))


def _deliveries_in_bronze(place: Place) -> set[str]:
    tables = [place.name(contract) for contract in bronze.CONTRACTS.values()]
    there = [table for table in tables if catalog.exists(place.spark, table)]
    frames = [place.spark.table(table).select("_tech_batch_id") for table in there]
    return {row[0] for row in reduce(DataFrame.union, frames).distinct().collect()} if frames else set()


def _require(deliveries: Iterable[str], known: set[str]) -> None:
    for delivery in deliveries:
        if delivery not in known:
            raise DeliveryNotFoundError("bronze", delivery, tuple(sorted(known)))


def _each(steps: Iterable[Step], act: Callable[[Step], LoadReport]) -> Iterator[LoadReport]:
    """Take the steps in order, but none that is built on a table whose step was refused; then say what was."""
    refused: list[tuple[str, WarehouseError]] = []
    missing: set[str] = set()
    for step in steps:
        name = step.contract.qualified_name
        if missing & set(step.contract.upstream):
            missing.add(name)
            continue
        try:
            yield act(step)
        except WarehouseError as error:
            refused.append((name, error))
            missing.add(name)
    if refused:
        raise refused[0][1] if len(refused) == 1 else RunIncompleteError(tuple(refused))
