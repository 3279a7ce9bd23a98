"""Jobs and how they run: everything at once, in one process, because every further process would start a JVM."""

import dagster as dg

load_warehouse = dg.define_asset_job(
    "load_warehouse",
    selection=dg.AssetSelection.all(),
    description="Load everything that is new in the landing area, up to gold, and check it",
)


@dg.definitions
def jobs() -> dg.Definitions:
    """The jobs, and the executor of every run."""
    return dg.Definitions(jobs=[load_warehouse], executor=dg.in_process_executor)
