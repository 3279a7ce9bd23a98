"""What starts runs by itself, on folders made by hand: no Spark."""

import os
import time
from pathlib import Path

import dagster as dg
import pytest

from dwh_pipeline.defs import automation
from dwh_pipeline.errors import SettingsError
from dwh_pipeline_tests.warehouse import write_landing

_FEEDS = '[feeds.customers]\ntable = "KNA1"\nprofile = "replication_flow"\n\n[feeds.orders]\ntable = "VBAK"\n'


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = write_landing(tmp_path / "landing", {"feeds.toml": _FEEDS, "customers/initial/a.csv": "x"})
    (root / "orders").mkdir()
    monkeypatch.setenv("DWH_LANDING", str(root))
    monkeypatch.setenv("DWH_ALLOW_TEMPORARY", "1")
    return root


def _deliver(landing: Path, name: str, *, seconds_ago: float) -> None:
    write_landing(landing, {name: "x"})
    written = time.time() - seconds_ago
    os.utime(landing / name, (written, written))


def _look(cursor: str | None) -> dg.SensorResult:
    (sensor,) = automation.automation().sensors or ()
    result = sensor(dg.build_sensor_context(cursor=cursor))
    assert isinstance(result, dg.SensorResult)
    return result


def test_a_complete_delivery_starts_one_run_with_its_name_as_key(landing: Path) -> None:
    _deliver(landing, "orders/0001/a.csv", seconds_ago=3600)
    _deliver(landing, "orders/0002/a.csv", seconds_ago=1)  # perhaps still on its way
    first = _look(None)
    assert [request.run_key for request in first.run_requests or ()] == ["orders/0001"]
    again = _look(first.cursor)
    assert not again.run_requests
    _deliver(landing, "orders/0002/a.csv", seconds_ago=60)
    _deliver(landing, "customers/initial/a.csv", seconds_ago=60)
    _deliver(landing, "customers/initial/_SUCCESS", seconds_ago=60)
    third = _look(again.cursor)
    assert [request.run_key for request in third.run_requests or ()] == ["orders/0002"]
    assert (third.run_requests or [])[0].tags["deliveries"] == "customers/initial, orders/0002"


@pytest.mark.usefixtures("landing")
@pytest.mark.parametrize(("environment", "running"), [("local", False), ("ci", False), ("production", True)])
def test_sensor_and_schedules_run_by_themselves_in_production_alone(
    monkeypatch: pytest.MonkeyPatch, environment: str, running: bool
) -> None:
    monkeypatch.setenv("DWH_ENVIRONMENT", environment)
    made = automation.automation()
    statuses = [one.default_status.value for one in (*(made.sensors or ()), *(made.schedules or ()))]
    assert statuses == ["RUNNING" if running else "STOPPED"] * 3


@pytest.mark.usefixtures("landing")
def test_an_environment_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DWH_ENVIRONMENT", "prodution")
    with pytest.raises(SettingsError, match="DWH_ENVIRONMENT: 'prodution' is not known; choose local, ci, production"):
        automation.automation()
