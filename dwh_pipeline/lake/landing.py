"""The landing area: which files are complete, and their rows as text by column name.

Files never change once they are here. What the columns mean belongs to `sap`, remembering which files were loaded to
bronze itself (`stream`).
"""

import csv
import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, StringType, StructField, StructType

from dwh_pipeline.errors import DeliveryError, FeedError, LandingError
from dwh_pipeline.sap.feeds import Feed, FileFormat, parse_feeds
from dwh_pipeline.sap.profiles import DELIVERY_WIDTH, FILE_WIDTH

FEEDS_FILE = "feeds.toml"
CORRUPT_RECORD = "_corrupt_record"

_SUFFIXES: dict[FileFormat, tuple[str, ...]] = {
    FileFormat.CSV: (".csv", ".csv.gz", ".txt"),
    FileFormat.JSONL: (".jsonl", ".json", ".ndjson", ".jsonl.gz", ".json.gz"),
    FileFormat.PARQUET: (".parquet",),
}
_NOT_IN_A_DELTA_COLUMN = set(" ,;{}()\n\t=")


@dataclass(frozen=True, slots=True)
class LandingFile:
    """One complete file: `relative` to the landing root is its identity, `delivery` the folder path below its feed."""

    path: Path
    relative: str
    delivery: str


def read_feeds(landing: Path) -> tuple[Feed, ...]:
    """The feeds that the landing area declares.

    Raises:
        LandingError: the landing area or its `feeds.toml` is missing.
        FeedError: a feed is declared wrongly.
    """
    file = landing / FEEDS_FILE
    if not file.is_file():
        raise LandingError(str(file), "is missing; set DWH_LANDING or --landing to the folder that holds feeds.toml")
    return parse_feeds(file.read_text(encoding="utf-8"))


def complete_files(landing: Path, feed: Feed) -> tuple[LandingFile, ...]:
    """The files of a feed that may be loaded, sorted by path.

    Left out are hidden files and folders, names that do not end as the format's do (temporary files, markers), and
    folders that wait for the marker file of the profile.

    Raises:
        LandingError: the folder of the feed is missing.
        DeliveryError: a file lies outside of a delivery, or its name is too long to be ordered.
    """
    root = landing / feed.name
    if not root.is_dir():
        raise LandingError(str(root), f"is missing; make the folder of the feed {feed.name}, or remove the feed from {FEEDS_FILE}")
    files = [path for path in sorted(root.rglob("*")) if _is_final(path, root, feed)]
    return tuple(_landing_file(path, landing, root) for path in files)


def read_files(spark: SparkSession, landing: Path, feed: Feed, files: Iterable[LandingFile]) -> DataFrame:
    """The rows of the files: every delivered column as text under its SAP name, and where each row was found.

    Columns are matched by the header of each file, never by position. Added are `_tech_batch_id`, `_tech_source_file`,
    `_tech_row_number` (1 is the first row after the header) and `_corrupt_record` (the raw record where it could not be
    split into columns, else NULL).

    Raises:
        DeliveryError: a file cannot be read, or lacks a column that the profile needs.
        FeedError: a column name or constant of the feed cannot be used.
    """
    by_header: dict[tuple[str, ...], list[str]] = {}
    for file in files:
        by_header.setdefault(_header(file, feed), []).append(str(file.path))
    reader = _READERS[feed.format]
    frames = [_located(reader(spark, feed, header, paths), landing, feed) for header, paths in by_header.items()]
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


def _is_final(path: Path, root: Path, feed: Feed) -> bool:
    parts = path.relative_to(root).parts
    if not path.is_file() or any(part.startswith(("_", ".")) for part in parts):
        return False
    if not path.name.lower().endswith(_SUFFIXES[feed.format]):
        return False
    marker = feed.source_profile.markers.get(parts[0])
    return marker is None or (root / parts[0] / marker).is_file()


def _landing_file(path: Path, landing: Path, root: Path) -> LandingFile:
    relative, delivery = path.relative_to(landing).as_posix(), path.parent.relative_to(root).as_posix()
    if delivery == ".":
        raise DeliveryError(relative, "lies outside of a delivery; move it into a folder named after its delivery")
    if len(delivery) > DELIVERY_WIDTH or len(path.name) > FILE_WIDTH:
        raise DeliveryError(relative, f"a delivery id may have {DELIVERY_WIDTH} characters and a file name {FILE_WIDTH}")
    return LandingFile(path, relative, delivery)


def _header(file: LandingFile, feed: Feed) -> tuple[str, ...]:
    """The column names of a CSV file; for other formats Spark reads names itself, so all files are one group."""
    if feed.format is not FileFormat.CSV:
        return ()
    opener = gzip.open if file.path.suffix == ".gz" else open
    try:
        with opener(file.path, "rt", encoding="utf-8-sig" if feed.encoding == "utf-8" else feed.encoding, newline="") as text:
            header = next(csv.reader(text, delimiter=feed.delimiter), [])
    except (OSError, UnicodeError) as error:
        raise DeliveryError(file.relative, f"cannot be read as {feed.encoding}: {error}") from None
    twice = sorted({name for name in header if [other.upper() for other in header].count(name.upper()) > 1})
    if twice or not header:
        raise DeliveryError(file.relative, f"names the columns {twice} twice" if twice else "has no header")
    return tuple(header)


