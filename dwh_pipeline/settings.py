"""Settings of a warehouse: environment, then a `.env` file, into one frozen `Settings`.

The only reader of the environment. What the settings mean to Spark belongs to `lake.session`.
"""

import math
import tempfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from dwh_pipeline.contracts.health import Limits
from dwh_pipeline.errors import SettingsError

_PROJECT = Path(__file__).parent.parent


class Settings(BaseSettings):
    """Where the warehouse lives and how Spark is started. Every field is `DWH_<FIELD>` in the environment.

    `landing`: the folder with `feeds.toml` and the deliveries. `lake`: root of all tables. `checkpoints`: root of the
    stream checkpoints, `<lake>/_checkpoints` unless set. `environment`: which environment this is (`local`, `ci`,
    `production`). `jars`: the folder with the Delta jars. `spark_conf`: a file of `spark.*` settings that win over
    ours. `driver_memory`: heap of the driver, in Spark's notation. `fast_start`: let Java compile lightly, so that runs
    of a minute or two are faster and long ones slower (demo and tests). `allow_temporary`: accept a lake inside a
    temporary folder (tests only). `java_home`: the Java that Spark starts, from JAVA_HOME as everywhere. `health`: the
    limits of the health rules, each `DWH_HEALTH__<FIELD>`.
    """

    model_config = SettingsConfigDict(
        env_prefix="DWH_", env_file=".env", env_nested_delimiter="__", frozen=True, extra="ignore"
    )

    landing: Path = _PROJECT / "data" / "landing"
    lake: Path = _PROJECT / ".lake"
    checkpoints: Path | None = None
    environment: str = "local"
    jars: Path = _PROJECT / ".jars"
    spark_master: str = "local[*]"
    spark_remote: str | None = None
    spark_conf: Path | None = None
    driver_memory: str = "2g"
    fast_start: bool = False
    allow_temporary: bool = False
    java_home: Path | None = Field(default=None, validation_alias="JAVA_HOME")
    health: Limits = Limits()

    @field_validator("landing", "lake", "checkpoints", "jars", "spark_conf")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not value.expanduser().is_absolute():
            raise ValueError(f"must be an absolute path, not {str(value)!r}")
        return None if value is None else value.expanduser()

    @field_validator("health", mode="before")
    @classmethod
    def _known(cls, value: object) -> object:
        known = [limit.name for limit in fields(Limits)]
        for name in value if isinstance(value, dict) else ():
            if name not in known:
                raise ValueError(f"has no limit {name!r}; choose from {', '.join(known)}")
        return value

    @field_validator("health")
    @classmethod
    def _in_range(cls, value: Limits) -> Limits:
        for name, number in asdict(value).items():
            most = 1 if name.endswith("_share") else math.inf
            if not 0 <= number <= most:
                raise ValueError(f"{name} must be {'from 0 to 1' if most == 1 else '0 or more'}, not {number:g}")
        return value

    @model_validator(mode="after")
    def _not_temporary(self) -> Self:
        for name, root in (("lake", self.lake), ("checkpoints", self.checkpoint_root)):
            if not self.allow_temporary and _is_temporary(root):
                raise SettingsError(
                    f"DWH_{name.upper()}",
                    f"is inside a temporary folder ({root}), where a reboot deletes it; "
                    "choose another, or set DWH_ALLOW_TEMPORARY=1 for a test",
                )
        return self

    @property
    def checkpoint_root(self) -> Path:
        """The folder that holds one checkpoint per SAP table."""
        return self.checkpoints or self.lake / "_checkpoints"


def load_settings(**options: object) -> Settings:
    """The settings, where an option that is not None wins over the environment and the environment over `.env`.

    Raises:
        SettingsError: a setting cannot be used; names it and says what to do.
    """
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = "__".join(str(part) for part in first["loc"]).upper()
        setting = name if name == "JAVA_HOME" else f"DWH_{name}"
        raise SettingsError(setting, first["msg"].removeprefix("Value error, ")) from None


def _is_temporary(path: Path) -> bool:
    temporary = {Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")}  # noqa: S108
    resolved = path.resolve()
    return any(resolved.is_relative_to(folder.resolve()) for folder in temporary)
