"""The lake as a Dagster resource: settings in, one Spark session a run, the place that loads work on."""

import dagster as dg
from pydantic import PrivateAttr

from dwh_pipeline.contracts.health import Limits
from dwh_pipeline.lake import catalog
from dwh_pipeline.lake.session import open_session
from dwh_pipeline.loads.place import Place
from dwh_pipeline.settings import load_settings


class LakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where the warehouse is. The session starts when the first load of a run asks for it."""

    _place: Place | None = PrivateAttr(default=None)

    def place(self) -> Place:
        """The place of the settings of this process, with its verified session: the same one for all of a run."""
        if self._place is None:
            settings = load_settings()
            spark = open_session(settings)
            catalog.use_lake(spark, settings.lake)
            self._place = Place(spark, settings.landing, settings.checkpoint_root)
        return self._place

    def limits(self) -> Limits:
        """The limits of the health rules, from the settings of this process."""
        return load_settings().health


@dg.definitions
def resources() -> dg.Definitions:
    """The resources of every asset and check."""
    return dg.Definitions(resources={"lake": LakeResource()})
