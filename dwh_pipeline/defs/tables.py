"""One asset per table, its blocking checks, and what a materialization tells. Read, build and write are in `loads`."""

from collections.abc import Iterator, Mapping

import dagster as dg

from dwh_pipeline.contracts.outcomes import LoadReport
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.defs.resources import LakeResource
from dwh_pipeline.loads.checks import CHECKS, STREAM_CHECKS, Check, StreamCheck
from dwh_pipeline.loads.warehouse import GOLD, INGEST, SILVER, Step
from dwh_pipeline.quality.expectations import Finding
from dwh_pipeline.tables import bronze

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
        "files": report.files or None,
        "rows_per_second": round(report.rows_per_second) if report.files else None,
        "table_version": written.version,
    }
    told = {name: dg.MetadataValue.int(number) for name, number in numbers.items() if number is not None}
    named = {"new_columns": report.new_columns, "skipped_files": report.skipped}
    return {**told, **{name: dg.MetadataValue.json(list(values)) for name, values in named.items() if values}}


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
        return _result(check.ask(place.spark, place.catalog), dg.AssetCheckSeverity(check.severity.value))

    return asked


def _stream_check(check: StreamCheck) -> dg.AssetChecksDefinition:
    contract = bronze.contract_of(check.table)

    @dg.asset_check(asset=asset_key(contract), name=check.name, description=check.description, pool=POOL)
    def asked(lake: LakeResource) -> dg.AssetCheckResult:
        place = lake.place()
        feed = place.feed_of(check.table)
        finding = check.ask(place, feed) if feed is not None else Finding(0, ())
        return _result(finding, dg.AssetCheckSeverity.ERROR)

    return asked


def _result(finding: Finding, severity: dg.AssetCheckSeverity) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=finding.passed,
        severity=severity,
        metadata={"failing_rows": finding.failing_rows, "samples": dg.MetadataValue.json(list(finding.samples))},
    )


def _assets() -> Iterator[dg.AssetsDefinition]:
    yield from map(_ingest_asset, INGEST)
    yield from map(_table_asset, (*SILVER, *GOLD))


@dg.definitions
def tables() -> dg.Definitions:
    """Every table and its checks."""
    checks = [*map(_asset_check, CHECKS), *map(_stream_check, STREAM_CHECKS)]
    return dg.Definitions(assets=list(_assets()), asset_checks=checks)
