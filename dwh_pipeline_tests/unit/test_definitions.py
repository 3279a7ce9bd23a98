"""The Dagster definitions as declared: nothing runs here. Runs are in `integration`, the whole graph in `golden`."""

import pkgutil
import runpy
import warnings
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

import dwh_pipeline.defs
from dwh_pipeline.contracts.table import TableContract
from dwh_pipeline.definitions import defs
from dwh_pipeline.loads.checks import CHECKS, STREAM_CHECKS
from dwh_pipeline.loads.health import HEALTH_CHECKS
from dwh_pipeline.quality.health import RULES
from dwh_pipeline.tables.registry import LOADED, OPS

_NOT_CURRENT = (dg.SupersessionWarning, dg.BetaWarning, dg.PreviewWarning)
_PACKAGE = Path(dwh_pipeline.__file__).parent
_ASSETS = (*LOADED, *OPS)

every_table = pytest.mark.parametrize("contract", _ASSETS, ids=lambda contract: contract.qualified_name)


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return defs()


@pytest.fixture(scope="module")
def specs(definitions: dg.Definitions) -> dict[str, dg.AssetSpec]:
    """The declaration of every asset, by the qualified name of its table."""
    return {".".join(spec.key.path): spec for spec in definitions.resolve_all_asset_specs()}


def _check_keys() -> set[tuple[str, str]]:
    of_streams = {(check.table.bronze_name, check.name) for check in STREAM_CHECKS}
    return {(check.contract.qualified_name, check.name) for check in CHECKS} | of_streams


def _rule_keys() -> set[tuple[str, str]]:
    return {(check.contract.qualified_name, check.rule.name) for check in HEALTH_CHECKS}


def test_the_definitions_can_be_loaded(definitions: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(definitions)


def test_there_is_an_asset_for_every_table_and_no_other(specs: dict[str, dg.AssetSpec]) -> None:
    assert sorted(specs) == sorted(contract.qualified_name for contract in _ASSETS)


@every_table
def test_an_asset_depends_on_what_its_table_is_built_from(
    specs: dict[str, dg.AssetSpec], contract: TableContract
) -> None:
    deps = {".".join(dep.asset_key.path) for dep in specs[contract.qualified_name].deps}
    assert deps == set(contract.upstream)


@every_table
def test_an_asset_says_what_it_is_and_whose(specs: dict[str, dg.AssetSpec], contract: TableContract) -> None:
    spec = specs[contract.qualified_name]
    assert spec.group_name == contract.schema
    assert spec.kinds == {"spark", "delta"}
    assert spec.description == contract.description
    assert spec.owners
    assert all(owner.startswith("team:") for owner in spec.owners)


@every_table
def test_the_columns_of_an_asset_are_those_of_the_contract(
    specs: dict[str, dg.AssetSpec], contract: TableContract
) -> None:
    schema = specs[contract.qualified_name].metadata["dagster/column_schema"]
    shown = [(column.name, column.type, column.description, column.constraints.nullable) for column in schema.columns]
    assert shown == [(column.name, column.type, column.description, column.nullable) for column in contract.columns]


def test_the_checks_are_those_that_guard_the_loads(definitions: dg.Definitions) -> None:
    keys = definitions.resolve_asset_graph().asset_check_keys
    assert {(".".join(key.asset_key.path), key.name) for key in keys} == _check_keys() | _rule_keys()


def test_integrity_checks_block_and_reports_for_people_do_not(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    blocking = {key.asset_key.path[0] for key in graph.asset_check_keys if graph.get_check_spec(key).blocking}
    advisory = {key.name for key in graph.asset_check_keys if not graph.get_check_spec(key).blocking}
    assert blocking == {"silver", "gold"}
    assert advisory == {
        "changes_have_one_content",
        "files_have_the_same_columns",
        "checkpoint_is_recoverable",
        "checkpoint_belongs_to_one_stream",
        "backlog_is_empty",
        "no_file_changed_after_ingest",
        "counters_do_not_restart",
        "currency_is_known",
        "document_category_is_known",
        "open_version_equals_newest_change",
        "no_gap_but_a_deletion",
        "line_has_one_customer_version",
        "fact_has_the_lines_of_silver",
        "header_totals_equal_items",
        *(rule.name for rule in RULES),
    }


def test_every_run_stays_in_one_process(definitions: dg.Definitions) -> None:
    assert definitions.executor is dg.in_process_executor
    assert {job.executor_def.name for job in definitions.resolve_all_job_defs()} == {"in_process"}


def test_the_job_load_warehouse_covers_every_table_of_the_warehouse_and_every_check(
    definitions: dg.Definitions,
) -> None:
    layer = definitions.resolve_job_def("load_warehouse").asset_layer
    assert {".".join(key.path) for key in layer.executable_asset_keys} == {table.qualified_name for table in LOADED}
    of_loaded = {key for key in _rule_keys() if not key[0].startswith("ops.")}
    asked = {(".".join(key.asset_key.path), key.name) for key in layer.asset_graph.asset_check_keys}
    assert asked == _check_keys() | of_loaded


def test_the_job_check_health_asks_every_rule_and_loads_nothing(definitions: dg.Definitions) -> None:
    layer = definitions.resolve_job_def("check_health").asset_layer
    asked = {(".".join(key.asset_key.path), key.name) for key in layer.asset_graph.asset_check_keys}
    assert asked == _rule_keys()
    assert not layer.selected_asset_keys


def test_the_job_count_activity_covers_its_one_asset(definitions: dg.Definitions) -> None:
    layer = definitions.resolve_job_def("count_activity").asset_layer
    assert layer.executable_asset_keys == {dg.AssetKey(["ops", "ingest_activity"])}


def _modules() -> Iterator[str]:
    yield "dwh_pipeline.definitions"
    yield from (module.name for module in pkgutil.iter_modules(dwh_pipeline.defs.__path__, "dwh_pipeline.defs."))


def test_loading_uses_nothing_that_dagster_is_about_to_change() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for module in _modules():
            runpy.run_module(module)  # once more, as it was imported before
        dg.Definitions.validate_loadable(defs())
    # A DeprecationWarning may be between two libraries; the others are always about how we use Dagster.
    ours = [
        f"{warning.filename}:{warning.lineno}: {warning.message}"
        for warning in caught
        if issubclass(warning.category, _NOT_CURRENT)
        or (issubclass(warning.category, DeprecationWarning) and Path(warning.filename).is_relative_to(_PACKAGE))
    ]
    assert ours == []
