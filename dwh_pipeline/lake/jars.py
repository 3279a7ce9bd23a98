"""The Delta jars: fetched once into a folder of the project, checked, then put on Spark's class path.

Spark ships most of what Delta's own dependency list names, so those are excluded and eight small jars remain. Which
versions belong together is decided in pyproject.toml and docs/decisions/0002-version-triple.md. Starting Spark with
them belongs to `session`.
"""

import hashlib
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from dwh_pipeline.errors import SessionError

DELTA_PACKAGE = "io.delta:delta-spark_4.1_2.13:4.4.0"
TESTED_VERSIONS: Mapping[str, str] = {"pyspark": "4.1.4", "delta-spark": "4.4.0"}
JAVA_VERSIONS = (17, 21)
CLASS_ARCHIVE = "classes.jsa"

# Every jar that sessions use, with the SHA-256 of the tested file.
JARS: Mapping[str, str] = {
    "com.google.code.findbugs_jsr305-3.0.2.jar": "766ad2a0783f2687962c8ad74ceecc38a28b9f72a2d085ee438b7813e928d0c7",
    "io.delta_delta-kernel-api-4.4.0.jar": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "io.delta_delta-kernel-defaults-4.4.0.jar": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    "io.delta_delta-kernel-unitycatalog-4.4.0.jar": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    "io.delta_delta-spark_4.1_2.13-4.4.0.jar": "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    "io.delta_delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "io.unitycatalog_unitycatalog-client-0.6.0.jar": "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
    "io.unitycatalog_unitycatalog-hadoop-0.6.0.jar": "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
}

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
_FETCH_TIMEOUT_SECONDS = 600


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


def check_java(java_home: Path | None) -> int:
    """The version of Java at `java_home` or, without one, on the path: one that Spark runs on.

    Raises:
        SessionError: there is none, or its version is not supported.
    """
    java = str(java_home / "bin" / "java") if java_home else "java"
    supported = " or ".join(map(str, JAVA_VERSIONS))
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        text = ""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if found is None:
        place = f"JAVA_HOME={java_home} has no working bin/java" if java_home else "there is no working java on PATH"
        raise SessionError(f"Java was not found: {place}; install Java {supported} or set JAVA_HOME to it")
    major = int(found[1])
    if major not in JAVA_VERSIONS:
        raise SessionError(f"Java is version {major}, but Spark needs {supported}; install it or set JAVA_HOME to it")
    return major


def jar_paths(folder: Path) -> tuple[Path, ...]:
    """The Delta jars in the folder, in a fixed order. Other files there are left alone.

    Raises:
        SessionError: a jar is missing or is not the tested file.
    """
    for name, tested in JARS.items():
        if not (folder / name).is_file():
            raise SessionError(f"the Delta jar {name} is not in {folder}; run: make setup (or set DWH_JARS)")
        found = _sha256(folder / name)
        if found != tested:
            raise SessionError(
                f"{folder / name} is not the tested jar (SHA-256 {found[:12]}..., tested {tested[:12]}...); "
                "delete it, then run: make setup"
            )
    return tuple(folder / name for name in JARS)


def fetch_jars(folder: Path) -> tuple[Path, ...]:
    """Resolve the Delta jars with Spark's own Ivy and keep them in the folder. Does nothing where they are.

    Raises:
        SessionError: a jar could not be resolved or is not the tested file.
    """
    if not all((folder / name).is_file() for name in JARS):
        folder.mkdir(parents=True, exist_ok=True)
        # A jar gets its name in `folder` in one step when it is complete, so a fetch that is killed leaves no half jar.
        with TemporaryDirectory(dir=folder, prefix="fetching-") as ivy:
            _resolve(Path(ivy))
            for name in JARS:
                fetched = Path(ivy) / "jars" / name
                if not fetched.is_file():
                    raise SessionError(
                        f"the Delta jars ({DELTA_PACKAGE}) were resolved without {name}; see lake/jars.py"
                    )
                fetched.replace(folder / name)
    return jar_paths(folder)


def _resolve(ivy: Path) -> None:
    """Have Spark put the jars into `<ivy>/jars`. It resolves before it starts Java, so no session is needed."""
    command = [sys.executable, "-c", _RESOLVE, DELTA_PACKAGE, ",".join(_EXCLUDED), str(ivy)]
    try:
        resolved = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise SessionError(
            f"the Delta jars ({DELTA_PACKAGE}) were not there after {_FETCH_TIMEOUT_SECONDS} s; check the network"
        ) from None
    if resolved.returncode:
        raise SessionError(f"the Delta jars ({DELTA_PACKAGE}) could not be resolved: {_reason(resolved.stderr)}")


def _reason(report: str) -> str:
    """The line of Ivy's report that says what is wrong."""
    lines = [line.strip(" :\t").partition(" url=")[0] for line in report.splitlines()]
    unreachable = [f"{line} (no network?)" for line in lines if line.startswith("Host ")]
    not_found = [line for line in lines if line.endswith(": not found")]
    errors = [line for line in lines if line.startswith(("Caused by", "Exception"))]
    return next(iter(unreachable + not_found + errors[::-1]), "Spark did not say why")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_RESOLVE = """
import sys
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway
package, excludes, ivy = sys.argv[1:]
conf = SparkConf().setMaster("local[1]").set("spark.jars.packages", package)
launch_gateway(conf.set("spark.jars.excludes", excludes).set("spark.jars.ivy", ivy))
"""
