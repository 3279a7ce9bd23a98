"""Pictures for the page: the trend of a health rule, the counts of changes. What they show is read in `loads`."""

import base64
from collections.abc import Iterable
from datetime import datetime, timedelta
from io import BytesIO
from itertools import groupby

from matplotlib import rc_context
from matplotlib.figure import Figure

from dwh_pipeline.contracts.health import Rule, Status
from dwh_pipeline.loads.health import Kept
from dwh_pipeline.loads.ingest_activity import Activity

_COLOURS = {Status.HEALTHY: "0.75", Status.NOTED: "tab:cyan", Status.WARN: "tab:orange", Status.ERROR: "tab:red"}
_INCHES, _DPI = (7, 2.2), 80  # small: every health step keeps one per rule among Dagster's events
_MARGIN = timedelta(minutes=5)


@rc_context({"date.converter": "concise"})
def trend(rule: Rule, kept: Iterable[Kept], until: datetime) -> Figure:
    """The number of a rule over time: a line per table, which holds until the next outcome or `until` (UTC).

    `kept` are the outcomes of the rule in the order of table and time. A dot is an outcome, its colour the status; a
    line has the colour of the newest one, and a name if that is not healthy.
    """
    figure = Figure(figsize=_INCHES, dpi=_DPI, layout="constrained")
    axes = figure.subplots()
    for table, rows in groupby(kept, key=lambda one: one.table):
        outcomes = list(rows)
        times, numbers = [one.at for one in outcomes], [one.measure for one in outcomes]
        newest = outcomes[-1].status
        axes.step(
            [*times, until],  # type: ignore[arg-type]  # the types of matplotlib leave out the dates that it takes
            [*numbers, numbers[-1]],
            where="post",
            color=_COLOURS[newest],
            label="_" if newest is Status.HEALTHY else f"{table} ({newest.value})",
        )
        colours = [_COLOURS[one.status] for one in outcomes]
        axes.scatter(times, numbers, s=12, zorder=3, color=colours)  # type: ignore[arg-type]  # as above
    axes.set_ylim(bottom=0)
    axes.set_ylabel(rule.measure)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="x-small", frameon=False)
    return figure


@rc_context({"date.converter": "concise"})
def activity(windows: Iterable[Activity]) -> Figure:
    """The number of changes per window: a plot per bronze table, a needle per window.

    `windows` are those of at least one table, those of one table together, each in the order of time.
    """
    by_table = [(table, list(rows)) for table, rows in groupby(windows, key=lambda one: one.source_table)]
    width, height = _INCHES
    figure = Figure(figsize=(width, height * len(by_table)), dpi=_DPI, layout="constrained")
    plots = figure.subplots(len(by_table), sharex=True, squeeze=False)
    for axes, (table, rows) in zip(plots.flat, by_table, strict=True):
        # A needle is as wide in a month as in an hour; a bar of five minutes could not be seen.
        axes.stem([row.window_start for row in rows], [row.row_count for row in rows], basefmt=" ")
        axes.set_title(table)
        axes.set_ylim(bottom=0)
        axes.yaxis.get_major_locator().set_params(integer=True)
    starts = [row.window_start for _, rows in by_table for row in rows]
    plots.flat[0].set_xlim(min(starts) - _MARGIN, max(starts) + _MARGIN)
    return figure


def as_markdown(figure: Figure, what: str) -> str:
    """The picture within the text of Markdown; `what` is read where it cannot be seen."""
    file = BytesIO()
    figure.savefig(file, format="png")
    return f"![{what}](data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')})"
