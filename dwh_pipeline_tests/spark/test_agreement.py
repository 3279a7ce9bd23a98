"""What has to agree between tables: every expectation on rows made by hand, and all of them on one small warehouse."""

import pytest
from pyspark.sql import SparkSession

from dwh_pipeline.loads.silver import MOST_BROADCAST_KEYS, rows_of_keys


@pytest.mark.parametrize(
    ("at_most", "is_broadcast"), [(MOST_BROADCAST_KEYS, True), (MOST_BROADCAST_KEYS + 1, False)], ids=["few", "many"]
)
def test_h03_keys_are_broadcast_only_while_they_are_few(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], at_most: int, is_broadcast: bool
) -> None:
    # Of this size Spark would broadcast nothing by itself; the plan is never carried out.
    rows, keys = spark.range(10**10), spark.range(10**10)
    rows_of_keys(rows, keys, ("id",), at_most=at_most).explain("extended")
    plan = capsys.readouterr().out
    assert ("BroadcastHashJoin" in plan) == is_broadcast
    assert ("strategy=broadcast" in plan) == is_broadcast
