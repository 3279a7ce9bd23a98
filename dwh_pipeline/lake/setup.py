"""`python -m dwh_pipeline.lake.setup`: what a session needs and pip does not bring, made once and tried.

Versions, Java, the Delta jars, then a self-test of the three together, whose classes are kept in an archive that later
sessions start from. Safe to call again: what is there is kept.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from dwh_pipeline.errors import SessionError, WarehouseError
from dwh_pipeline.lake import jars
from dwh_pipeline.lake.session import end_java, open_session
from dwh_pipeline.settings import Settings, load_settings

_SELF_TEST = "--self-test"
_SELF_TEST_TIMEOUT_SECONDS = 900


def main() -> None:
    """Set up, one line for each thing; or, with `--self-test <folder> <archive>`, be the process that is tried."""
    try:
        if sys.argv[1:2] == [_SELF_TEST]:
            _self_test(Path(sys.argv[2]), Path(sys.argv[3]))
        else:
            _set_up()
    except WarehouseError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


def build_class_archive(settings: Settings) -> Path:
    """The archive of Java classes in the jars' folder, made anew by the self-test.

    A session that starts from it reads the classes of Spark and Delta ready-made. Java ignores an archive that does not
    fit its version or the jars, so an old one costs time and nothing else.

    Raises:
        SessionError: create, MERGE or read does not work with these versions.
    """
    archive = settings.jars / jars.CLASS_ARCHIVE
    with TemporaryDirectory(dir=settings.jars, prefix="self-test-") as folder:
        new = Path(folder) / jars.CLASS_ARCHIVE
        command = [sys.executable, "-m", "dwh_pipeline.lake.setup", _SELF_TEST, folder, str(new)]
        try:
            tried = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_SELF_TEST_TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise SessionError(f"the self-test of Spark took more than {_SELF_TEST_TIMEOUT_SECONDS} s") from None
        if tried.returncode:
            last = (tried.stderr.strip().splitlines() or ["it did not say why"])[-1]
            raise SessionError(f"the self-test of Spark with Delta failed: {last}")
        if new.is_file():
            new.replace(archive)
    return archive


def _set_up() -> None:
    settings = load_settings(allow_temporary=True)  # nothing is put into the lake here
    jars.check_versions()
    _say("Packages", ", ".join(f"{package} {tested}" for package, tested in jars.TESTED_VERSIONS.items()))
    _say("Java", str(jars.check_java(settings.java_home)))
    _say("Delta jars", f"{len(jars.fetch_jars(settings.jars))} in {settings.jars}")
    archive = build_class_archive(settings)
    _say("Self-test", "create, MERGE and read work")
    size = f"{archive.stat().st_size // 2**20} MB, lets Spark start faster" if archive.is_file() else "not made"
    _say("Class archive", size)


def _self_test(folder: Path, archive: Path) -> None:
    """One small table through the statements that loads are made of, on the class path that sessions have."""
    settings = load_settings(allow_temporary=True).model_copy(
        update={"lake": folder, "spark_master": "local[2]", "spark_remote": None, "spark_conf": None}
    )
    spark = open_session(settings, archive_to=archive)
    try:
        table = f"delta.`{folder / 'table'}`"
        spark.sql(f"CREATE TABLE {table} (id INT, value STRING) USING DELTA")
        spark.sql(f"INSERT INTO {table} VALUES (1, 'one'), (2, 'two')")  # noqa: S608
        spark.sql(
            f"MERGE INTO {table} t USING (SELECT id + 1 AS id, upper(value) AS value FROM {table}) s ON t.id = s.id "  # noqa: S608
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        found = spark.sql(f"SELECT id, max(value) FROM {table} GROUP BY id ORDER BY id").collect()  # noqa: S608
        rows = [tuple(row) for row in found]
    except Exception as error:
        raise SessionError(str(error).splitlines()[0]) from error
    finally:
        end_java(spark)
    wanted = [(1, "one"), (2, "ONE"), (3, "TWO")]
    if rows != wanted:
        raise SessionError(f"MERGE gave {rows}, not {wanted}")


def _say(what: str, result: str) -> None:
    sys.stdout.write(f"{what + ':':<15}{result}\n")


if __name__ == "__main__":
    main()
