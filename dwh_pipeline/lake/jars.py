"""The Delta jars: fetched once into a folder of the project, then put on Spark's class path.

Spark ships most of what Delta's own dependency list names, so those are excluded and eight small jars remain. Which
versions belong together is decided in pyproject.toml and docs/decisions/0002-version-triple.md.
"""

import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dwh_pipeline.errors import SessionError

DELTA_PACKAGE = "io.delta:delta-spark_4.1_2.13:4.4.0"
TESTED_VERSIONS = {"pyspark": "4.1.4", "delta-spark": "4.4.0"}
JAVA_VERSIONS = (17, 21)
CLASS_ARCHIVE = "classes.jsa"

_MAIN_JAR = "io.delta_delta-spark_4.1_2.13-4.4.0.jar"
# Spark already ships these; a second copy only slows the start or clashes.
_EXCLUDED = (
    "org.apache.hadoop:*",
    "org.apache.parquet:*",
    "com.fasterxml.jackson.core:*",
    "com.fasterxml.jackson.datatype:*",
    "com.fasterxml.jackson.module:*",
    "org.apache.logging.log4j:*",
    "org.slf4j:*",
    "org.locationtech.jts:*",
    "org.roaringbitmap:*",
)


def check_versions() -> None:
    """The installed Python packages are the tested ones.

    Raises:
        SessionError: a package is missing or has another version; names both versions.
    """
    for package, tested in TESTED_VERSIONS.items():
        try:
            installed = version(package)
        except PackageNotFoundError:
            installed = "not installed"
        if installed != tested:
            raise SessionError(f"{package} is {installed}, but {tested} is the tested version; run: make setup")


def check_java(java_home: Path | None) -> None:
    """A Java that Spark runs on is at `java_home` or, without one, on the path.

    Raises:
        SessionError: there is none, or its version is not supported.
    """
    java = str(java_home / "bin" / "java") if java_home else "java"
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
        major = int(text.split('"')[1].split(".")[0])
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        raise SessionError("Java was not found; install Java 17 and put it on PATH or set JAVA_HOME") from None
    if major not in JAVA_VERSIONS:
        supported = " or ".join(map(str, JAVA_VERSIONS))
        raise SessionError(f"Java is version {major}, but Spark needs {supported}; install it or set JAVA_HOME to it")


def jar_paths(folder: Path) -> tuple[Path, ...]:
    """The Delta jars in the folder, in a fixed order.

    Raises:
        SessionError: the jar of the tested Delta version is not there.
    """
    if not (folder / _MAIN_JAR).is_file():
        raise SessionError(f"the Delta jar {_MAIN_JAR} is not in {folder}; run: make setup (or set DWH_JARS)")
    return tuple(sorted(folder.glob("*.jar")))


def fetch_jars(folder: Path) -> tuple[Path, ...]:
    """Resolve the Delta jars with Spark's own Ivy and keep them in the folder. Does nothing where they are.

    Raises:
        SessionError: a jar could not be resolved.
    """
    if not (folder / _MAIN_JAR).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        ivy = folder / "ivy"
        # Resolution happens while Spark starts; a process of its own keeps its class path out of ours.
        resolved = subprocess.run(
            [sys.executable, "-c", _RESOLVE, DELTA_PACKAGE, ",".join(_EXCLUDED), str(ivy)],
            capture_output=True,
            text=True,
            check=False,
        )
        if resolved.returncode:
            reason = next((line for line in resolved.stderr.splitlines() if "unresolved" in line.lower()), "no network?")
            raise SessionError(f"the Delta jars ({DELTA_PACKAGE}) could not be resolved: {reason.strip()}")
        for jar in (ivy / "jars").glob("*.jar"):
            shutil.copy2(jar, folder / jar.name)
        shutil.rmtree(ivy)
    return jar_paths(folder)


_RESOLVE = """
import sys
from pyspark.sql import SparkSession
package, excludes, ivy = sys.argv[1:]
SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.jars.packages", package) \\
    .config("spark.jars.excludes", excludes).config("spark.jars.ivy", ivy).getOrCreate().stop()
"""
