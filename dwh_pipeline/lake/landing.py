"""The landing area: which files are complete, and their rows as text by column name.

Files never change once they are here. What the columns mean belongs to `sap`, remembering which files were loaded to
bronze itself (`stream`).
"""

import csv
import gzip
import os
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from dwh_pipeline.errors import DeliveryError, FeedError, LandingError
from dwh_pipeline.sap.feeds import Delivery, Feed, FileFormat, parse_delivery, parse_feeds
from dwh_pipeline.sap.profiles import DELIVERY_WIDTH, FILE_WIDTH

FEEDS_FILE = "feeds.toml"
DELIVERY_FILE = "_delivery.json"
CORRUPT_RECORD = "_corrupt_record"

_SUFFIXES: dict[FileFormat, tuple[str, ...]] = {
    FileFormat.CSV: (".csv", ".csv.gz", ".txt"),
    FileFormat.JSONL: (".jsonl", ".json", ".ndjson", ".jsonl.gz", ".json.gz"),
    FileFormat.PARQUET: (".parquet",),
}
_NOT_IN_A_COLUMN_NAME = set(" ,;{}()\n\t=`")
# Hadoop has no paths with the first two, and no pattern that finds a folder with the others.
_NOT_IN_A_FILE_NAME, _NOT_IN_A_DELIVERY = set(":\\"), set("{}[]")
# Names that bronze gives to what it adds.
_RESERVED_PREFIX, _RESERVED_NAMES = "_TECH_", {"CHANGE_SEQ", "CHANGE_OP", CORRUPT_RECORD.upper()}
_REPLACEMENT, _PIECE = "\N{REPLACEMENT CHARACTER}", 1 << 20
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class LandingFile:
    """One complete file: `relative` to the landing root is its identity, `delivery` the folder path below its feed.

    `size` is in bytes.
    """

    path: Path
    relative: str
    delivery: str
    size: int


