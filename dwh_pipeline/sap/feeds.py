"""Feeds: what `feeds.toml` says of each folder of the landing area, validated before anything runs.

Also what a `_delivery.json` says of its delivery. Pure: text in, feeds or an error out. Finding and reading files
belongs to `lake`.
"""

import codecs
import json
import tomllib
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from dwh_pipeline.errors import DeliveryError, FeedError
from dwh_pipeline.sap.fields import SAP_TABLES, SapTable
from dwh_pipeline.sap.profiles import PLAIN, PROFILES, DeclaredOrder, Profile
from dwh_pipeline.sap.values import Amounts, Decimal, ValueFormat

# Only patterns whose text order and meaning Spark and people agree on; others would be guessed.
_DATE_FORMATS = ("yyyyMMdd", "yyyy-MM-dd", "dd.MM.yyyy", "MM/dd/yyyy", "dd/MM/yyyy")

# Spark knows these and no others; the names are Spark's, the keys are Python's for the same.
_ENCODINGS = {
    "utf-8": "utf-8",
    "iso8859-1": "iso-8859-1",
    "ascii": "us-ascii",
    "utf-16-le": "utf-16le",
    "utf-16-be": "utf-16be",
}


class FileFormat(StrEnum):
    """How the files of a feed are written."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


Share = Annotated[float, Field(ge=0, le=1)]


class Feed(BaseModel):
    """One feed: a folder of the landing area that holds deliveries of one SAP table.

    What a section leaves out is as the profile has it (`Profile.formats`).
    `rename` maps delivered names to SAP names, `constants` adds fields that every row of the feed has. `sequence` is
    the name (after renaming) of the column that orders the changes, for the profiles that have no order of their own.
    `sequence_restarts`: its numbers start again in each delivery, so the delivery comes first in the order. `snapshot`:
    every delivery is a full one, so what it lacks was deleted; `max_deleted_share` is the largest part of the known
    keys that it may delete. `optional` names columns that a file may lack although others have them.
    SAP names are kept in upper case. `max_files_per_trigger` bounds one micro-batch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    table: str
    profile: str = PLAIN.name
    format: FileFormat
    delimiter: str
    encoding: str
    decimal: Decimal
    date_format: str
    amounts: Amounts
    sequence: str | None = None
    sequence_restarts: bool = False
    snapshot: bool = False
    max_deleted_share: Share = 0.2
    rename: dict[str, str] = Field(default_factory=dict)
    constants: dict[str, str] = Field(default_factory=dict)
    optional: tuple[str, ...] = ()
    max_files_per_trigger: Annotated[int, Field(gt=0)] = 1000

    @model_validator(mode="before")
    @classmethod
    def _formats_of_the_profile(cls, keys: dict[str, object]) -> dict[str, object]:
        profile = PROFILES.get(str(keys.get("profile", PLAIN.name)))
        return {**profile.formats, **keys} if profile else keys

    @field_validator("name")
    @classmethod
    def _folder_name(cls, value: str) -> str:
        if not value or value.startswith((".", "_")) or set(value) & set("/\\:"):
            raise ValueError(
                "has to be the name of a folder beside feeds.toml, without '/', '\\' or ':', and no '.' or '_' in front"
            )
        return value

    @field_validator("table")
    @classmethod
    def _known_table(cls, value: str) -> str:
        return _one_of(value.upper(), tuple(SAP_TABLES), "SAP table")

    @field_validator("profile")
    @classmethod
    def _known_profile(cls, value: str) -> str:
        return _one_of(value, tuple(PROFILES), "profile")

    @field_validator("date_format")
    @classmethod
    def _known_date_format(cls, value: str) -> str:
        return _one_of(value, _DATE_FORMATS, "date format")

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, value: str) -> str:
        if len(value) != 1 or value in '"\r\n':
            raise ValueError(f"has to be one character, and no quote or line break, not {value!r}")
        return value

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str, info: ValidationInfo) -> str:
        try:
            python_name = codecs.lookup(value).name
        except LookupError:
            python_name = value
        # JSON is UTF-8 by its standard; Spark takes single bytes besides, but nothing wider line by line.
        wide = ("utf-16-le", "utf-16-be") if info.data.get("format") is FileFormat.JSONL else ()
        allowed = {name: spark_name for name, spark_name in _ENCODINGS.items() if name not in wide}
        if python_name not in allowed:
            raise ValueError(f"{value!r} cannot be read; choose one of {', '.join(allowed.values())}")
        return allowed[python_name]

    @field_validator("sequence")
    @classmethod
    def _sequence_is_needed(cls, value: str | None, info: ValidationInfo) -> str | None:
        profile = info.data.get("profile", PLAIN.name)
        if value is not None and not PROFILES[profile].takes_sequence:
            raise ValueError(f"the profile {profile} orders changes by its own columns; remove the key")
        return value.upper() if value else None

    @field_validator("sequence_restarts")
    @classmethod
    def _there_is_a_sequence(cls, value: bool, info: ValidationInfo) -> bool:  # noqa: FBT001
        if value and not info.data.get("sequence"):
            raise ValueError("there is no sequence that could start again; add the key sequence, or remove this one")
        return value

    @field_validator("optional")
    @classmethod
    def _optional_in_upper(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name.upper() for name in value)

    @field_validator("rename")
    @classmethod
    def _renamed_to_upper(cls, value: dict[str, str]) -> dict[str, str]:
        return {delivered: name.upper() for delivered, name in _each_once(value).items()}

    @field_validator("constants")
    @classmethod
    def _named_in_upper(cls, value: dict[str, str]) -> dict[str, str]:
        return {name.upper(): constant for name, constant in _each_once(value).items()}

    @property
    def sap_table(self) -> SapTable:
        """The SAP table that the feed delivers."""
        return SAP_TABLES[self.table]

    @property
    def source_profile(self) -> Profile:
        """The profile that tells operations and order."""
        return PROFILES[self.profile]

    @property
    def order(self) -> DeclaredOrder:
        """What the feed says of the order of its changes."""
        return DeclaredOrder(self.sequence, self.sequence_restarts)

    @property
    def order_is_in_rows(self) -> bool:
        """Whether a row has the same place in the order whichever file delivers it."""
        profile = self.source_profile
        return profile.order_is_in_rows or bool(self.sequence and not self.sequence_restarts)

    @property
    def value_format(self) -> ValueFormat:
        """How the texts of the feed are read."""
        return ValueFormat(date_format=self.date_format, decimal=self.decimal, amounts=self.amounts)


