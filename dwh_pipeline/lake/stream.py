"""The ingest stream: discovers new files, remembers them in a checkpoint, and hands each one over once.

Spark's file source finds and remembers files; their rows are read by `landing`. A file that bronze holds already is
dropped here, so a lost checkpoint costs a second listing, never a duplicate and never a gap.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dwh_pipeline.errors import BacklogError, FileChangedError
from dwh_pipeline.lake.catalog import exists, table_id
from dwh_pipeline.lake.checkpoint import keep_passport, remove_orphaned_checksums, require_usable
from dwh_pipeline.lake.landing import LandingFile, complete_files, read_delivery
from dwh_pipeline.sap.feeds import Feed

# Files are told from their path alone; their content is never read by the stream.
_FILE_SCHEMA = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
_log = logging.getLogger(__name__)
_NEVER_TOO_OLD = "36500d"  # the source would skip files older than the newest by more than a week


@dataclass(frozen=True, slots=True)
class Source:
    """Where a stream reads, where it writes to, and what it must not offer again.

    `bronze` is the table, `skipped` that of the files that were skipped.
    """

    landing: Path
    feed: Feed
    bronze: str
    skipped: str
    checkpoint: Path


def ingest(spark: SparkSession, source: Source, append: Callable[[tuple[LandingFile, ...]], int]) -> None:
    """Hand every complete file that bronze neither holds nor skipped to `append`, in micro-batches, then stop.

    `append` gets the files of one micro-batch, writes them in one commit and returns the number of rows.

    Raises:
        LandingError: the folder of the feed is missing.
        CheckpointError: the checkpoint is damaged or belongs to another stream; nothing was started.
        BacklogError: the checkpoint passed over complete files.
        FileChangedError: files were changed after bronze took them; everything new was handed over before.
        WarehouseError: whatever `append` raises; the micro-batch is not committed and comes again in the next run.
    """
    landing, feed = source.landing, source.feed
    files = complete_files(landing, feed)
    held = held_files(spark, source.bronze, source.skipped)
    if new_files(held, files):
        _run(spark, source, files, append, is_first=not held)
    if changed := changed_files(held, files):
        raise FileChangedError(tuple(file.relative for file in changed))


def _run(
    spark: SparkSession,
    source: Source,
    files: tuple[LandingFile, ...],
    append: Callable[[tuple[LandingFile, ...]], int],
    *,
    is_first: bool,
) -> None:
    """Run the stream over what there is. `files` are those that have to be in bronze, or skipped, afterwards."""
    landing, feed = source.landing, source.feed
    target_id = table_id(spark, source.bronze)
    require_usable(source.checkpoint, feed=feed.name, target_id=target_id)
    remove_orphaned_checksums(source.checkpoint)
    if not source.checkpoint.exists() and not is_first:
        _log.warning(
            "%s: there is no checkpoint, so every file is listed again; a file that bronze holds is not appended again",
            feed.name,
        )
    failed: list[Exception] = []

    def take(batch: DataFrame, batch_id: int) -> None:
        # Listed after Spark's own listing, so that no file which Spark will remember as seen is missing here.
        complete = {str(file.path): file for file in complete_files(landing, feed)}
        offered = [complete[path] for path in _paths(batch) if path in complete]
        # A snapshot tells what is absent only as a whole, so it is not cut into micro-batches.
        whole = {file.delivery for file in offered if read_delivery(landing, feed, file.delivery).snapshot}
        offered = [file for file in complete.values() if file in offered or file.delivery in whole]
        fresh = new_files(held_files(spark, source.bronze, source.skipped), offered)
        started = monotonic()
        try:
            rows = append(fresh) if fresh else 0
        except Exception as error:
            failed.append(error)
            raise
        seconds = monotonic() - started
        _log.info(
            "%s: micro-batch %d, %d files, %d rows, %.0f rows/s", feed.name, batch_id, len(fresh), rows, rows / seconds
        )

    query = (
        spark.readStream.format("binaryFile")
        .schema(_FILE_SCHEMA)
        .option("recursiveFileLookup", "true")
        # A file that was refused may be gone when its micro-batch comes again.
        .option("ignoreMissingFiles", "true")
        .option("maxFileAge", _NEVER_TOO_OLD)
        .option("maxFilesPerTrigger", feed.max_files_per_trigger)
        .load(_glob(landing / feed.name, {file.delivery for file in files}))
        .select("path")
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(source.checkpoint))
        .foreachBatch(take)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise (failed[0] if failed else error) from None
    finally:
        keep_passport(source.checkpoint, feed=feed.name, source=str(landing / feed.name), target_id=target_id)
    if left := new_files(held_files(spark, source.bronze, source.skipped), files):
        raise BacklogError(feed.name, tuple(file.relative for file in left))


def _paths(batch: DataFrame) -> list[str]:
    return sorted(str(Path(row.path.removeprefix("file:"))) for row in batch.collect())


def held_files(spark: SparkSession, bronze: str, skipped: str) -> dict[str, int | None]:
    """The files that the bronze table holds or skips, by their path below the landing root, with the size it saw.

    The size is None where it is not known.
    """
    if not exists(spark, bronze):
        return {}
    table = spark.table(bronze)
    size = F.max("_tech_source_size") if "_tech_source_size" in table.columns else F.lit(None)
    held = {row[0]: row[1] for row in table.groupBy("_tech_source_file").agg(size).collect()}
    if exists(spark, skipped):
        of_this = spark.table(skipped).where(F.col("source_table") == ".".join(bronze.split(".")[-2:]))
        held |= {row[0]: None for row in of_this.select("_tech_source_file").collect()}
    return held


def new_files(held: Mapping[str, int | None], offered: Iterable[LandingFile]) -> tuple[LandingFile, ...]:
    """Those of the offered files that bronze neither holds nor skips."""
    return tuple(file for file in offered if file.relative not in held)


def changed_files(held: Mapping[str, int | None], present: Iterable[LandingFile]) -> tuple[LandingFile, ...]:
    """Those of the files in the landing area whose size is another one than when bronze took them."""
    return tuple(file for file in present if held.get(file.relative) not in (None, file.size))


def _glob(root: Path, deliveries: set[str]) -> str:
    """A Hadoop glob for exactly these deliveries, so that one that is not complete yet is not remembered as seen."""
    return f"{_literal(str(root))}/{{{','.join(_literal(delivery) for delivery in sorted(deliveries))}}}"


def _literal(text: str) -> str:
    return "".join(f"\\{char}" if char in "{}[]*?,\\^" else char for char in text)
