"""Jobs and how they run: everything at once, in one process, because every further process would start a JVM."""

import dagster as dg

from dwh_pipeline.defs.resources import LakeResource
from dwh_pipeline.defs.tables import DELIVERIES, POOL, report_metadata
from dwh_pipeline.loads import warehouse

load_warehouse = dg.define_asset_job(
    "load_warehouse",
    selection=dg.AssetSelection.all(),
    description="Load everything that is new in the landing area, up to gold, and check it",
)


@dg.op(pool=POOL, out=dg.Out(dg.Nothing), description="Load the delivery of the partition once more, then build gold")
def replay(context: dg.OpExecutionContext, lake: LakeResource) -> None:
    """One materialization per table, so that the page shows what the replay did to each."""
    for report in warehouse.replay(lake.place(), (context.partition_key,)):
        context.log_event(dg.AssetMaterialization(report.table.split("."), metadata=report_metadata(report)))


@dg.job(
    partitions_def=DELIVERIES,
    description="Replay deliveries: fold their keys again from all that bronze holds, and write what differs",
)
def replay_delivery() -> None:
    """One partition per delivery, registered when bronze takes it."""
    replay()


@dg.definitions
def jobs() -> dg.Definitions:
    """The jobs, and the executor of every run."""
    return dg.Definitions(jobs=[load_warehouse, replay_delivery], executor=dg.in_process_executor)