def read_feeds(landing: Path) -> tuple[Feed, ...]:
    """The feeds that the landing area declares.

    Raises:
        LandingError: the landing area or its `feeds.toml` is missing.
        FeedError: a feed is declared wrongly.
    """
    file = landing / FEEDS_FILE
    if not file.is_file():
        raise LandingError(str(file), "is missing; set DWH_LANDING or --landing to the folder that holds feeds.toml")
    try:
        return parse_feeds(file.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise LandingError(str(file), "is no UTF-8; save it as UTF-8") from None


def complete_files(landing: Path, feed: Feed) -> tuple[LandingFile, ...]:
    """The files of a feed that may be loaded, sorted by path.

    Left out are hidden files and folders, names that do not end as the format's do (temporary files, markers), and
    folders that wait for the marker file of the profile.

    Raises:
        LandingError: the folder of the feed is missing.
        DeliveryError: a file lies outside of a delivery, or its name is too long to be ordered.
    """
    landing = _normal(landing)
    root = landing / feed.name
    if not root.is_dir():
        raise LandingError(
            str(root), f"is missing; make the folder of the feed {feed.name}, or remove the feed from {FEEDS_FILE}"
        )
    files = [path for path in sorted(root.rglob("*")) if _is_final(path, root, feed)]
    return tuple(_landing_file(path, landing, root) for path in files)


def read_delivery(landing: Path, feed: Feed, delivery: str) -> Delivery:
    """What is declared of a delivery: in its `_delivery.json`, else by its feed.

    Raises:
        DeliveryError: the file cannot be used.
    """
    file = landing / feed.name / delivery / DELIVERY_FILE
    name = file.relative_to(landing).as_posix()
    try:
        return parse_delivery(file.read_text(encoding="utf-8-sig") if file.is_file() else None, feed, name)
    except UnicodeDecodeError:
        raise DeliveryError(name, "is no UTF-8; save it as UTF-8") from None


def read_files(spark: SparkSession, landing: Path, feed: Feed, files: Iterable[LandingFile]) -> DataFrame:
    """The rows of the files: every delivered column as text under its SAP name, and where each row was found.

    Columns are matched by the header of each file, never by position. Added are `_tech_batch_id`, `_tech_source_file`,
    `_tech_row_number` (1 is the first row after the header), `_tech_source_columns` (the columns that the file has),
    `_tech_source_size` (its bytes) and `_corrupt_record` (the raw record where it could not be split into columns, else
    NULL).

    Raises:
        DeliveryError: a file cannot be read, or its text was decoded wrongly before it came here.
        FeedError: a file lacks a column that the table or the profile needs, or a column name or constant of the feed
            cannot be used.
    """
    landing = _normal(landing)
    groups = _by_spelling if feed.format is FileFormat.JSONL else _by_columns
    frames = [
        _read_group(spark, landing, feed, columns, group)
        for columns, group in groups(spark, landing, feed, list(files))
    ]
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


def _normal(path: Path) -> Path:
    """The path as Spark reports it: without `..`, symbolic links as they are."""
    return Path(os.path.abspath(path))  # noqa: PTH100 (Path.resolve follows links)


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
        limit = f"a delivery id may have {DELIVERY_WIDTH} characters and a file name {FILE_WIDTH}"
        raise DeliveryError(relative, f"cannot be put in order; {limit}")
    if unusable := (_NOT_IN_A_FILE_NAME & set(relative)) | (_NOT_IN_A_DELIVERY & set(delivery)):
        raise DeliveryError(
            relative, f"has {' '.join(sorted(unusable))} in its name, which Spark cannot read; rename it"
        )
    return LandingFile(path, relative, delivery, path.stat().st_size)


def _by_columns(
    _spark: SparkSession, _landing: Path, feed: Feed, files: list[LandingFile]
) -> list[tuple[tuple[str, ...], list[LandingFile]]]:
    """Groups of files that say the same of their columns, with what they say."""
    columns_of = _csv_columns if feed.format is FileFormat.CSV else _parquet_columns
    groups: dict[tuple[str, ...], list[LandingFile]] = {}
    for file in files:
        groups.setdefault(columns_of(file, feed), []).append(file)
    return list(groups.items())


def _csv_columns(file: LandingFile, feed: Feed) -> tuple[str, ...]:
    header = _first_record(file, feed)
    upper = [name.upper() for name in header]
    twice = sorted({name for name in header if upper.count(name.upper()) > 1})
    if twice or not header:
        raise DeliveryError(file.relative, f"names the columns {twice} twice" if twice else "has no header")
    return tuple(header)


def _parquet_columns(file: LandingFile, _feed: Feed) -> tuple[str, ...]:
    """Names and types: files that differ in a type (an integer here, a text there) cannot be read together."""
    try:
        return tuple(f"{column.name} {column.type}" for column in pq.read_schema(file.path))
    except (OSError, pa.ArrowException) as error:
        raise DeliveryError(file.relative, f"cannot be read as Parquet: {error}") from None


def _by_spelling(
    spark: SparkSession, landing: Path, feed: Feed, files: list[LandingFile]
) -> list[tuple[tuple[str, ...], list[LandingFile]]]:
    """Groups of JSON files in which each column has one spelling, with all columns of the group.

    To Spark, a value under another spelling (`kunnr` for KUNNR) is not there.
    """
    for file in files:
        _first_record(file, feed)
    names = _json_names(spark, landing, feed, files)
    groups: list[tuple[dict[str, str], list[LandingFile]]] = []
    for file in files:
        spelled = {name.upper(): name for name in names.get(file.relative, [])}
        if other := sorted(set(names.get(file.relative, [])) - set(spelled.values())):
            raise DeliveryError(file.relative, f"spells a column in more than one way: {', '.join(other)}")
        fitting = (group for group in groups if all(group[0].get(key, name) == name for key, name in spelled.items()))
        group = next(fitting, None)
        if group is None:
            groups.append((spelled, [file]))
        else:
            group[0].update(spelled)
            group[1].append(file)
    # Files without any line that can be read have no columns of their own.
    return [(tuple(sorted(spelled.values())) or tuple(_needed_columns(feed)), group) for spelled, group in groups]


def _json_names(spark: SparkSession, landing: Path, feed: Feed, files: list[LandingFile]) -> dict[str, list[str]]:
    """The names that the objects of each file have, as they are spelled."""
    lines = spark.read.options(**_NO_PARTITIONS).text([_literal(str(file.path)) for file in files])
    line = F.col("value") if feed.encoding == "utf-8" else F.decode(F.col("value").cast("binary"), feed.encoding)
    found = lines.select(_source_file(landing).alias("file"), F.explode(F.json_object_keys(line)).alias("name"))
    names: dict[str, list[str]] = {}
    for row in found.where(F.col("name") != CORRUPT_RECORD).distinct().collect():
        names.setdefault(row["file"], []).append(row["name"])
    return names


def _first_record(file: LandingFile, feed: Feed) -> list[str]:
    """The first record of a CSV file (none for JSON), after the whole file proved to be readable.

    Spark would replace what it cannot decode or unpack, and a wrong encoding would make a change of every name that has
    an umlaut.
    """
    opener = gzip.open if file.path.suffix.lower() == ".gz" else open
    try:
        with opener(file.path, "rt", encoding=feed.encoding, newline="") as text:
            is_damaged = any(_REPLACEMENT in piece for piece in iter(partial(text.read, _PIECE), ""))
            text.seek(0)
            if text.read(1) != _BYTE_ORDER_MARK:
                text.seek(0)
            record = next(csv.reader(text, delimiter=feed.delimiter), []) if feed.format is FileFormat.CSV else []
    except (OSError, EOFError, zlib.error, UnicodeError, csv.Error) as error:
        raise DeliveryError(file.relative, f"cannot be read as {feed.encoding}: {error}") from None
    if is_damaged:
        raise DeliveryError(
            file.relative, "holds U+FFFD, so its text was decoded wrongly before it came here; have it delivered again"
        )
    return record


def _read_group(
    spark: SparkSession, landing: Path, feed: Feed, columns: tuple[str, ...], files: list[LandingFile]
) -> DataFrame:
    """The rows of files that have the same columns."""
    first = files[0].relative
    try:
        rows = _READERS[feed.format](spark, feed, columns, [_literal(str(file.path)) for file in files])
    except AnalysisException as error:
        problem = str(error).partition("\n")[0]
        raise DeliveryError(first, f"cannot be read, alone or with the {len(files) - 1} after it: {problem}") from None
    return _located(rows, landing, feed, first)


def _literal(path: str) -> str:
    """The path as a pattern that matches nothing else: Spark takes every path for a pattern."""
    return "".join(f"\\{char}" if char in "{}[]*?^" else char for char in path)


def _read_csv(spark: SparkSession, feed: Feed, columns: tuple[str, ...], paths: list[str]) -> DataFrame:
    options = {
        "header": "true",
        "sep": feed.delimiter,
        "encoding": feed.encoding,
        "quote": '"',
        "escape": '"',  # SAP tools double a quote inside quotes; a backslash is only a backslash
        "multiLine": "true",
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT_RECORD,
        **_NO_PARTITIONS,
    }
    return spark.read.schema(_texts(*columns, CORRUPT_RECORD)).options(**options).csv(paths)


def _read_jsonl(spark: SparkSession, feed: Feed, columns: tuple[str, ...], paths: list[str]) -> DataFrame:
    """Every column as the text that is in the file: no number is rounded, and no object loses its NULLs."""
    options = {"columnNameOfCorruptRecord": CORRUPT_RECORD, "allowSingleQuotes": "false", **_NO_PARTITIONS}
    if feed.encoding != "utf-8":
        options |= {"encoding": feed.encoding, "lineSep": "\n"}
    return spark.read.schema(_texts(*columns, CORRUPT_RECORD)).options(**options).json(paths)


def _read_parquet(spark: SparkSession, _feed: Feed, _columns: tuple[str, ...], paths: list[str]) -> DataFrame:
    return spark.read.options(**_NO_PARTITIONS).parquet(*paths)


_READERS: dict[FileFormat, Callable[[SparkSession, Feed, tuple[str, ...], list[str]], DataFrame]] = {
    FileFormat.CSV: _read_csv,
    FileFormat.JSONL: _read_jsonl,
    FileFormat.PARQUET: _read_parquet,
}
_NO_PARTITIONS = {"recursiveFileLookup": "true"}  # a delivery named a=1 is no partition column


def _texts(*names: str) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])


