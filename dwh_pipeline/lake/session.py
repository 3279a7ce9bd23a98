"""The one factory of Spark sessions, and the proof that a session is fit for use.

The only module that may know about a JVM. Nothing about tables here; which jars there are is in `jars`.
"""

import os
import re
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from dwh_pipeline.errors import SessionError
from dwh_pipeline.lake import jars
from dwh_pipeline.settings import Settings

_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

# What a load relies on. `getOrCreate` on a running session ignores some of these without a word, hence `verify`.
_REQUIRED = {
    "spark.sql.extensions": _DELTA_EXTENSION,
    "spark.sql.catalog.spark_catalog": _DELTA_CATALOG,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
}

# One machine: nothing of it listens to the network, and its name need not resolve.
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

# Measured on two cores for tables of this size (docs/decisions/0003-session-settings.md).
_TUNING = {
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "4",
    # Deriving constraints from forty columns takes longer than all else in planning, and only saves filters on NULL.
    "spark.sql.constraintPropagation.enabled": "false",
    # The source of our MERGE is a plan that is kept already; a second copy would only cost.
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.maxResultSize": "256m",
    # Each DataFrame call would ask Java for the call site: a good part of the time that it takes to build our plans.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # A VACUUM would list the few folders of a table in 10,000 tasks: 85 s instead of 1 s.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}

# For runs of a minute or two over some thousand rows: compiling plans to Java code takes longer than interpreting them.
_FAST_START = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.adaptive.enabled": "false",
}

# PySpark prints each error of a query with a Java trace, as JSON, before it raises it.
_PYSPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

_LOGGING = Path(__file__).parent / "log4j2.properties"
_starting = Lock()


def session_config(settings: Settings, *, archive_to: Path | None = None) -> dict[str, str]:
    """Every `spark.*` setting that a session of this warehouse starts with.

    Settings in the file `settings.spark_conf` win over ours. With `archive_to`, Java writes the classes that the
    session used to that file when it ends; otherwise it starts with such an archive where there is one.

    Raises:
        SessionError: the Delta jars are not where `settings.jars` says, or the file cannot be read.
    """
    classpath = ":".join(str(path) for path in jars.jar_paths(settings.jars))
    ours = {
        "spark.app.name": "dwh_pipeline",
        "spark.master": settings.spark_master,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraClassPath": classpath,
        "spark.executor.extraClassPath": classpath,
        "spark.driver.extraJavaOptions": " ".join(_java_options(settings, archive_to)),
        # Tables are folders of the lake; without this Spark makes a folder spark-warehouse wherever it is started.
        "spark.sql.warehouse.dir": str(settings.lake),
        **(_LOCAL if settings.spark_master.startswith("local") else {}),
        **_TUNING,
        **(_FAST_START if settings.fast_start else {}),
        **_REQUIRED,
    }
    return ours | (_read_conf(settings.spark_conf) if settings.spark_conf else {})


def open_session(settings: Settings, *, archive_to: Path | None = None) -> SparkSession:
    """A verified session: a new one, or the one that is running in this process. `archive_to`: see `session_config`.

    Raises:
        SessionError: Java, a package or a jar is missing or has the wrong version, or the running session cannot be
            used; one line that says what to do.
    """
    builder = SparkSession.Builder()
    try:
        if settings.spark_remote:
            builder.remote(settings.spark_remote)
        else:
            jars.check_versions()
            jars.check_java(settings.java_home)
            config = session_config(settings, archive_to=archive_to)
            for key, value in config.items():
                builder.config(key, value)
            with _starting:
                if SparkContext._gateway is None:
                    conf = SparkConf().setAll(list(config.items()))
                    SparkContext(conf=conf, gateway=_launch_java(conf))
        spark = builder.getOrCreate()
    except SessionError:
        raise
    except Exception as error:
        raise SessionError(f"Spark did not start: {_reason(error)}") from error
    for name in _PYSPARK_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    verify(spark)
    return spark


def end_java(spark: SparkSession) -> None:
    """Stop the session and wait until its Java has ended, with all that it writes when it ends."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    if gateway is not None:
        gateway.proc.stdin.close()  # Spark's Java ends when its input does
        gateway.proc.wait()


def verify(spark: SparkSession) -> None:
    """The session has the Delta extension and catalog, UTC and ANSI mode.

    Raises:
        SessionError: names the setting, what it is and what it has to be.
    """
    for key, required in _REQUIRED.items():
        actual = spark.conf.get(key, "")
        if required not in (actual or ""):
            raise SessionError(
                f"the running Spark session has {key}={actual!r}, but {required!r} is needed; "
                "stop that session, or start this program in a process of its own"
            )


def _java_options(settings: Settings, archive_to: Path | None) -> list[str]:
    archive = settings.jars / jars.CLASS_ARCHIVE
    return [
        "-XX:+UseSerialGC",
        "-Xlog:disable",  # Java would print on our standard output, for example that an archive does not fit it
        f'-Dlog4j2.configurationFile="{_LOGGING}"',
        # With one compiler Java reserves 48 MB for its code. Our plans fill that; then it compiles no more, or ends.
        *(["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m"] if settings.fast_start else []),
        *([f'-XX:ArchiveClassesAtExit="{archive_to}"'] if archive_to else []),
        *([f'-XX:SharedArchiveFile="{archive}"'] if not archive_to and archive.is_file() else []),
    ]


def _launch_java(conf: SparkConf) -> Any:
    """Start Spark's Java as PySpark would, but hold back what it prints until it is up: only a failure makes that news.

    What it prints later goes to standard error, whichever stream Java used.
    """
    reader, writer = os.pipe()
    first_lines: deque[str] = deque(maxlen=20)
    is_up = Event()

    def pass_on() -> None:
        with os.fdopen(reader, "rb") as output:
            for line in output:
                if is_up.is_set():
                    with suppress(OSError):
                        os.write(2, line)
                else:
                    first_lines.append(line.decode(errors="replace").strip())

    listener = Thread(target=pass_on, name="java-output", daemon=True)
    listener.start()
    try:
        gateway = launch_gateway(conf, {"stdout": writer, "stderr": writer})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError:
        os.close(writer)
        listener.join(timeout=5)
        raise SessionError(f"Java did not start: {' '.join(first_lines)}") from None
    os.close(writer)
    is_up.set()
    return gateway


def _reason(error: Exception) -> str:
    """The one line of the error that says what is wrong."""
    java_exception = getattr(error, "java_exception", None)  # of py4j's error, whose own text is a Java trace
    text = str(error) if java_exception is None else str(java_exception.toString())
    return text.splitlines()[0] if text else type(error).__name__


def _read_conf(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SessionError(f"DWH_SPARK_CONF: {path} cannot be read ({error.strerror})") from None
    settings = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    pairs = [re.split(r"\s*[\s=]\s*", line, maxsplit=1) for line in settings]
    bad = [pair[0] for pair in pairs if len(pair) != 2 or not pair[0].startswith("spark.")]  # noqa: PLR2004
    if bad:
        raise SessionError(f"DWH_SPARK_CONF: {path}: not 'spark.key value': {bad[0]}")
    return dict(pairs)
