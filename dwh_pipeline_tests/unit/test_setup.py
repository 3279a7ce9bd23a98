"""What is missing or wrong on a machine is told in one line that says what to do. No Java is started here."""

import hashlib
from pathlib import Path

import pytest

from dwh_pipeline.errors import SessionError
from dwh_pipeline.lake import jars, session
from dwh_pipeline.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def _no_conf_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of Spark but those of the test."""
    monkeypatch.delenv("DWH_SPARK_CONF", raising=False)


def java_that_says(folder: Path, first_line: str, *, exit_code: int = 0) -> Path:
    """A JAVA_HOME whose `java` prints this on standard error, as `java -version` does."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{first_line}' >&2\nexit {exit_code}\n", encoding="utf-8")
    java.chmod(0o755)
    return folder


@pytest.fixture
def jar_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds every jar, as far as `jars` can tell."""
    content = {name: name.encode() for name in jars.JARS}
    for name, bytes_ in content.items():
        (tmp_path / name).write_bytes(bytes_)
    monkeypatch.setattr(jars, "JARS", {name: hashlib.sha256(bytes_).hexdigest() for name, bytes_ in content.items()})
    return tmp_path


def settings_of(tmp_path: Path, **options: object) -> Settings:
    return load_settings(lake=tmp_path / "lake", allow_temporary=True, jars=tmp_path, **options)


def one_line(caught: pytest.ExceptionInfo[SessionError]) -> str:
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("first_line", "major"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('openjdk version "21" 2023-09-19 LTS', 21)],
)
def test_a_java_that_spark_runs_on_is_accepted(tmp_path: Path, first_line: str, major: int) -> None:
    assert jars.check_java(java_that_says(tmp_path, first_line)) == major


@pytest.mark.parametrize(
    ("first_line", "major"),
    [('openjdk version "11.0.20" 2023-07-18', 11), ('java version "1.8.0_392"', 8), ('openjdk version "25"', 25)],
)
def test_a_java_of_another_version_is_named_with_the_versions_that_work(
    tmp_path: Path, first_line: str, major: int
) -> None:
    with pytest.raises(SessionError) as caught:
        jars.check_java(java_that_says(tmp_path, first_line))
    assert f"Java is version {major}, but Spark needs 17 or 21" in one_line(caught)


def test_what_other_programs_say_before_the_version_is_passed_over(tmp_path: Path) -> None:
    home = java_that_says(tmp_path, 'Picked up JAVA_TOOL_OPTIONS: -Dname="11"\nopenjdk version "17.0.1" 2021-10-19')
    assert jars.check_java(home) == 17


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(SessionError) as caught:
        jars.check_java(tmp_path)
    assert f"JAVA_HOME={tmp_path} has no working bin/java; install Java 17 or 21" in one_line(caught)


def test_a_java_that_cannot_run_counts_as_missing(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="Java was not found"):
        jars.check_java(java_that_says(tmp_path, "cannot execute", exit_code=1))


def test_no_java_on_the_path_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SessionError) as caught:
        jars.check_java(None)
    assert "there is no working java on PATH" in one_line(caught)


@pytest.mark.parametrize("package", ["pyspark", "delta-spark"])
def test_another_package_version_is_refused_with_both_versions(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    installed = jars.TESTED_VERSIONS[package]
    monkeypatch.setattr(jars, "TESTED_VERSIONS", {package: "9.9.9"})
    with pytest.raises(SessionError) as caught:
        jars.check_versions()
    assert one_line(caught) == f"{package} is {installed}, but 9.9.9 is the tested version; run: make setup"


def test_a_package_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "TESTED_VERSIONS", {"no-such-package-of-ours": "1.0"})
    with pytest.raises(SessionError, match="no-such-package-of-ours is not installed"):
        jars.check_versions()


def test_the_jars_are_listed_in_a_fixed_order_without_other_files(jar_folder: Path) -> None:
    (jar_folder / "another.jar").write_bytes(b"of somebody else")
    assert [path.name for path in jars.jar_paths(jar_folder)] == list(jars.JARS)


@pytest.mark.parametrize("name", list(jars.JARS))
def test_a_missing_jar_names_make_setup(jar_folder: Path, name: str) -> None:
    (jar_folder / name).unlink()
    with pytest.raises(SessionError) as caught:
        jars.jar_paths(jar_folder)
    assert f"the Delta jar {name} is not in {jar_folder}; run: make setup" in one_line(caught)


def test_a_jar_that_was_changed_is_refused(jar_folder: Path) -> None:
    changed = jar_folder / next(iter(jars.JARS))
    changed.write_bytes(b"something else")
    with pytest.raises(SessionError) as caught:
        session.session_config(settings_of(jar_folder))
    assert f"{changed} is not the tested jar" in one_line(caught)
    assert "delete it, then run: make setup" in one_line(caught)


def test_jars_that_are_there_are_not_fetched_again(jar_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_resolve", lambda _: pytest.fail("the network was asked"))
    assert len(jars.fetch_jars(jar_folder)) == len(jars.JARS)


def test_a_fetch_that_breaks_off_leaves_a_folder_that_is_not_complete(
    jar_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = jars.JARS
    for name in others:
        (jar_folder / name).unlink()

    def killed(ivy: Path) -> None:
        (ivy / "jars").mkdir()
        (ivy / "jars" / others[0]).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(jars, "_resolve", killed)
    with pytest.raises(KeyboardInterrupt):
        jars.fetch_jars(jar_folder)
    assert [path.name for path in jar_folder.iterdir()] == [first]


def test_a_fetched_jar_that_is_not_the_tested_one_is_refused(jar_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = next(iter(jars.JARS))
    (jar_folder / replaced).unlink()

    def fetch_another(ivy: Path) -> None:
        (ivy / "jars").mkdir()
        for name in jars.JARS:
            (ivy / "jars" / name).write_bytes(b"another" if name == replaced else name.encode())

    monkeypatch.setattr(jars, "_resolve", fetch_another)
    with pytest.raises(SessionError, match="is not the tested jar"):
        jars.fetch_jars(jar_folder)


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (
            "\t:: io.delta#delta-spark;9.9: not found\nException in thread main: x\n\tat a.b",
            "io.delta#delta-spark;9.9: not found",
        ),
        (
            "\tHost a.example not found. url=https://a.example/x\n:: d: not found",
            "Host a.example not found. (no network?)",
        ),
        (
            "Exception in main: A\n\tat b\nCaused by: no name of this machine\n\tat c",
            "Caused by: no name of this machine",
        ),
        ("", "Spark did not say why"),
    ],
)
def test_one_line_of_the_resolution_report_says_what_is_wrong(report: str, reason: str) -> None:
    assert jars._reason(report) == reason


def test_settings_of_the_conf_file_win_over_ours(jar_folder: Path) -> None:
    conf = jar_folder / "spark.conf"
    conf.write_text(
        "# comment\n\nspark.sql.shuffle.partitions 3\nspark.app.name = mine\n"
        "spark.driver.extraJavaOptions -Da=b -Dc=d\n",
        encoding="utf-8",
    )
    config = session.session_config(settings_of(jar_folder, spark_conf=conf))
    assert config["spark.sql.shuffle.partitions"] == "3"
    assert config["spark.app.name"] == "mine"
    assert config["spark.driver.extraJavaOptions"] == "-Da=b -Dc=d"


def test_a_line_of_the_conf_file_that_is_no_setting_is_named(jar_folder: Path) -> None:
    conf = jar_folder / "spark.conf"
    conf.write_text("spark.sql.shuffle.partitions 3\nshuffle.partitions 4\n", encoding="utf-8")
    with pytest.raises(SessionError, match=r"spark\.conf: not 'spark\.key value': shuffle\.partitions"):
        session.session_config(settings_of(jar_folder, spark_conf=conf))


def test_the_class_archive_is_used_where_there_is_one(jar_folder: Path) -> None:
    options = "spark.driver.extraJavaOptions"
    assert jars.CLASS_ARCHIVE not in session.session_config(settings_of(jar_folder))[options]
    (jar_folder / jars.CLASS_ARCHIVE).touch()
    assert (
        f'-XX:SharedArchiveFile="{jar_folder / jars.CLASS_ARCHIVE}"'
        in (session.session_config(settings_of(jar_folder))[options])
    )


def test_a_fast_start_is_for_short_runs_only(jar_folder: Path) -> None:
    options, codegen = "spark.driver.extraJavaOptions", "spark.sql.codegen.wholeStage"
    usual, fast = (session.session_config(settings_of(jar_folder, fast_start=fast)) for fast in (False, True))
    assert "TieredStopAtLevel" not in usual[options]
    assert codegen not in usual
    assert "TieredStopAtLevel=1" in fast[options]
    assert fast[codegen] == "false"


def test_only_a_local_master_is_bound_to_this_machine(jar_folder: Path) -> None:
    assert session.session_config(settings_of(jar_folder))["spark.driver.bindAddress"] == "127.0.0.1"
    config = session.session_config(settings_of(jar_folder, spark_master="spark://master:7077"))
    assert "spark.driver.bindAddress" not in config
