"""The ingest stream: discovers new files, remembers them in a checkpoint, and hands each one over once.

Spark's file source finds and remembers files; their rows are read by `landing`. A file that bronze holds already is
dropped here, so a lost checkpoint costs a second listing, never a duplicate and never a gap.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from dwh_pipeline.lake.catalog import exists
from dwh_pipeline.lake.landing import LandingFile, complete_files, read_delivery
from dwh_pipeline.sap.feeds import Feed

# Files are told from their path alone; their content is never read by the stream.
_FILE_SCHEMA = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
_NEVER_TOO_OLD = "36500d"  # the source would skip files older than the newest by more than a week


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """What one run of the stream did. `files` counts the files that were new to bronze."""

    files: int
    rows: int


def ingest(
    spark: SparkSession,
    *,
    landing: Path,
    feed: Feed,
    bronze: str,
    checkpoint: Path,
    append: Callable[[tuple[LandingFile, ...]], int],
) -> StreamProgress:
    """Hand every complete file of the feed that `bronze` does not hold to `append`, in micro-batches, then stop.

    `append` gets the files of one micro-batch, writes them in one commit and returns the number of rows.

    Raises:
        LandingError: the folder of the feed is missing.
        WarehouseError: whatever `append` raises; the micro-batch is not committed and comes again in the next run.
    """
    files = complete_files(landing, feed)
    if not new_files(spark, bronze, files):
        return StreamProgress(files=0, rows=0)
    deliveries = {file.delivery for file in files}
    loaded: list[StreamProgress] = []
    failed: list[Exception] = []

    def take(batch: DataFrame, _batch_id: int) -> None:
        # Listed after Spark's own listing, so that no file which Spark will remember as seen is missing here.
        complete = {str(file.path): file for file in complete_files(landing, feed)}
        offered = [complete[path] for path in _paths(batch) if path in complete]
        # A snapshot tells what is absent only as a whole, so it is not cut into micro-batches.
        whole = {file.delivery for file in offered if read_delivery(landing, feed, file.delivery).snapshot}
        offered = [file for file in complete.values() if file in offered or file.delivery in whole]
        fresh = new_files(spark, bronze, offered)
        try:
            loaded.append(StreamProgress(len(fresh), append(fresh) if fresh else 0))
        except Exception as error:
            failed.append(error)
            raise

    query = (
        spark.readStream.format("binaryFile")
        .schema(_FILE_SCHEMA)
        .option("recursiveFileLookup", "true")
        # A file that was refused may be gone when its micro-batch comes again.
        .option("ignoreMissingFiles", "true")
        .option("maxFileAge", _NEVER_TOO_OLD)
        .option("maxFilesPerTrigger", feed.max_files_per_trigger)
        .load(_glob(landing / feed.name, deliveries))
        .select("path")
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(take)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise (failed[0] if failed else error) from None
    return StreamProgress(sum(batch.files for batch in loaded), sum(batch.rows for batch in loaded))


def _paths(batch: DataFrame) -> list[str]:
    return sorted(str(Path(row.path.removeprefix("file:"))) for row in batch.collect())


def new_files(spark: SparkSession, bronze: str, offered: Iterable[LandingFile]) -> tuple[LandingFile, ...]:
    """Those of the offered files that the bronze table does not hold, by their path below the landing root."""
    offered = tuple(offered)
    if not offered or not exists(spark, bronze):
        return offered
    known = {row[0] for row in spark.table(bronze).select("_tech_source_file").distinct().collect()}
    return tuple(file for file in offered if file.relative not in known)


def _glob(root: Path, deliveries: set[str]) -> str:
    """A Hadoop glob for exactly these deliveries, so that one that is not complete yet is not remembered as seen."""
    return f"{_literal(str(root))}/{{{','.join(_literal(delivery) for delivery in sorted(deliveries))}}}"


def _literal(text: str) -> str:
    return "".join(f"\\{char}" if char in "{}[]*?,\\^" else char for char in text)
