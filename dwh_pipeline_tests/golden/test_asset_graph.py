"""The whole asset graph as reviewed text: what a change of the definitions changes is read as a diff of one file."""

from pathlib import Path

import dagster as dg
import pytest

from dwh_pipeline.definitions import defs

_GOLDEN = Path(__file__).with_name("asset_graph.txt")
_ASSET = "asset "


@pytest.fixture(scope="module")
def graph_text() -> str:
    definitions = defs()
    specs = sorted(definitions.resolve_all_asset_specs(), key=lambda spec: spec.key)
    assets = [_asset_lines(spec, definitions) for spec in specs]
    jobs = sorted(definitions.resolve_all_job_defs(), key=lambda job: job.name)
    named = [_job_lines(job) for job in jobs if not job.name.startswith("__")]
    return "\n\n".join("\n".join(lines) for lines in (*assets, *named)) + "\n"


def _asset_lines(spec: dg.AssetSpec, definitions: dg.Definitions) -> list[str]:
    graph = definitions.resolve_asset_graph()
    checks = sorted(graph.get_check_keys_for_assets({spec.key}), key=lambda key: key.name)
    return [
        f"{_ASSET}{spec.key.to_user_string()}",
        f"  {(spec.description or '').splitlines()[0]}",
        f"  group:  {spec.group_name}",
        f"  kinds:  {', '.join(sorted(spec.kinds))}",
        f"  owners: {', '.join(sorted(spec.owners))}",
        *sorted(f"  dep:    {dep.asset_key.to_user_string()}" for dep in spec.deps),
        *(f"  check:  {key.name} ({'blocks' if graph.get_check_spec(key).blocking else 'warns'})" for key in checks),
    ]


def _job_lines(job: dg.JobDefinition) -> list[str]:
    layer = job.asset_layer
    return [
        f"job {job.name}",
        f"  {(job.description or '').splitlines()[0]}",
        f"  executor: {job.executor_def.name}",
        *sorted(f"  loads:    {key.to_user_string()}" for key in layer.executable_asset_keys),
        *sorted(f"  asks:     {key.to_user_string()}" for key in layer.asset_graph.asset_check_keys),
    ]


def _keys(text: str) -> list[str]:
    return [line.removeprefix(_ASSET) for line in text.splitlines() if line.startswith(_ASSET)]


def test_the_asset_graph_is_the_reviewed_one(graph_text: str, *, update_golden: bool) -> None:
    if update_golden:
        _GOLDEN.write_text(graph_text, encoding="utf-8")
    reviewed = _GOLDEN.read_text(encoding="utf-8")
    assert _keys(graph_text) == _keys(reviewed)  # first, so that a missing table is not told as a page of text
    assert graph_text == reviewed
