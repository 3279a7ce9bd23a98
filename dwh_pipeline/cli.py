"""`dwh`: the warehouse from the command line. Thin: parse, call a load or read a table, show.

Results go to standard output (`--json` for programs), progress and errors to standard error. The exit code is 0, or 1
with one plain message when something could not be done; `dwh health` has codes of its own.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType
from rich import box
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.table import Table

from dwh_pipeline import reports
from dwh_pipeline.contracts.outcomes import LoadReport, Outcome
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.errors import WarehouseError
from dwh_pipeline.lake import catalog
from dwh_pipeline.lake.checkpoint import MEANINGS
from dwh_pipeline.lake.landing import read_feeds
from dwh_pipeline.lake.session import open_session
from dwh_pipeline.loads import health as health_load
from dwh_pipeline.loads import maintenance, recovery, warehouse
from dwh_pipeline.loads.place import Place
from dwh_pipeline.settings import Settings, load_settings
from dwh_pipeline.tables import agg_revenue_month, load_ledger, quarantine, registry

_AT_MOST = 1000  # rows that a listing takes from Spark; more belong into a query


def _lake_options(command: Callable[..., None]) -> Callable[..., None]:
    for name, what in (("--checkpoints", "root of the stream checkpoints"), ("--lake", "root of all tables")):
        command = click.option(
            name, type=click.Path(path_type=Path), help=f"{what} (absolute; else from the settings)"
        )(command)
    return command


def _place_options(command: Callable[..., None]) -> Callable[..., None]:
    command = _lake_options(command)
    return click.option("--json", "as_json", is_flag=True, help="print JSON instead of tables")(command)


_landing_option = click.option(
    "--landing", type=click.Path(path_type=Path), help="folder with feeds.toml and the deliveries"
)


def _plain_errors(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def guarded(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except WarehouseError as error:
            _progress().print(f"dwh: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
            sys.exit(1)

    return guarded


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dwh_pipeline")
def main() -> None:
    """SAP tables as files to a Delta warehouse that no re-run can change."""


@main.command()
@_landing_option
@click.option("--timings", is_flag=True, help="show where the time went")
@_place_options
@_plain_errors
def run(landing: Path | None, lake: Path | None, checkpoints: Path | None, *, timings: bool, as_json: bool) -> None:
    """Load everything that is new in the landing area, up to gold."""
    place = _place(landing, lake, checkpoints)
    _show_loads(place, warehouse.run(place), timings=timings, as_json=as_json)


@main.command()
@click.argument("deliveries", nargs=-1)
@_landing_option
@_place_options
@_plain_errors
def plan(
    deliveries: tuple[str, ...], landing: Path | None, lake: Path | None, checkpoints: Path | None, *, as_json: bool
) -> None:
    """Show what `dwh run` would do, or what loading or replaying DELIVERIES would. Nothing is written."""
    place = _place(landing, lake, checkpoints)
    reports, stopped = _collect(warehouse.plan(place, deliveries or None), doing="planning")
    if as_json:
        _print_json({"tables": [_report_as_dict(report) for report in reports]})
    else:
        _out().print(_reports_table(reports, title="Plan: what a load would do", timings=False))
        _out().print(_plan_summary(reports))
    if stopped is not None:
        raise stopped


@main.command()
@click.argument("deliveries", nargs=-1, required=True)
@_landing_option
@_place_options
@_plain_errors
def replay(
    deliveries: tuple[str, ...], landing: Path | None, lake: Path | None, checkpoints: Path | None, *, as_json: bool
) -> None:
    """Load DELIVERIES that bronze holds once more, with feeds.toml as it is now, and build gold."""
    place = _place(landing, lake, checkpoints)
    _show_loads(place, warehouse.replay(place, deliveries), timings=False, as_json=as_json)


@main.command("recover-stream")
@click.argument("feed")
@click.option("--apply", "apply_", is_flag=True, help="do the safe repairs that are shown")
@click.option("--new-generation", is_flag=True, help="with --apply: start a new checkpoint in any case")
@_landing_option
@_place_options
@_plain_errors
def recover_stream(
    feed: str,
    landing: Path | None,
    lake: Path | None,
    checkpoints: Path | None,
    *,
    apply_: bool,
    new_generation: bool,
    as_json: bool,
) -> None:
    """Show the state of the stream of FEED and what is wrong with it; repair it with --apply. Nothing is deleted."""
    place = _place(landing, lake, checkpoints)
    of = recovery.feed_named(place, feed)
    state = recovery.state_of(place, of)
    done = recovery.recover(place, of, new_generation=new_generation) if apply_ else []
    if as_json:
        _print_json({**asdict(state), "feed": feed, "repaired": done})
        return
    _out().print(_stream_table(state))
    for line in done or (["nothing to repair"] if apply_ else []):
        _out().print(line)


@main.command()
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="write the outcomes as JUnit XML here")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="and as JSON here")
@click.option("--strict", is_flag=True, help="exit code 1 if anything is a warning")
@click.option("--rule", "only_rules", multiple=True, help="ask this rule alone (may be given several times)")
@click.option("--table", "only_tables", multiple=True, help="ask about this table (schema.name) alone")
@_landing_option
@_lake_options
@_plain_errors
def health(
    *,
    junit: Path | None,
    json_file: Path | None,
    strict: bool,
    only_rules: tuple[str, ...],
    only_tables: tuple[str, ...],
    landing: Path | None,
    lake: Path | None,
    checkpoints: Path | None,
) -> None:
    """Ask every health rule and every expectation of every table. Loads nothing.

    Exit code 0; 1 if anything is a WARN and --strict is given; 2 if anything is an ERROR. Outcomes of the health rules
    are kept in ops.health_history.
    """
    checks = health_load.chosen(only_rules, only_tables)
    settings = load_settings(landing=landing, lake=lake, checkpoints=checkpoints)
    place = _place(landing, lake, checkpoints)
    with _progress().status("asking") as status:
        outcomes = health_load.examine(
            place, settings.health, checks, tell=lambda name: status.update(f"asking: {name}")
        )
        health_load.record(place, outcomes)
    for file, text in ((junit, reports.as_junit(outcomes, strict=strict)), (json_file, reports.as_json(outcomes))):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    _out().print(reports.screen(outcomes))
    _out().print(reports.summary(outcomes), highlight=False)
    sys.exit(reports.exit_code(outcomes, strict=strict))


@main.command()
@click.option("--apply", "apply_", is_flag=True, help="do what is shown")
@click.option("--table", "only_tables", multiple=True, help="maintain this table (schema.name) alone")
@_landing_option
@_lake_options
@_plain_errors
def maintain(
    only_tables: tuple[str, ...], landing: Path | None, lake: Path | None, checkpoints: Path | None, *, apply_: bool
) -> None:
    """Show what would compact, purge and vacuum the tables, and why or why not; do it with --apply. No row changes."""
    settings = load_settings(landing=landing, lake=lake, checkpoints=checkpoints)
    place = _place(landing, lake, checkpoints)
    with _progress().status("looking"):
        actions = maintenance.plan(place, settings.health, only_tables)
    _out().print(reports.upkeep(actions))
    if not apply_:
        _out().print("Nothing was done; --apply does what is not refused.", highlight=False)
        return
    with _progress().status("maintaining"):
        for line in maintenance.apply(place, settings.health, actions):
            _out().print(line, highlight=False, soft_wrap=True)


@main.command()
@_place_options
@_plain_errors
def ledger(lake: Path | None, checkpoints: Path | None, *, as_json: bool) -> None:
    """Show what every load did with the rows it read, newest first."""
    spark = _session(load_settings(lake=lake, checkpoints=checkpoints))
    rows = _read(spark, load_ledger.CONTRACT).orderBy(F.desc("finished_at"), "table_name", "_tech_batch_id")
    if as_json:
        _print_json(_dicts(rows))
        return
    counts = {outcome.words: outcome.value for outcome in Outcome} | {"deleted as absent": "absent"}
    did = F.concat_ws(", ", *(F.when(F.col(n) > 0, F.concat(F.lit(f"{words} "), n)) for words, n in counts.items()))
    columns = {
        "finished": F.date_format("finished_at", "yyyy-MM-dd HH:mm:ss"),
        "table": F.col("table_name"),
        "delivery": F.concat("_tech_batch_id", F.when(F.col("is_replay"), " (replay)").otherwise("")),
        "rows read": F.col("rows_read"),
        "what the load did": did,
    }
    _print_rows("Load ledger", rows.select(*(column.alias(name) for name, column in columns.items())))


@main.command()
@_place_options
@_plain_errors
def rejects(lake: Path | None, checkpoints: Path | None, *, as_json: bool) -> None:
    """Show the rows that could not be taken, with file, row and reason."""
    spark = _session(load_settings(lake=lake, checkpoints=checkpoints))
    rows = _read(spark, quarantine.CONTRACT).orderBy("_tech_source_file", "_tech_row_number")
    if as_json:
        _print_json(_dicts(rows))
        return
    columns = {"file": "_tech_source_file", "row": "_tech_row_number", "reason": "reason", "raw record": "raw_record"}
    _print_rows("Quarantine", rows.select(*(F.col(column).alias(name) for name, column in columns.items())))


@main.command()
@_place_options
@_plain_errors
def revenue(lake: Path | None, checkpoints: Path | None, *, as_json: bool) -> None:
    """Show the revenue per client, month and currency."""
    spark = _session(load_settings(lake=lake, checkpoints=checkpoints))
    if as_json:
        _print_json(_dicts(_revenue_rows(spark)))
    else:
        _print_revenue(spark)


def _out() -> Console:
    return Console()


def _progress() -> Console:
    return Console(stderr=True)


def _session(settings: Settings) -> SparkSession:
    with _progress().status("starting Spark"):
        spark = open_session(settings)
    catalog.use_lake(spark, settings.lake)
    return spark


def _tell_what_streams_do() -> None:
    """Files, rows and rows per second of every micro-batch, and warnings, on standard error."""
    log = logging.getLogger("dwh_pipeline")
    handler = RichHandler(console=_progress(), show_path=False, show_level=False, show_time=False)
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    click.get_current_context().call_on_close(lambda: log.removeHandler(handler))


def _place(landing: Path | None, lake: Path | None, checkpoints: Path | None) -> Place:
    settings = load_settings(landing=landing, lake=lake, checkpoints=checkpoints)
    read_feeds(settings.landing)  # a wrong feed is reported in a moment, before Spark starts
    _tell_what_streams_do()
    return Place(_session(settings), settings.landing, settings.checkpoint_root)


def _collect(reports: Iterator[LoadReport], *, doing: str) -> tuple[list[LoadReport], WarehouseError | None]:
    """The reports, each told on standard error as it comes, and what stopped the rest."""
    done: list[LoadReport] = []
    progress = _progress()
    with progress.status(doing) as status:
        try:
            for report in reports:
                done.append(report)
                status.update(f"{doing}: {report.table}")
                progress.print(f"  {report.table:<26} {_did(report)}", highlight=False, soft_wrap=True)
        except WarehouseError as error:
            return done, error
    return done, None


def _show_loads(place: Place, loads: Iterator[LoadReport], *, timings: bool, as_json: bool) -> None:
    reports, stopped = _collect(loads, doing="loading")
    has_revenue = catalog.exists(place.spark, place.name(agg_revenue_month.CONTRACT))
    if as_json:
        revenue = _dicts(_revenue_rows(place.spark)) if has_revenue else []
        _print_json({"tables": [_report_as_dict(report) for report in reports], "revenue": revenue})
    else:
        _out().print(_reports_table(reports, title="Tables", timings=timings))
        if has_revenue:
            _print_revenue(place.spark)
        _out().print(_summary(reports))
    if stopped is not None:
        if waiting := _not_loaded({report.table for report in reports}):
            _progress().print(f"not loaded: {', '.join(waiting)}", highlight=False, soft_wrap=True)
        raise stopped


def _not_loaded(loaded: set[str]) -> list[str]:
    """The tables that had no turn. A replay takes none of bronze, so those count only where one of them was loaded."""
    schemas = {"silver", "gold", *(table.partition(".")[0] for table in loaded)} if loaded else set()
    return [c.qualified_name for c in registry.LOADED if c.schema in schemas and c.qualified_name not in loaded]


def _read(spark: SparkSession, contract: TableContract) -> DataFrame:
    return catalog.read(spark, f"{catalog.DEFAULT_CATALOG}.{contract.qualified_name}")


def _revenue_rows(spark: SparkSession) -> DataFrame:
    rows = _read(spark, agg_revenue_month.CONTRACT).drop("_tech_loaded_at")
    return rows.orderBy("client_id", "revenue_month", "currency")


def _print_revenue(spark: SparkSession) -> None:
    columns = {
        "client": F.col("client_id"),
        "month": F.coalesce(F.date_format("revenue_month", "yyyy-MM"), F.lit("unknown")),
        "currency": F.coalesce("currency", F.lit("unknown")),
        "revenue": F.col("revenue_amount"),
        "lines": F.col("line_count"),
        "orders": F.col("order_count"),
    }
    rows = _revenue_rows(spark).select(*(column.alias(name) for name, column in columns.items()))
    _print_rows("Revenue per month and currency", rows)


def _dicts(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.limit(_AT_MOST).collect()]


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, default=str))


def _print_rows(title: str, rows: DataFrame) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    numeric = {field.name for field in rows.schema if isinstance(field.dataType, NumericType)}
    for name in rows.columns:
        table.add_column(name, justify="right" if name in numeric else "left", overflow="fold")
    taken = rows.limit(_AT_MOST + 1).collect()
    for row in taken[:_AT_MOST]:
        table.add_row(*("" if value is None else escape(str(value)) for value in row))
    _out().print(table)
    if len(taken) > _AT_MOST:
        _out().print(f"Only the first {_AT_MOST} rows are shown; query the table for more.")


def _reports_table(reports: list[LoadReport], *, title: str, timings: bool) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("table", no_wrap=True)
    table.add_column("rows", justify="right")
    table.add_column("read", justify="right")
    table.add_column("what the load did")
    if timings:
        table.add_column("seconds", justify="right")
    for report in reports:
        cells = [report.table, str(report.rows), str(report.rows_read or ""), _did(report)]
        table.add_row(*cells, *([f"{report.seconds:.1f}"] if timings else []))
    return table


def _did(report: LoadReport) -> str:
    """The outcomes of the rows read, or for gold, which reads no deliveries, the rows written."""
    written = report.written
    new = [f"new columns {', '.join(report.new_columns)}"] if report.new_columns else []
    new += [f"skipped {', '.join(report.skipped)}"] if report.skipped else []
    if report.outcomes or report.absent:
        told = [f"{outcome.words} {count}" for outcome, count in report.outcomes.items()]
        absent = [f"deleted as absent {report.absent}"] if report.absent else []
        return ", ".join([*told, *absent, *new])
    changes = {"inserted": written.inserted, "updated": written.updated, "deleted": written.deleted}
    return ", ".join([*(f"{what} {count}" for what, count in changes.items() if count), *new]) or "nothing to do"


def _summary(reports: list[LoadReport]) -> str:
    wrote = [report.table for report in reports if report.written.version is not None]
    seconds = sum(report.seconds for report in reports)
    if not wrote:
        return f"Nothing changed, nothing was written ({seconds:.0f} s)."
    return f"{len(wrote)} of {len(reports)} tables were written ({seconds:.0f} s)."


def _stream_table(state: recovery.StreamState) -> Table:
    table = Table(title=f"Stream of {state.feed.name}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("what", no_wrap=True)
    table.add_column("found", overflow="fold")
    table.add_row("checkpoint", str(state.checkpoint) if state.entries else f"{state.checkpoint} (none yet)")
    for name, count in state.entries.items():
        table.add_row(name, f"{count} files: {MEANINGS[name]}")
    if state.begun is not None:
        done = "none" if state.done is None else str(state.done)
        table.add_row("micro-batches", f"last begun {state.begun}, last done {done}")
    if (passport := state.passport) is not None:
        made = f"feed {passport.feed}, generation {passport.generation}, query {passport.query_id}, {passport.made_at}"
        table.add_row("passport", made)
    for problem in state.problems:
        table.add_row("problem", f"{problem.what}; safe repair: {problem.repair}")
    named = ", ".join(state.backlog[:5]) + (", ..." if len(state.backlog) > 5 else "")  # noqa: PLR2004
    table.add_row("backlog", f"{len(state.backlog)} files: {named}" if state.backlog else "0 files")
    return table


def _plan_summary(reports: list[LoadReport]) -> str:
    writes = [r.table for r in reports if r.written.inserted + r.written.updated + r.written.deleted]
    return f"{len(writes)} of {len(reports)} tables would be written." if writes else "Nothing would be written."


def _report_as_dict(report: LoadReport) -> dict[str, Any]:
    return {
        "table": report.table,
        "rows": report.rows,
        "rows_read": report.rows_read,
        "outcomes": {outcome.value: count for outcome, count in report.outcomes.items()},
        "absent": report.absent,
        "new_columns": list(report.new_columns),
        "skipped": list(report.skipped),
        "written": {
            "inserted": report.written.inserted,
            "updated": report.written.updated,
            "deleted": report.written.deleted,
            "version": report.written.version,
        },
        "seconds": round(report.seconds, 1),
    }
