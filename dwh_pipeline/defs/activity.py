"""The asset of `ops.ingest_activity`, with the plot of its newest windows. It belongs to the job `count_activity`."""

import dagster as dg
import pydantic

from dwh_pipeline import plots
from dwh_pipeline.defs.resources import LakeResource
from dwh_pipeline.defs.tables import OWNERS, POOL, asset_key, column_schema, report_metadata
from dwh_pipeline.loads import ingest_activity as load
from dwh_pipeline.tables.ingest_activity import CONTRACT


class ActivityConfig(dg.Config):
    """Whether the counting starts anew."""

    new_generation: bool = pydantic.Field(
        default=False, description="put the checkpoints aside and count all rows of bronze anew"
    )


@dg.asset(
    key=asset_key(CONTRACT),
    deps=[dg.AssetKey(name.split(".")) for name in CONTRACT.upstream],
    group_name=CONTRACT.schema,
    kinds={"spark", "delta"},
    owners=OWNERS,
    description=CONTRACT.description,
    metadata={"dagster/column_schema": column_schema(CONTRACT)},
    pool=POOL,
)
def ingest_activity(config: ActivityConfig, lake: LakeResource) -> dg.MaterializeResult[None]:
    """Counts, and their plot."""
    place = lake.place()
    report = load.run(place, new_generation=config.new_generation)
    return dg.MaterializeResult(metadata={**report_metadata(report), "activity": activity_plot(load.newest(place))})


def activity_plot(windows: list[load.Activity]) -> dg.MetadataValue:
    """The windows as a picture, or in words that there are none."""
    if not windows:
        return dg.MetadataValue.md("No change has a time.")
    return dg.MetadataValue.md(plots.as_markdown(plots.activity(windows), "changes per five minutes (UTC)"))


@dg.definitions
def activity() -> dg.Definitions:
    """The asset alone; its job is in `jobs`."""
    return dg.Definitions(assets=[ingest_activity])
