"""Crashes at every commit of a whole load, and the plain re-run after each (S-11).

The double stands below the write primitives: it counts every statement of Spark that makes a commit, so a step that is
added to a load adds its crash points by itself, and one that commits in another way is found out.
"""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.loads.warehouse import GOLD, INGEST, SILVER, Step
from dwh_pipeline.tables import customer, load_ledger, quarantine
from dwh_pipeline_tests.landings import SMALL_LANDING
from dwh_pipeline_tests.warehouse import Warehouse, write_landing

_COMMITTING = ("CREATE TABLE ", "ALTER TABLE ", "MERGE ", "INSERT ", "UPDATE ", "DELETE ", "REPLACE ", "DROP TABLE ")
_NOT_COMMITTING = "CREATE TABLE IF NOT EXISTS "  # makes a name for a table that is there
_RUN_FACTS = ("_tech_loaded_at", "load_id", "started_at", "finished_at", "source_id", "table_id", "is_replay")


class CrashError(Exception):
    """The process has died."""


@dataclass
class Commits:
    """Counts commits, and crashes after `crash_after` of them (0: before the first)."""

    crash_after: int | None = None
    done: int = 0

    def commit(self, write: Callable[[], Any]) -> Any:
        if self.crash_after == 0:
            raise CrashError
        result = write()
        self.done += 1
        if self.done == self.crash_after:
            raise CrashError
        return result


@contextmanager
def counted(crash_after: int | None = None) -> Iterator[Commits]:
    """Every commit that Spark makes goes through the counter."""
    commits = Commits(crash_after)
    sql: Callable[..., DataFrame] = SparkSession.sql
    save: Callable[..., None] = DataFrameWriter.saveAsTable

    def counted_sql(self: SparkSession, statement: str, *arguments: Any, **options: Any) -> DataFrame:
        is_commit = statement.startswith(_COMMITTING) and not statement.startswith(_NOT_COMMITTING)

        def run() -> DataFrame:
            return sql(self, statement, *arguments, **options)

        return commits.commit(run) if is_commit else run()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSession, "sql", counted_sql)
        patch.setattr(DataFrameWriter, "saveAsTable", lambda *args, **opts: commits.commit(lambda: save(*args, **opts)))
        yield commits


@dataclass(frozen=True)
class CleanStep:
    """A step of a clean load: the lake before it, how many commits it made, and what its tables held afterwards."""

    step: Step
    before: Path
    commits: int
    content: dict[str, list[str]]


def _is_written(warehouse: Warehouse, before: Path, contract: TableContract) -> bool:
    """Whether the table has other files than in the lake before. If not, its rows need not be read: that costs most."""
    folder = f"{contract.schema}/{contract.name}"
    return warehouse.files(folder) != Warehouse(warehouse.spark, before, warehouse.landing).files(folder)


def _content(warehouse: Warehouse, before: Path, step: Step) -> dict[str, list[str]]:
    """What the table of the step, the quarantine and the ledger hold, but for facts of the run itself.

    Only those of them that the step wrote.
    """
    found = {}
    for contract in (step.contract, quarantine.CONTRACT, load_ledger.CONTRACT):
        if _is_written(warehouse, before, contract):
            rows = warehouse.table(contract)
            if contract is load_ledger.CONTRACT:
                # How often a crash made a load count again is no matter, and a repeated load finds its rows there.
                rows = rows.select("table_name", "_tech_batch_id", "rows_read").distinct()
            kept = rows.select(*(name for name in rows.columns if name not in _RUN_FACTS))
            found[contract.qualified_name] = sorted(map(str, kept.collect()))
    return found


def _commits_on_disk(lake: Path) -> int:
    return len(list(lake.glob("*/*/_delta_log/*.json")))


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_landing(tmp_path_factory.mktemp("crash") / "landing", SMALL_LANDING)


@pytest.fixture(scope="module")
def clean_load(spark: SparkSession, landing: Path, tmp_path_factory: pytest.TempPathFactory) -> list[CleanStep]:
    """The whole load, step by step."""
    root = tmp_path_factory.mktemp("clean")
    warehouse = Warehouse(spark, root / "lake", landing)
    steps = []
    for number, step in enumerate((*INGEST, *SILVER, *GOLD)):
        before = root / f"before_{number}"
        warehouse.lake.mkdir(exist_ok=True)
        shutil.copytree(warehouse.lake, before)
        on_disk, place = _commits_on_disk(warehouse.lake), warehouse.place
        with counted() as commits:
            step.run(place, None)
        assert commits.done == _commits_on_disk(warehouse.lake) - on_disk, f"{step.contract.name} commits unseen"
        steps.append(CleanStep(step, before, commits.done, _content(warehouse, before, step)))
    return steps


def test_s11_after_a_crash_at_any_commit_a_plain_run_gives_the_clean_result(
    clean_load: list[CleanStep], spark: SparkSession, landing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = 0
    for clean in clean_load:
        for crash_after in range(clean.commits + 1):
            points += 1
            where = f"{clean.step.contract.qualified_name}, crash after {crash_after} of {clean.commits} commits"
            crashed = Warehouse(spark, tmp_path / str(points) / "lake", landing)
            shutil.copytree(clean.before, crashed.lake)
            files = crashed.files("bronze", "silver", "gold", "ops")
            place = crashed.place
            with pytest.raises(CrashError), counted(crash_after):
                clean.step.run(place, None)
            if crash_after == 0:  # nothing is there that was not there before, so the plain run is the clean one
                assert crashed.files("bronze", "silver", "gold", "ops") == files, where
                continue
            if _is_written(crashed, clean.before, customer.CONTRACT):
                _a_live_customer_has_a_current_row(crashed)
            clean.step.run(crashed.place, None)
            assert _content(crashed, clean.before, clean.step) == clean.content, where
    with capsys.disabled():
        sys.stdout.write(f"\ncrash points: {points}, over {len(clean_load)} steps\n")
    assert points == sum(clean.commits + 1 for clean in clean_load)


def _a_live_customer_has_a_current_row(warehouse: Warehouse) -> None:
    rows = warehouse.table(customer.CONTRACT).select("customer_id", "_tech_is_current").collect()
    assert {row["customer_id"] for row in rows if row["_tech_is_current"]} == {row["customer_id"] for row in rows}