class Delivery(BaseModel):
    """What is declared of one delivery, in its `_delivery.json` or else by its feed.

    `snapshot`: it is a full one. `taken_at`: when, as its order column has it. `max_deleted_share`: the largest part of
    the known keys that it may delete. `rows`: how many rows it has to have.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    snapshot: bool
    max_deleted_share: Share
    taken_at: Annotated[str, Field(pattern=r"^\d{1,20}$")] | None = None
    rows: Annotated[int, Field(ge=0)] | None = None


def parse_delivery(text: str | None, feed: Feed, file: str) -> Delivery:
    """What a `_delivery.json` with this text (None: there is none) says, completed by the feed. `file` is its name.

    Raises:
        DeliveryError: it is no JSON object, or a key of it cannot be used.
    """
    declared: dict[str, object] = {"snapshot": feed.snapshot, "max_deleted_share": feed.max_deleted_share}
    try:
        given = json.loads(text) if text is not None else {}
        return Delivery.model_validate({**declared, **given})
    except (ValueError, TypeError) as error:  # a ValidationError is a ValueError
        raise DeliveryError(file, _first_problem(error)) from None


def _first_problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"is no JSON object: {error}"
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    problem = "is not a key of a delivery" if first["type"] == "extra_forbidden" else first["msg"]
    return f"{key}: {problem}"


def parse_feeds(text: str) -> tuple[Feed, ...]:
    """The feeds that a `feeds.toml` declares, in its order.

    Raises:
        FeedError: names the feed and the key that is wrong, and what it may be.
    """
    try:
        document: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FeedError("*", "syntax", f"the file is no TOML: {error}") from None
    if unknown := [key for key in document if key != "feeds"]:
        raise FeedError("*", unknown[0], "is not known here; a feed is a section [feeds.<folder name>]")
    sections = document.get("feeds")
    if not isinstance(sections, dict) or not sections:
        raise FeedError("*", "feeds", "no feed is declared; add a section [feeds.<folder name>]")
    feeds = tuple(_parse_feed(name, section) for name, section in sections.items())
    _one_feed_per_table(feeds)
    return feeds


def _parse_feed(name: str, section: object) -> Feed:
    if not isinstance(section, dict):
        raise FeedError(name, "section", "has to be a table of keys")
    if "name" in section:
        raise FeedError(name, "name", "is not a key of a feed; the section is named after the folder")
    try:
        return Feed.model_validate({**section, "name": name})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "section"
        problem = "is not a key of a feed" if first["type"] == "extra_forbidden" else first["msg"]
        raise FeedError(name, key, problem.removeprefix("Value error, ")) from None


def _one_feed_per_table(feeds: tuple[Feed, ...]) -> None:
    owner: dict[str, str] = {}
    for feed in feeds:
        if feed.table in owner:
            raise FeedError(feed.name, "table", f"{feed.table} is already delivered by the feed {owner[feed.table]}")
        owner[feed.table] = feed.name


def _each_once(names: dict[str, str]) -> dict[str, str]:
    upper = [name.upper() for name in names]
    if twice := sorted({name for name in upper if upper.count(name) > 1}):
        raise ValueError(f"names {', '.join(twice)} twice; upper and lower case are the same")
    return names


def _one_of(value: str, allowed: tuple[str, ...], what: str) -> str:
    if value not in allowed:
        raise ValueError(f"{value!r} is no {what} known here; choose one of {', '.join(allowed)}")
    return value
