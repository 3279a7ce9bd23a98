"""Upkeep of a table that changes no row: compact files, purge deletion vectors, remove files that nobody uses.

Each is a command of Delta and makes a commit only if it has something to do. Whether it may be done is decided in
`quality.maintenance`.
"""

from pyspark.sql import SparkSession

# Delta logs a VACUUM only where its file system can rename without overwriting, unless it is told to.
_LOG_VACUUM = "spark.databricks.delta.vacuum.logging.enabled"


def cluster_by(spark: SparkSession, table: str, columns: tuple[str, ...]) -> None:
    """Have OPTIMIZE lay rows with near values of these columns into the same files from now on."""
    spark.sql(f"ALTER TABLE {table} CLUSTER BY ({', '.join(f'`{column}`' for column in columns)})")


def optimize(spark: SparkSession, table: str) -> tuple[int, int]:
    """Write small files anew as large ones; how many files were removed and added."""
    metrics = spark.sql(f"OPTIMIZE {table}").collect()[0]["metrics"]
    return metrics["numFilesRemoved"], metrics["numFilesAdded"]


def purge(spark: SparkSession, table: str) -> tuple[int, int]:
    """Write files that have rows marked as deleted anew without them; how many files were removed and added."""
    metrics = spark.sql(f"REORG TABLE {table} APPLY (PURGE)").collect()[0]["metrics"]
    return metrics["numFilesRemoved"], metrics["numFilesAdded"]


def unused_files(spark: SparkSession, table: str) -> int:
    """How many files a VACUUM would remove now. Lists the folder of the table."""
    return spark.sql(f"VACUUM {table} DRY RUN").count()


def vacuum(spark: SparkSession, table: str) -> None:
    """Remove files that no version within the retention of the table uses."""
    before = spark.conf.get(_LOG_VACUUM, None)
    spark.conf.set(_LOG_VACUUM, "true")
    try:
        spark.sql(f"VACUUM {table}")
    finally:
        if before is None:
            spark.conf.unset(_LOG_VACUUM)
        else:
            spark.conf.set(_LOG_VACUUM, before)
