"""Jobs and how they run: everything at once, in one process, because every further process would start a JVM."""

import dagster as dg
import pydantic

from dwh_pipeline.defs.resources import LakeResource
from dwh_pipeline.defs.tables import DELIVERIES, POOL, asset_key, report_metadata
from dwh_pipeline.loads import recovery, warehouse
from dwh_pipeline.tables import ingest_activity

_ACTIVITY = dg.AssetSelection.assets(asset_key(ingest_activity.CONTRACT))

load_warehouse = dg.define_asset_job(
    "load_warehouse",
    selection=dg.AssetSelection.all() - _ACTIVITY,
    description="Load everything that is new in the landing area, up to gold, and check it",
)
# On its own: nothing is built on these counts, so no load has to wait for them.
count_activity = dg.define_asset_job(
    "count_activity",
    selection=_ACTIVITY,
    description="Count what bronze got since the last run, per feed and five minutes of the change time, and plot it",
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


class RecoverConfig(dg.Config):
    """Which stream, and whether the repairs that are shown are done."""

    feed: str = pydantic.Field(description="name of the feed in feeds.toml")
    apply: bool = pydantic.Field(default=False, description="do the safe repairs; without it they are only shown")
    new_generation: bool = pydantic.Field(default=False, description="with apply: start a new checkpoint in any case")


@dg.op(pool=POOL, out=dg.Out(dg.Nothing), description="Show the state of a stream, and repair it if told to")
def recover(context: dg.OpExecutionContext, config: RecoverConfig, lake: LakeResource) -> None:
    """What was found and done is in the log and in the metadata of the output."""
    place = lake.place()
    feed = recovery.feed_named(place, config.feed)
    state = recovery.state_of(place, feed)
    done = recovery.recover(place, feed, new_generation=config.new_generation) if config.apply else []
    for line in (*(f"{problem.what}; safe repair: {problem.repair}" for problem in state.problems), *done):
        context.log.info(line)
    context.add_output_metadata(
        {
            "checkpoint": str(state.checkpoint),
            "problems": dg.MetadataValue.json([problem.what for problem in state.problems]),
            "backlog": dg.MetadataValue.json(list(state.backlog)),
            "done": dg.MetadataValue.json(done),
        }
    )


@dg.job(description="Show the state of the checkpoint of a feed; with apply, repair it. Nothing is deleted")
def recover_stream() -> None:
    """The same as `dwh recover-stream`."""
    recover()


@dg.definitions
def jobs() -> dg.Definitions:
    """The jobs, and the executor of every run."""
    return dg.Definitions(
        jobs=[load_warehouse, count_activity, replay_delivery, recover_stream], executor=dg.in_process_executor
    )