def _read_csv(spark: SparkSession, feed: Feed, header: tuple[str, ...], paths: list[str]) -> DataFrame:
    schema = StructType([StructField(name, StringType()) for name in (*header, CORRUPT_RECORD)])
    options = {
        "header": "true",
        "sep": feed.delimiter,
        "encoding": feed.encoding,
        "quote": '"',
        "escape": '"',  # SAP tools double a quote inside quotes; a backslash is only a backslash
        "multiLine": "true",
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT_RECORD,
    }
    return spark.read.schema(schema).options(**options).csv(paths)


def _read_jsonl(spark: SparkSession, feed: Feed, _header: tuple[str, ...], paths: list[str]) -> DataFrame:
    options = {"primitivesAsString": "true", "encoding": feed.encoding, "columnNameOfCorruptRecord": CORRUPT_RECORD}
    return spark.read.options(**options).json(paths)


def _read_parquet(spark: SparkSession, _feed: Feed, _header: tuple[str, ...], paths: list[str]) -> DataFrame:
    return spark.read.option("mergeSchema", "true").parquet(*paths)


_READERS: dict[FileFormat, Callable[[SparkSession, Feed, tuple[str, ...], list[str]], DataFrame]] = {
    FileFormat.CSV: _read_csv,
    FileFormat.JSONL: _read_jsonl,
    FileFormat.PARQUET: _read_parquet,
}


def _located(rows: DataFrame, landing: Path, feed: Feed) -> DataFrame:
    """Columns under their SAP names as text, with file, delivery and row number."""
    names = {name: _sap_name(name, feed) for name in rows.columns if name != CORRUPT_RECORD}
    _check_names(names, feed)
    # '+' is no blank in a file name; the rest of the URI is percent-encoded by Spark.
    file_uri = F.url_decode(F.regexp_replace(F.col("_metadata.file_path"), r"\+", "%2B"))
    corrupt = F.col(CORRUPT_RECORD) if CORRUPT_RECORD in rows.columns else F.lit(None).cast("string")
    placed = rows.select(
        F.substring_index(file_uri, f"{landing.as_posix()}/", -1).alias("_tech_source_file"),
        F.struct(F.col("_metadata.file_block_start"), F.monotonically_increasing_id()).alias("_position"),
        *(_as_text(F.col(f"`{name}`"), rows.schema[name].dataType).alias(sap_name) for name, sap_name in names.items()),
        *(F.lit(value).alias(name) for name, value in feed.constants.items()),
        corrupt.alias(CORRUPT_RECORD),
    )
    in_file = Window.partitionBy("_tech_source_file").orderBy("_position")
    delivery = F.regexp_replace(F.substring(F.col("_tech_source_file"), len(feed.name) + 2, 10_000), "/[^/]*$", "")
    return placed.select(
        delivery.alias("_tech_batch_id"),
        "_tech_source_file",
        F.row_number().over(in_file).cast("bigint").alias("_tech_row_number"),
        *(f"`{name}`" for name in (*names.values(), *feed.constants)),
        CORRUPT_RECORD,
    )


def _sap_name(name: str, feed: Feed) -> str:
    """The delivered name under which bronze keeps a column: renamed, SAP fields in upper case, the tool's as its own."""
    renamed = {delivered.upper(): sap for delivered, sap in feed.rename.items()}.get(name.upper(), name)
    own = {column.upper(): column for column in feed.source_profile.own_columns}
    return own.get(renamed.upper(), renamed.upper())


def _check_names(names: dict[str, str], feed: Feed) -> None:
    for delivered, name in names.items():
        if not name or _NOT_IN_A_DELTA_COLUMN & set(name):
            raise FeedError(feed.name, "rename", f"the column {delivered!r} cannot be named so in a table; rename it")
        if name in feed.constants:
            raise FeedError(feed.name, "constants", f"{name} is delivered by the files; remove the constant")
    values = list(names.values())
    twice = sorted({name for name in values if values.count(name) > 1})
    if twice:
        raise FeedError(feed.name, "rename", f"more than one delivered column becomes {', '.join(twice)}")
    present = {*values, *feed.constants}
    needed = [*feed.source_profile.required_columns, *(field.name for field in feed.sap_table.keys)]
    needed += [feed.sequence] if feed.sequence else []
    missing = [name for name in needed if name not in present]
    if missing:
        raise FeedError(
            feed.name, "rename", f"the files have no column {', '.join(missing)}; they have {', '.join(sorted(names))}"
        )


def _as_text(column: object, data_type: DataType) -> "F.Column":  # type: ignore[name-defined]
    if isinstance(data_type, StringType | NumericType) or data_type.simpleString() in ("boolean", "date"):
        return column.cast("string")  # type: ignore[attr-defined,no-any-return]
    if data_type.simpleString().startswith("timestamp"):
        return F.date_format(column, "yyyy-MM-dd HH:mm:ss.SSSSSS")  # type: ignore[arg-type]
    return F.to_json(column)  # type: ignore[arg-type]
