"""No code brings an unbounded number of rows to the driver: every place that collects is here, with what bounds it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import dwh_pipeline

_PACKAGE = Path(dwh_pipeline.__file__).parent
_COLLECTS = {"collect", "toPandas", "toLocalIterator", "take", "first", "head", "tail"}

BOUNDED = {
    "cli.py::_dicts": "limited to _AT_MOST rows",
    "cli.py::_print_rows": "limited to _AT_MOST rows, and one to see whether there are more",
    "lake/catalog.py::table_id": "one row of DESCRIBE DETAIL",
    "lake/catalog.py::properties": "properties of one table",
    "lake/catalog.py::_forget_names": "names of one schema",
    "lake/facts.py::detail": "one row of DESCRIBE DETAIL, one of the history",
    "lake/facts.py::files_of": "one checksum file",
    "lake/facts.py::retention_of": "one row",
    "lake/facts.py::days_since": "one aggregate",
    "lake/facts.py::version_at": "one aggregate",
    "lake/facts.py::is_readable": "one aggregate",
    "lake/facts.py::keys_of": "one aggregate",
    "lake/facts.py::repeats_of": "one aggregate, and at most SAMPLES keys",
    "lake/landing.py::_json_names": "the names of the fields of each file",
    "lake/ledger.py::loaded_rows": "one row per delivery",
    "lake/ledger.py::newest_load": "one aggregate: the deliveries of one load",
    "lake/maintenance.py::optimize": "one row of metrics",
    "lake/maintenance.py::purge": "one row of metrics",
    "lake/plans.py::_optimised_plan": "one text",
    "lake/setup.py::_self_test": "a table of the self-test",
    "lake/stream.py::_paths": "at most max_files_per_trigger paths",
    "lake/stream.py::held_files": "one row per file; measured by driver_is_safe",
    "lake/writes.py::plan_change": "one row per kind of change",
    "lake/writes.py::apply_change": "one row of metrics",
    "loads/bronze_load.py::run": "one row per delivery",
    "loads/delivered.py::delivered_of": "one row per delivery; measured by driver_is_safe",
    "loads/health.py::_last_kept": "one row per rule and table",
    "loads/health.py::newest_history": "at most _NEWEST rows per rule and table",
    "loads/health.py::driver": "one aggregate",
    "loads/ingest_activity.py::newest": "at most _NEWEST_WINDOWS rows per table",
    "loads/intake.py::_same_content": "one row per file of the micro-batch",
    "loads/intake.py::_look_at": "one row per file of the micro-batch",
    "loads/intake.py::_refuse_if_too_small": "one row, and one per snapshot",
    "loads/silver.py::_counts": "one row per delivery and outcome; measured by driver_is_safe",
    "loads/warehouse.py::_deliveries_in_bronze": "one row per delivery",
    "quality/expectations.py::_finding": "one aggregate with at most SAMPLES keys",
}


def _places(tree: ast.AST, module: str) -> Iterator[str]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        of_functions = isinstance(call.func.value, ast.Name) and call.func.value.id == "F"
        if call.func.attr in _COLLECTS and not of_functions:
            around = [f for f in functions if f.lineno <= call.lineno <= (f.end_lineno or 0)]
            yield f"{module}::{min(around, key=lambda f: call.lineno - f.lineno).name}"


def test_every_place_that_collects_rows_says_what_bounds_them() -> None:
    found = {
        place
        for path in _PACKAGE.rglob("*.py")
        for place in _places(ast.parse(path.read_text(encoding="utf-8")), path.relative_to(_PACKAGE).as_posix())
    }
    assert found == BOUNDED.keys()


def test_a_broadcast_is_forced_where_the_number_of_rows_is_bounded_alone() -> None:
    forcing = {
        path.relative_to(_PACKAGE).as_posix() for path in _PACKAGE.rglob("*.py") if "broadcast(" in path.read_text()
    }
    assert forcing <= {"loads/silver.py", "lake/plans.py"}  # MOST_BROADCAST_KEYS; and the rule that looks for them
