"""The one factory of Spark sessions, and the proof that a session is fit for use.

The only module that may know about a JVM. Nothing about tables here.
"""

from pathlib import Path

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

# Measured on two cores for tables of this size (docs/decisions/0003-session-settings.md).
_TUNING = {
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.maxResultSize": "256m",
    # Each DataFrame call would ask the JVM for the call site: four fifths of the time that it takes to build our plans.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}


def session_config(settings: Settings) -> dict[str, str]:
    """Every `spark.*` setting that a session of this warehouse starts with.

    Settings in the file `settings.spark_conf` win over ours.

    Raises:
        SessionError: the Delta jars are not where `settings.jars` says, or the file cannot be read.
    """
    classpath = ":".join(str(path) for path in jars.jar_paths(settings.jars))
    java_options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
    archive = settings.jars / jars.CLASS_ARCHIVE
    if archive.is_file():
        java_options += f" -XX:SharedArchiveFile={archive}"
    ours = {
        "spark.app.name": "dwh_pipeline",
        "spark.master": settings.spark_master,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraClassPath": classpath,
        "spark.executor.extraClassPath": classpath,
        "spark.driver.extraJavaOptions": java_options,
        **_TUNING,
        **_REQUIRED,
    }
    return ours | (_read_conf(settings.spark_conf) if settings.spark_conf else {})


def open_session(settings: Settings) -> SparkSession:
    """A verified session: a new one, or the one that is running in this process.

    Raises:
        SessionError: Java, a package or a jar is missing or has the wrong version, or the running session cannot be
            used; one line that says what to do.
    """
    builder = SparkSession.Builder()
    if settings.spark_remote:
        builder.remote(settings.spark_remote)
    else:
        jars.check_versions()
        jars.check_java(settings.java_home)
        for key, value in session_config(settings).items():
            builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        raise SessionError(f"Spark did not start: {str(error).splitlines()[0]}") from error
    verify(spark)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


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


def _read_conf(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SessionError(f"DWH_SPARK_CONF: {path} cannot be read ({error.strerror})") from None
    pairs = [line.replace("=", " ", 1).split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    bad = [pair[0] for pair in pairs if len(pair) != 2 or not pair[0].startswith("spark.")]  # noqa: PLR2004
    if bad:
        raise SessionError(f"DWH_SPARK_CONF: {path}: not 'spark.key value': {bad[0]}")
    return {key: value.strip() for key, value in pairs}
