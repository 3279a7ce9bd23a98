"""Upkeep of every table: what it would do, then doing it, one table at a time under the lease of its loads.

Readers are not disturbed: Delta keeps the files of a version that is read until the retention of the table is over.
"""

from collections.abc import Iterator

from dwh_pipeline.contracts.health import FailedLoad, Limits
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.errors import LeaseHeldError, SettingsError
from dwh_pipeline.lake import catalog, facts
from dwh_pipeline.lake import maintenance as commands
from dwh_pipeline.lake.lease import lease, left_behind
from dwh_pipeline.loads import health
from dwh_pipeline.loads.health import Examination
from dwh_pipeline.loads.place import Place
from dwh_pipeline.quality import health as rules
from dwh_pipeline.quality.maintenance import Action, Upkeep, actions
from dwh_pipeline.tables import registry

_MAINTAINED = {contract.qualified_name: contract for contract in (*registry.LOADED, *registry.OPS)}
_MOST_CLUSTERING_COLUMNS = 4  # Delta's own limit


def plan(place: Place, limits: Limits, only_tables: tuple[str, ...] = ()) -> tuple[Action, ...]:
    """What the tables need, with what is refused and why. Writes nothing.

    Costs metadata, and for each table a listing of its folder (VACUUM DRY RUN) and a count.

    Raises:
        SettingsError: there is no such table; names those that there are.
    """
    for name in only_tables:
        if name not in _MAINTAINED:
            raise SettingsError("--table", f"{name!r} is not known; choose from {', '.join(_MAINTAINED)}")
    chosen = [contract for name, contract in _MAINTAINED.items() if not only_tables or name in only_tables]
    examination = Examination(place, limits)
    there = [contract for contract in chosen if catalog.exists(place.spark, place.name(contract))]
    return tuple(
        action for contract in there for action in _needed(examination, contract, left_behind(place.lease_of(contract)))
    )


def apply(place: Place, limits: Limits, planned: tuple[Action, ...]) -> Iterator[str]:
    """Do what is not refused, and tell of each action what was done.

    A table that is being loaded is left for the next time. Whether a table may be touched is asked again once its
    lease is held.
    """
    for name in dict.fromkeys(action.table for action in planned):
        contract = _MAINTAINED[name]
        try:
            with lease(place.lease_of(contract), is_load=False) as failed:
                for action in _needed(Examination(place, limits), contract, failed):
                    did = f"refused, {action.refused}" if action.refused else _do(place, contract, action.upkeep)
                    yield f"{action.table}: {action.upkeep.value}: {did}"
        except LeaseHeldError as error:
            yield f"{name}: left alone, {error.holder} is loading it"


def _do(place: Place, contract: TableContract, kind: Upkeep) -> str:
    spark, table = place.spark, place.name(contract)
    match kind:
        case Upkeep.OPTIMIZE:
            key = contract.primary_key[:_MOST_CLUSTERING_COLUMNS]
            if facts.detail(spark, table).clustered_by != key:
                commands.cluster_by(spark, table, key)
            removed, added = commands.optimize(spark, table)
            return f"{removed} files became {added}, clustered by {', '.join(key)}"
        case Upkeep.PURGE:
            removed, added = commands.purge(spark, table)
            return f"{removed} files became {added} without deleted rows"
        case Upkeep.VACUUM:
            commands.vacuum(spark, table)
            return "files that no kept version uses were removed"


def _needed(examination: Examination, contract: TableContract, failed: FailedLoad | None) -> tuple[Action, ...]:
    limits, spark = examination.limits, examination.place.spark
    table = examination.place.name(contract)
    files = health.file_facts(examination, contract)
    is_loaded = contract in registry.LOADED
    return actions(
        files,
        rows=spark.table(table).count() if files.deleted_rows else 0,
        unused_files=commands.unused_files(spark, table),
        small=rules.files_are_not_small(files, limits),
        retention=rules.retention_is_safe(health.retention_facts(examination, contract), limits),
        repair=rules.repair_is_ready(health.repair_facts(examination, contract, failed), limits) if is_loaded else None,
        limits=limits,
    )
