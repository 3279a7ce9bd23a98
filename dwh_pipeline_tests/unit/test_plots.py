"""What is drawn: lines of a trend hold until the next outcome and are coloured by it, needles are counts."""

import base64
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import same_color
from matplotlib.dates import date2num
from matplotlib.figure import Figure

from dwh_pipeline.contracts.health import Status
from dwh_pipeline.defs.activity import activity_plot
from dwh_pipeline.loads.health import Kept
from dwh_pipeline.loads.ingest_activity import Activity
from dwh_pipeline.plots import activity, as_markdown, trend
from dwh_pipeline.quality.health import FILES_ARE_NOT_SMALL

_DAYS = [datetime(2026, 4, day, tzinfo=UTC) for day in (1, 2, 3)]


def _kept(table: str, day: int, status: Status, files: float) -> Kept:
    return Kept(FILES_ARE_NOT_SMALL.name, table, _DAYS[day], status, files)


@pytest.fixture
def figure() -> Figure:
    return trend(
        FILES_ARE_NOT_SMALL,
        [
            _kept("gold.dim_customer", 0, Status.HEALTHY, 3),
            _kept("silver.customer", 0, Status.HEALTHY, 4),
            _kept("silver.customer", 1, Status.WARN, 40),
        ],
        until=_DAYS[2],
    )


def test_a_line_goes_through_the_outcomes_of_its_table_and_holds_until_now(figure: Figure) -> None:
    (axes,) = figure.axes
    first, second, now = map(float, date2num(_DAYS))  # type: ignore[no-untyped-call]
    drawn = [np.asarray(line.get_xydata()).tolist() for line in axes.get_lines()]
    assert drawn == [[[first, 3], [now, 3]], [[first, 4], [second, 40], [now, 40]]]
    assert {line.get_drawstyle() for line in axes.get_lines()} == {"steps-post"}
    assert axes.get_ylabel() == FILES_ARE_NOT_SMALL.measure


def test_only_what_is_not_healthy_now_has_a_colour_and_a_name(figure: Figure) -> None:
    (axes,) = figure.axes
    healthy, warned = axes.get_lines()
    assert [same_color(healthy.get_color(), "0.75"), same_color(warned.get_color(), "tab:orange")] == [True, True]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["silver.customer (warn)"]


def test_where_all_is_healthy_there_are_no_names() -> None:
    figure = trend(FILES_ARE_NOT_SMALL, [_kept("silver.customer", 0, Status.HEALTHY, 4)], until=_DAYS[2])
    assert figure.axes[0].get_legend() is None


def test_a_picture_in_markdown_is_a_small_png_file(figure: Figure) -> None:
    start, _, encoded = as_markdown(figure, "data files").partition("base64,")
    picture = base64.b64decode(encoded.removesuffix(")"))
    assert start == "![data files](data:image/png;"
    assert picture.startswith(b"\x89PNG\r\n")
    assert len(picture) < 30_000


def test_the_activity_of_each_table_has_a_needle_per_window() -> None:
    counts = {"bronze.sap_kna1": [1, 50_000, 100_000], "bronze.sap_vbap": [2]}
    start, width = datetime(2026, 4, 1, 10, tzinfo=UTC), timedelta(minutes=5)
    windows = [Activity(table, start + n * width, count) for table, of in counts.items() for n, count in enumerate(of)]
    drawn = {}
    for axes in activity(windows).axes:
        (needles,) = axes.collections
        assert isinstance(needles, LineCollection)
        drawn[axes.get_title()] = [[list(point) for point in needle] for needle in needles.get_segments()]
    at = [float(date2num(start + n * width)) for n in range(3)]  # type: ignore[no-untyped-call]
    assert drawn == {
        table: [[[at[n], 0], [at[n], count]] for n, count in enumerate(of)] for table, of in counts.items()
    }


def test_without_any_window_that_is_said() -> None:
    assert activity_plot([]).value == "No change has a time."
