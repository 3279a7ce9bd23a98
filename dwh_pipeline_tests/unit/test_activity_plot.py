"""The plot of the activity: a bar per window, told apart by table."""

from datetime import UTC, datetime, timedelta

from dwh_pipeline.loads.ingest_activity import Activity, plot

_START = datetime(2026, 4, 1, 10, tzinfo=UTC)


def _windows(table: str, *counts: int) -> list[Activity]:
    return [Activity(table, _START + timedelta(minutes=5 * i), count) for i, count in enumerate(counts)]


def test_a_plot_has_a_heading_per_table_and_a_bar_per_window() -> None:
    assert plot([*_windows("bronze.sap_kna1", 5, 10), *_windows("bronze.sap_vbap", 1)]).splitlines() == [
        "**bronze.sap_kna1**, changes per five minutes (UTC)",
        "",
        "```text",
        "2026-04-01 10:00  5 █████",
        "2026-04-01 10:05 10 ██████████",
        "```",
        "",
        "**bronze.sap_vbap**, changes per five minutes (UTC)",
        "",
        "```text",
        "2026-04-01 10:00 1 █",
        "```",
    ]


def test_the_longest_bar_fits_and_the_shortest_can_be_seen() -> None:
    bars = [line.count("█") for line in plot(_windows("bronze.sap_kna1", 1, 50_000, 100_000)).splitlines()[3:-1]]
    assert bars == [1, 20, 40]


def test_a_plot_of_nothing_says_so() -> None:
    assert plot([]) == "No change has a time."