def _located(rows: DataFrame, landing: Path, feed: Feed, file: str) -> DataFrame:
    """Columns under their SAP names as text, with file, delivery and row number. `file` is one that has the columns."""
    names = {name: _sap_name(name, feed) for name in rows.columns if name != CORRUPT_RECORD}
    _check_names(names, feed, file)
    absent = [name for name in feed.source_profile.optional_columns if name not in {*names.values(), *feed.constants}]
    corrupt = F.col(CORRUPT_RECORD) if CORRUPT_RECORD in rows.columns else F.lit(None).cast("string")
    placed = rows.select(
        _source_file(landing).alias("_tech_source_file"),
        F.col("_metadata.file_size").alias("_tech_source_size"),
        F.struct(F.col("_metadata.file_block_start"), F.monotonically_increasing_id()).alias("_position"),
        *(_as_text(F.col(f"`{name}`"), rows.schema[name].dataType).alias(sap_name) for name, sap_name in names.items()),
        *(F.lit(value).alias(name) for name, value in feed.constants.items()),
        *(F.lit(None).cast("string").alias(name) for name in absent),
        corrupt.alias(CORRUPT_RECORD),
    )
    in_file = Window.partitionBy("_tech_source_file").orderBy("_position")
    below_feed = F.substr(F.col("_tech_source_file"), F.lit(len(feed.name) + 2))
    return placed.select(
        F.regexp_replace(below_feed, r"/[^/]*\z", "").alias("_tech_batch_id"),
        "_tech_source_file",
        F.row_number().over(in_file).cast("bigint").alias("_tech_row_number"),
        F.lit(",".join(sorted(names.values()))).alias("_tech_source_columns"),
        F.col("_tech_source_size"),
        *(f"`{name}`" for name in (*names.values(), *feed.constants, *absent)),
        CORRUPT_RECORD,
    )


