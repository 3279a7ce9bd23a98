"""Where a setting comes from, and what is said of one that cannot be used."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from dwh_pipeline.contracts.health import Limits
from dwh_pipeline.errors import SettingsError
from dwh_pipeline.settings import Settings, load_settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the machine, and no `.env` in the working folder."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"DWH_{name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)


def test_without_any_setting_everything_is_in_the_project() -> None:
    settings = load_settings(allow_temporary=True)  # the project itself may have been cloned into a temporary folder
    assert settings.landing == ROOT / "data" / "landing"
    assert settings.lake == ROOT / ".lake"
    assert settings.checkpoint_root == ROOT / ".lake" / "_checkpoints"
    assert settings.environment == "local"
    assert Settings.model_fields["allow_temporary"].default is False


def test_an_option_wins_over_the_environment_and_that_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("DWH_ENVIRONMENT=file\nDWH_LAKE=/srv/file\nDWH_LANDING=/srv/file\n")
    monkeypatch.setenv("DWH_LAKE", "/srv/environment")
    monkeypatch.setenv("DWH_LANDING", "/srv/environment")
    settings = load_settings(landing=Path("/srv/option"), lake=None)
    assert settings.landing == Path("/srv/option")
    assert settings.lake == Path("/srv/environment")
    assert settings.environment == "file"


def test_checkpoints_follow_the_lake_unless_they_are_set() -> None:
    assert load_settings(lake=Path("/srv/lake")).checkpoint_root == Path("/srv/lake/_checkpoints")
    chosen = load_settings(lake=Path("/srv/lake"), checkpoints=Path("/srv/checkpoints"))
    assert chosen.checkpoint_root == Path("/srv/checkpoints")


def test_a_path_may_start_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert load_settings(lake=Path("~/lake")).lake == Path("/home/someone/lake")


@pytest.mark.parametrize("name", ["landing", "lake", "checkpoints", "jars", "spark_conf"])
def test_a_relative_path_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"DWH_{name.upper()}", "some/folder")
    with pytest.raises(SettingsError, match="must be an absolute path, not 'some/folder'") as raised:
        load_settings()
    assert raised.value.setting == f"DWH_{name.upper()}"


@pytest.mark.parametrize("name", ["lake", "checkpoints"])
def test_a_temporary_folder_is_refused_unless_it_is_allowed(tmp_path: Path, name: str) -> None:
    options: dict[str, object] = {"lake": Path("/srv/lake")}
    options[name] = tmp_path / "root"
    with pytest.raises(
        SettingsError, match=rf"DWH_{name.upper()}: is inside a temporary folder.*DWH_ALLOW_TEMPORARY=1"
    ):
        load_settings(**options)
    assert getattr(load_settings(**options, allow_temporary=True), name) == tmp_path / "root"


def test_a_temporary_folder_is_seen_however_it_is_written() -> None:
    with pytest.raises(SettingsError, match="is inside a temporary folder"):
        load_settings(lake=Path("/srv/../tmp/lake"))


def test_a_setting_that_is_not_of_its_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DWH_ALLOW_TEMPORARY", "perhaps")
    with pytest.raises(SettingsError, match=r"^DWH_ALLOW_TEMPORARY: ") as raised:
        load_settings()
    assert raised.value.setting == "DWH_ALLOW_TEMPORARY"


def test_settings_do_not_change() -> None:
    settings = load_settings(lake=Path("/srv/lake"))
    with pytest.raises(ValidationError, match="frozen"):
        settings.lake = Path("/srv/other")


@pytest.mark.parametrize(
    ("limit", "text", "message"),
    [
        ("HOT_KEY_WARN_SHARE", "10", "hot_key_warn_share must be from 0 to 1, not 10"),
        ("HOT_KEY_WARN_SHARE", "nan", "hot_key_warn_share must be from 0 to 1, not nan"),
        ("REPLAY_WINDOW_DAYS", "-1", "replay_window_days must be 0 or more, not -1"),
        ("REPLAY_WINDOW", "7", "has no limit 'replay_window'; choose from .*replay_window_days"),
        ("HOT_KEY_MIN_ROWS", "many", "valid integer"),
    ],
)
def test_a_limit_that_is_not_known_or_out_of_range_is_refused(
    monkeypatch: pytest.MonkeyPatch, limit: str, text: str, message: str
) -> None:
    monkeypatch.setenv(f"DWH_HEALTH__{limit}", text)
    with pytest.raises(SettingsError, match=message) as raised:
        load_settings(allow_temporary=True)
    assert raised.value.setting.startswith("DWH_HEALTH")


def test_limits_are_set_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DWH_HEALTH__HOT_KEY_WARN_SHARE", "1")
    monkeypatch.setenv("DWH_HEALTH__HOT_KEY_MIN_ROWS", "0")
    limits = load_settings(allow_temporary=True).health
    assert limits == Limits(hot_key_warn_share=1.0, hot_key_min_rows=0)
