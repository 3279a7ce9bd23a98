"""What all tests share: a marker by folder, one Spark session for the whole run, and lakes that nobody else uses.

Tests in `unit` do not ask for `spark`, so they start no Java.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dwh_pipeline.lake.catalog import LAKE_ROOT, use_lake
from dwh_pipeline.lake.session import open_session
from dwh_pipeline.settings import load_settings
from dwh_pipeline_tests.landings import SMALL_LANDING
from dwh_pipeline_tests.warehouse import Warehouse, write_landing

_TESTS = Path(__file__).parent
_TIERS = ("unit", "spark", "integration", "golden")
_SHARED_DATA = _TESTS.parent.parent / "shared" / "data"

# Small rows, many plans: what pays for itself on millions of rows only costs time here. Java compiles fully, though: in
# a run of all tests a load then takes two thirds of its time with DWH_FAST_START.
_SPARK_CONF = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.ui.enabled": "false",
    # Hundreds of lakes come and go. What is kept of each table and query (for a page that is off) would fill the heap.
    "spark.databricks.delta.delta.log.cacheSize": "40",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew; review the diff")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folders = item.path.relative_to(_TESTS).parts[:-1] if item.path.is_relative_to(_TESTS) else ()
        if folders and folders[0] in _TIERS:
            item.add_marker(folders[0])


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written instead of compared (`--update-golden`)."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of the whole run, from the project's own factory."""
    folder = tmp_path_factory.mktemp("spark")
    conf = folder / "spark.conf"
    conf.write_text("\n".join(f"{key} {value}" for key, value in _SPARK_CONF.items()), encoding="utf-8")
    settings = load_settings(
        lake=folder / "lake",
        allow_temporary=True,
        spark_master="local[2]",
        spark_conf=conf,
        driver_memory="2g",
        fast_start=False,
    )
    session = open_session(settings)
    with pytest.MonkeyPatch.context() as environment:
        # A Dagster run or a command gives the running session the settings of its environment: they are to be the same.
        environment.setenv("DWH_SPARK_CONF", str(conf))
        yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Path]:
    """The root of an empty lake, for one test; names of tables mean this lake."""
    with _lake(spark, tmp_path / "lake") as root:
        yield root


@pytest.fixture(scope="module")
def shared_lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Path]:
    """The root of a lake that all tests of a module share, for tables that are only read."""
    with _lake(spark, tmp_path_factory.mktemp("shared") / "lake") as root:
        yield root


@contextmanager
def _lake(spark: SparkSession, root: Path) -> Iterator[Path]:
    """Names mean the lake at `root`, afterwards the lake that they meant before."""
    before = spark.conf.get(LAKE_ROOT, None)
    use_lake(spark, root)
    yield root
    if before is not None:
        use_lake(spark, Path(before))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Warehouse:
    """A warehouse that has loaded `SMALL_LANDING`, only to be read; `copy` gives one that may be changed."""
    root = tmp_path_factory.mktemp("small")
    loaded = Warehouse(spark, root / "lake", write_landing(root / "landing", SMALL_LANDING))
    loaded.load()
    return loaded


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real files that others wrote; a test that needs it is skipped where it is not."""
    if not _SHARED_DATA.is_dir():
        pytest.skip(f"the real files are not here: {_SHARED_DATA}")
    return _SHARED_DATA