def _source_file(landing: Path) -> Column:
    """The file of a row, relative to the landing root."""
    # '+' is no blank in a file name; the rest of the URI is percent-encoded by Spark.
    file_uri = F.url_decode(F.regexp_replace(F.col("_metadata.file_path"), r"\+", "%2B"))
    root = f"{landing.as_posix()}/"
    return F.substr(file_uri, F.instr(file_uri, root) + len(root))


def _sap_name(name: str, feed: Feed) -> str:
    """The name under which bronze keeps a delivered column: renamed, in upper case, the tool's own as the tool does."""
    renamed = {delivered.upper(): sap for delivered, sap in feed.rename.items()}.get(name.upper(), name)
    own = {column.upper(): column for column in feed.source_profile.own_columns}
    return own.get(renamed.upper(), renamed.upper())


def _needed_columns(feed: Feed) -> list[str]:
    """The columns, under their SAP names, without which the rows of a file mean nothing."""
    sequence = [feed.sequence] if feed.sequence else []
    needed = [*feed.source_profile.required_columns, *(field.name for field in feed.sap_table.keys), *sequence]
    return [name for name in needed if name not in feed.constants]


def _check_names(names: dict[str, str], feed: Feed, file: str) -> None:
    kept = list(names.values())
    for delivered, name in names.items():
        if not name or _NOT_IN_A_COLUMN_NAME & set(name) or _is_reserved(name):
            raise FeedError(
                feed.name, "rename", f"the column {delivered!r} of {file} cannot be named so in a table; rename it"
            )
    for name in feed.constants:
        if name in kept:
            raise FeedError(feed.name, "constants", f"{name} is delivered by {file}; remove the constant")
        if not name or _NOT_IN_A_COLUMN_NAME & set(name) or _is_reserved(name):
            raise FeedError(feed.name, "constants", f"a column cannot be named {name!r} in a table")
    if twice := sorted({name for name in kept if kept.count(name) > 1}):
        raise FeedError(feed.name, "rename", f"more than one column of {file} becomes {', '.join(twice)}")
    if missing := [name for name in _needed_columns(feed) if name not in kept]:
        raise FeedError(
            feed.name, "rename", f"{file} has no column {', '.join(missing)}; it has {', '.join(sorted(names))}"
        )


def _is_reserved(name: str) -> bool:
    return name.upper().startswith(_RESERVED_PREFIX) or name.upper() in _RESERVED_NAMES


def _as_text(column: Column, data_type: DataType) -> Column:
    """A typed value (Parquet) as the text that a CSV file would have."""
    match data_type:
        case StructType() | ArrayType() | MapType():
            return F.to_json(column)
        case TimestampType() | TimestampNTZType():
            return F.date_format(column, "yyyy-MM-dd HH:mm:ss.SSSSSS")
        case BinaryType():  # a text whose type nobody declared, or bytes
            return F.coalesce(F.try_validate_utf8(column.cast("string")), F.hex(column))
        case FloatType() | DoubleType():
            text = column.cast("string")
            # From ten million on, Java writes an exponent, which is no SAP number.
            plain = F.regexp_replace(text.try_cast("DECIMAL(38,12)").cast("string"), r"\.?0+\z", "")
            return F.when(text.rlike(r"E\d"), F.coalesce(plain, text)).otherwise(text)
    return column.cast("string")
