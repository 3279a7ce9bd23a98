"""What integration tests build on: a landing area, a loaded warehouse, and what it looks like. No test here."""

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

from dwh_pipeline.contracts.outcomes import LoadReport
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.lake import catalog
from dwh_pipeline.loads import warehouse
from dwh_pipeline.loads.place import Place
from dwh_pipeline.tables.registry import LOADED


def write_landing(root: Path, files: Mapping[str, str]) -> Path:
    """A landing area with these files (path below the root -> text), `feeds.toml` among them or there already."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@dataclass(frozen=True)
class Warehouse:
    """A warehouse in a lake of its own."""

    spark: SparkSession
    lake: Path
    landing: Path

    @property
    def place(self) -> Place:
        catalog.use_lake(self.spark, self.lake)
        return Place(self.spark, self.landing, self.lake / "_checkpoints")

    def copy(self, root: Path) -> "Warehouse":
        """The same lake and landing area below `root`, to be changed."""
        lake, landing = (shutil.copytree(folder, root / folder.name) for folder in (self.lake, self.landing))
        return Warehouse(self.spark, lake, landing)

    def load(self) -> dict[str, LoadReport]:
        """Load everything that is new; reports by table."""
        return {report.table: report for report in warehouse.run(self.place)}

    def step(self, *tables: str) -> dict[str, LoadReport]:
        """Load these tables (`schema.name`) alone, in the order of the warehouse; reports by table."""
        steps = (*warehouse.INGEST, *warehouse.SILVER, *warehouse.GOLD)
        chosen = [step for step in steps if step.contract.qualified_name in tables]
        return {step.contract.qualified_name: step.run(self.place, None) for step in chosen}

    def files(self, *folders: str) -> set[str]:
        """Every file below these folders of the lake (default: all of it), without checksums."""
        roots = [self.lake / folder for folder in folders] or [self.lake]
        found = (path for root in roots for path in root.rglob("*") if path.is_file() and path.suffix != ".crc")
        return {path.relative_to(self.lake).as_posix() for path in found}

    def table(self, contract: TableContract) -> DataFrame:
        """The rows of a table, without the time of loading."""
        return catalog.read(self.spark, self.place.name(contract)).drop("_tech_loaded_at")

    def outcomes(self, report: LoadReport) -> dict[str, int]:
        """The outcomes of a load by name, for comparing."""
        return {outcome.value: count for outcome, count in report.outcomes.items()}

    def versions(self) -> dict[str, int]:
        """The newest Delta version of every table that loads write, from its log."""
        return {
            contract.qualified_name: max(int(path.stem) for path in log.glob("*.json"))
            for contract in LOADED
            if (log := self.lake / contract.schema / contract.name / "_delta_log").is_dir()
        }


def rows_of(frame: DataFrame) -> Counter[Row]:
    """The rows as a multiset, for comparing: two of `exceptAll` cost far more for some thousand rows."""
    return Counter(frame.collect())
