"""Expectations that look at more than one table, or at the ledger, on rows made by hand."""

from pyspark.sql import SparkSession

from dwh_pipeline.contracts.outcomes import Outcome
from dwh_pipeline.quality.expectations import some_change_is_newer
from dwh_pipeline_tests.frames import frame_of

_LEDGER = "_tech_batch_id STRING, " + ", ".join(f"{outcome.value} BIGINT" for outcome in Outcome)


def test_m07_a_delivery_that_lost_with_all_its_changes_is_named_but_not_its_replay(spark: SparkSession) -> None:
    nothing = dict.fromkeys((outcome.value for outcome in Outcome), 0)
    loads = [
        {"_tech_batch_id": "E1", **nothing, "inserted": 5},
        {"_tech_batch_id": "E2 restarted", **nothing, "older": 4, "quarantined": 1},
        {"_tech_batch_id": "E3 partly late", **nothing, "older": 4, "updated": 1},
        {"_tech_batch_id": "E1", **nothing, "older": 5},
        {"_tech_batch_id": "E4 again", **nothing, "older": 1, "equal": 3},
        {"_tech_batch_id": "with times", **nothing, "older": 3},
    ]
    counters = frame_of(spark, ["_tech_batch_id"], [[row["_tech_batch_id"]] for row in loads[:-1]])
    finding = some_change_is_newer(frame_of(spark, _LEDGER, loads), counters)
    assert finding.failing_rows == 1
    assert "E2 restarted" in finding.samples[0]
