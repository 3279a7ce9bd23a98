"""The health rules as asset checks, the schedule that asks them without loading, and the job `maintain`.

Only translation: rules are in `quality.health`, which table is asked what is in `loads.health`.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby

import dagster as dg
import pydantic

from dwh_pipeline import plots
from dwh_pipeline.contracts.health import HealthOutcome, Rule, Status
from dwh_pipeline.defs.resources import LakeResource
from dwh_pipeline.defs.tables import OWNERS, POOL, asset_key, column_schema
from dwh_pipeline.loads import health, maintenance
from dwh_pipeline.loads.health import HEALTH_CHECKS, HealthCheck, Kept
from dwh_pipeline.quality.health import RULES
from dwh_pipeline.tables import health_history, ingest_activity, registry


def _check_key(check: HealthCheck) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(asset_key(check.contract), check.rule.name)


def _spec(check: HealthCheck) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(check.rule.name, asset=asset_key(check.contract), description=check.rule.description)


@dg.multi_asset_check(
    name="health",
    specs=[_spec(check) for check in HEALTH_CHECKS],
    can_subset=True,
    pool=POOL,
    description="Ask the health rules of all that was selected, keep the outcomes, and plot their trends",
)
def health_checks(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterator[dg.AssetCheckResult]:
    """One step for all rules: what several need of a table is read once, and outcomes are kept in one commit."""
    place = lake.place()
    selected = context.selected_asset_check_keys
    checks = [check for check in HEALTH_CHECKS if _check_key(check) in selected]
    outcomes = health.examine(place, lake.limits(), checks)
    health.record(place, outcomes)
    shown = trends(health.newest_history(place), datetime.now(UTC))
    context.op_execution_context.log_event(dg.AssetMaterialization(asset_key(health_history.CONTRACT), metadata=shown))
    for check, outcome in zip(checks, outcomes, strict=True):
        yield check_result(check, outcome)


def check_result(check: HealthCheck, outcome: HealthOutcome) -> dg.AssetCheckResult:
    """An outcome as Dagster shows it. Noted things pass; what they are is in the metadata."""
    to_do = "\n".join(f"{n}. {fix}" for n, fix in enumerate(outcome.fixes, start=1))
    return dg.AssetCheckResult(
        asset_key=asset_key(check.contract),
        check_name=check.rule.name,
        passed=outcome.status in (Status.HEALTHY, Status.NOTED),
        severity=dg.AssetCheckSeverity.ERROR if outcome.status is Status.ERROR else dg.AssetCheckSeverity.WARN,
        description=outcome.message,
        metadata={
            "status": outcome.status.value,
            **({"what to do": dg.MetadataValue.md(to_do)} if outcome.fixes else {}),
            "measure": dg.MetadataValue.float(outcome.measure),
            **dict(outcome.measures),
            **({"samples": dg.MetadataValue.json(list(outcome.samples))} if outcome.samples else {}),
        },
    )


def trends(kept: Iterable[Kept], until: datetime) -> dict[str, dg.MetadataValue]:
    """A plot per rule, and in words what is not healthy; `kept` in the order of rule, table and time."""
    by_rule = {name: list(rows) for name, rows in groupby(kept, key=lambda one: one.rule)}
    return {
        rule.name: dg.MetadataValue.md(_trend(rule, by_rule[rule.name], until))
        for rule in RULES
        if rule.name in by_rule
    }


def _trend(rule: Rule, kept: list[Kept], until: datetime) -> str:
    picture = plots.as_markdown(plots.trend(rule, kept, until), rule.measure)
    newest = {one.table: one for one in kept}
    sick = [
        f"- {one.table}: {one.status.value}, {one.measure:g} since {one.at:%Y-%m-%d %H:%M} UTC"
        for one in newest.values()
        if one.status is not Status.HEALTHY
    ]
    found = "\n".join(sick) or f"healthy: all {len(newest)} tables"
    return f"{picture}\n\n{found}"


class MaintainConfig(dg.Config):
    """Whether what is shown is done."""

    apply: bool = pydantic.Field(default=False, description="do it; without it, it is only shown")


@dg.op(pool=POOL, out=dg.Out(dg.Nothing), description="Show the upkeep that the tables need, and do it if told to")
def upkeep(context: dg.OpExecutionContext, config: MaintainConfig, lake: LakeResource) -> None:
    """What was found and done is in the log and in the metadata of the output."""
    place, limits = lake.place(), lake.limits()
    planned = maintenance.plan(place, limits)
    done = []
    for line in maintenance.apply(place, limits, planned) if config.apply else ():
        context.log.info(line)
        done.append(line)
    needed = [
        f"{one.table}: {one.upkeep.value}: {one.why}" + (f"; refused, {one.refused}" if one.refused else "")
        for one in planned
    ]
    context.add_output_metadata({"needed": dg.MetadataValue.json(needed), "done": dg.MetadataValue.json(done)})


@dg.job(description="Compact, purge and vacuum what needs it (with apply), or show it. No row changes")
def maintain() -> None:
    """The same as `dwh maintain`."""
    upkeep()


check_health = dg.define_asset_job(
    "check_health",
    selection=dg.AssetSelection.checks(*(_check_key(check) for check in HEALTH_CHECKS)),
    description="Ask the health rules of every table. Nothing is loaded",
)

# Tables of ops that no asset of their own makes; the others are made by the loads.
_SHOWN = tuple(contract for contract in registry.OPS if contract != ingest_activity.CONTRACT)


@dg.definitions
def health_definitions() -> dg.Definitions:
    """Checks, jobs, schedule, and the tables of ops that the checks are about."""
    specs = [
        dg.AssetSpec(
            asset_key(contract),
            group_name=contract.schema,
            kinds={"spark", "delta"},
            owners=OWNERS,
            description=contract.description,
            metadata={"dagster/column_schema": column_schema(contract)},
        )
        for contract in _SHOWN
    ]
    return dg.Definitions(assets=specs, asset_checks=[health_checks], jobs=[check_health, maintain])
