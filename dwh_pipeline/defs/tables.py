"""One asset per table, its blocking checks, and what a materialization tells. Read, build and write are in `loads`."""

from collections.abc import Iterator, Mapping

import dagster as dg

from dwh_pipeline.contracts.outcomes import LoadReport
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.defs.resources import LakeResource
from dwh_pipeline.loads.checks import CHECKS, Check
from dwh_pipeline.loads.warehouse import GOLD, INGEST, SILVER, Step

# One pool for everything that uses Spark: two loads at once would only slow each other down on one machine.
POOL = "spark"
OWNERS = ["team:data-platform"]
# Every delivery that bronze holds, whatever its feed: what can be replayed from the page.
PARTITIONS = "delivery"
DELIVERIES = dg.DynamicPartitionsDefinition(name=PARTITIONS)


def asset_key(contract: TableContract) -> dg.AssetKey:
    """`[schema, table]`."""
    return dg.AssetKey([contract.schema, contract.name])


def column_schema(contract: TableContract) -> dg.TableSchema:
    """The columns of the contract, as the page shows them."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=column.name,
                type=column.type,
                description=column.description,
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in contract.columns
        ]
    )


def report_metadata(report: LoadReport) -> dict[str, dg.MetadataValue]:
    """What a load did, as metadata of its materialization: rows, ledger counts, rows written and table version."""
    written = report.written
    numbers: Mapping[str, int | None] = {
        "dagster/row_count": report.rows,
        "rows_read": report.rows_read,
        **{f"ledger/{outcome.value}": count for outcome, count in report.outcomes.items()},
        "written/inserted": written.inserted,
        "written/updated": written.updated,
        "written/deleted": written.deleted,
        "ledger/absent": report.absent or None,
        "table_version": written.version,
    }
    told = {name: dg.MetadataValue.int(number) for name, number in numbers.items() if number is not None}
    new = {"new_columns": dg.MetadataValue.json(list(report.new_columns))} if report.new_columns else {}
    return {**told, **new}


def _ingest_asset(step: Step) -> dg.AssetsDefinition:
    """A bronze table: a graph asset around the streaming op, so that lineage and automation see the stream."""
    contract = step.contract

    @dg.op(
        name=f"ingest_{contract.name}",
        out=dg.Out(dg.Nothing),
        pool=POOL,
        description="Append what is new in the landing area",
    )
    def ingest(context: dg.OpExecutionContext, lake: LakeResource) -> None:
        report = step.run(lake.place(), None)
        context.instance.add_dynamic_partitions(PARTITIONS, list(report.held))
        context.add_output_metadata(report_metadata(report))

    @dg.graph_asset(
        key=asset_key(contract),
        group_name=contract.schema,
        kinds={"spark", "delta"},
        owners=OWNERS,
        description=contract.description,
        metadata={"dagster/column_schema": column_schema(contract)},
    )
    def bronze_table() -> None:
        return ingest()  # type: ignore[no-any-return]

    return bronze_table


def _table_asset(step: Step) -> dg.AssetsDefinition:
    """A silver or gold table."""
    contract = step.contract

    @dg.asset(
        key=asset_key(contract),
        deps=[dg.AssetKey(name.split(".")) for name in contract.upstream],
        group_name=contract.schema,
        kinds={"spark", "delta"},
        owners=OWNERS,
        description=contract.description,
        metadata={"dagster/column_schema": column_schema(contract)},
        pool=POOL,
    )
    def table(lake: LakeResource) -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(metadata=report_metadata(step.run(lake.place(), None)))

    return table


def _asset_check(check: Check) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=asset_key(check.contract),
        name=check.name,
        description=check.description,
        blocking=check.blocking,
        pool=POOL,
    )
    def asked(lake: LakeResource) -> dg.AssetCheckResult:
        place = lake.place()
        finding = check.ask(place.spark, place.catalog)
        return dg.AssetCheckResult(
            passed=finding.passed,
            severity=dg.AssetCheckSeverity(check.severity.value),
            metadata={"failing_rows": finding.failing_rows, "samples": dg.MetadataValue.json(list(finding.samples))},
        )

    return asked


def _assets() -> Iterator[dg.AssetsDefinition]:
    yield from map(_ingest_asset, INGEST)
    yield from map(_table_asset, (*SILVER, *GOLD))


@dg.definitions
def tables() -> dg.Definitions:
    """Every table and its checks."""
    return dg.Definitions(assets=list(_assets()), asset_checks=[_asset_check(check) for check in CHECKS])
