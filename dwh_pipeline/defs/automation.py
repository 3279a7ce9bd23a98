"""What starts runs by itself: a sensor for deliveries and two schedules. All are off outside of production.

The sensor reads folders and nothing else, so that looking costs no Spark.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

import dagster as dg

from dwh_pipeline.defs.health import check_health
from dwh_pipeline.defs.jobs import load_warehouse
from dwh_pipeline.errors import SettingsError
from dwh_pipeline.lake.landing import complete_files, read_feeds
from dwh_pipeline.settings import Settings, load_settings

# No default: an environment that is not here is a mistake in the settings.
RUNS_UNATTENDED: Mapping[str, bool] = {"local": False, "ci": False, "production": True}
_QUIET_SECONDS = 30  # a delivery of which a file is younger than this may still be on its way


def complete_deliveries(settings: Settings) -> set[str]:
    """`feed/delivery` of everything in the landing area that may be loaded and is no longer written to."""
    now = datetime.now(UTC).timestamp()
    newest: dict[str, float] = {}
    for feed in read_feeds(settings.landing):
        for file in complete_files(settings.landing, feed):
            name = f"{feed.name}/{file.delivery}"
            newest[name] = max(newest.get(name, 0.0), file.path.stat().st_mtime)
    return {name for name, written in newest.items() if now - written >= _QUIET_SECONDS}


def _unattended(settings: Settings) -> bool:
    try:
        return RUNS_UNATTENDED[settings.environment]
    except KeyError:
        known = ", ".join(RUNS_UNATTENDED)
        raise SettingsError("DWH_ENVIRONMENT", f"{settings.environment!r} is not known; choose {known}") from None


@dg.definitions
def automation() -> dg.Definitions:
    """The sensor and the schedule of `load_warehouse`, running by themselves where the environment says so."""
    is_on = _unattended(load_settings(allow_temporary=True))  # only the environment matters here

    @dg.sensor(
        job=load_warehouse,
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING if is_on else dg.DefaultSensorStatus.STOPPED,
        description="Start load_warehouse when complete deliveries have landed; the newest of them is the run key",
    )
    def delivery_landed(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """One run for all deliveries that came since the last look: a run loads everything that is new."""
        seen = set(json.loads(context.cursor)) if context.cursor else set()
        landed = complete_deliveries(load_settings())
        new = sorted(landed - seen)
        return dg.SensorResult(
            run_requests=[dg.RunRequest(run_key=new[-1], tags={"deliveries": ", ".join(new)[:200]})] if new else [],
            cursor=json.dumps(sorted(landed)),
        )

    hourly = dg.ScheduleDefinition(
        name="hourly",
        job=load_warehouse,
        cron_schedule="0 * * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED,
        description="Load what the sensor did not see, and ask all checks",
    )
    daily_health = dg.ScheduleDefinition(
        name="daily_health",
        job=check_health,
        cron_schedule="0 5 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED,
        description="Ask the health rules of every table, without loading anything",
    )
    return dg.Definitions(sensors=[delivery_landed], schedules=[hourly, daily_health])
