"""Health outcomes for people and for programs: a table on the screen, JSON, and JUnit XML for CI servers.

What is asked, and what is healthy, is decided elsewhere.
"""

import json
from collections.abc import Iterable
from itertools import groupby
from xml.etree import ElementTree as ET

from rich import box
from rich.markup import escape
from rich.table import Table

from dwh_pipeline.contracts.health import HealthOutcome, Status
from dwh_pipeline.quality.maintenance import Action

_COLOURS = {Status.HEALTHY: "green", Status.NOTED: "cyan", Status.WARN: "yellow", Status.ERROR: "red"}
_SHOWN_SAMPLES = 3


def exit_code(outcomes: Iterable[HealthOutcome], *, strict: bool) -> int:
    """2 if anything is an ERROR, 1 if anything is a WARN and `strict`, else 0."""
    worst = max((outcome.status.rank for outcome in outcomes), default=0)
    if worst == Status.ERROR.rank:
        return 2
    return 1 if strict and worst == Status.WARN.rank else 0


def by_rule(outcomes: Iterable[HealthOutcome]) -> list[tuple[str, list[HealthOutcome]]]:
    """Outcomes grouped by rule, rules in the order in which they first occur."""
    outcomes = list(outcomes)
    order = {name: n for n, name in enumerate(dict.fromkeys(outcome.rule.name for outcome in outcomes))}
    ordered = sorted(outcomes, key=lambda outcome: order[outcome.rule.name])
    return [(name, list(group)) for name, group in groupby(ordered, key=lambda outcome: outcome.rule.name)]


def screen(outcomes: Iterable[HealthOutcome]) -> Table:
    """A table grouped by rule; an outcome that is not healthy has its fixes below, in the order to try."""
    table = Table(title="Health", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("rule and table", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("what was found, and what to do", overflow="fold")
    for rule, group in by_rule(outcomes):
        table.add_row(f"[bold]{rule}[/bold]", "", f"[italic]{escape(group[0].rule.description)}[/italic]")
        for outcome in group:
            colour = _COLOURS[outcome.status]
            status = f"[{colour}]{outcome.status.value}[/{colour}]"
            table.add_row(f"  {outcome.table}", status, "\n".join(map(escape, lines(outcome))))
        table.add_section()
    return table


def lines(outcome: HealthOutcome) -> list[str]:
    """The answer in words: the message, some samples, and the fixes in the order to try."""
    named = [f"  for example {sample}" for sample in outcome.samples[:_SHOWN_SAMPLES]]
    return [outcome.message, *named, *(f"  {n}. {fix}" for n, fix in enumerate(outcome.fixes, start=1))]


def summary(outcomes: Iterable[HealthOutcome]) -> str:
    """How many outcomes there are of each status."""
    found = [outcome.status for outcome in outcomes]
    counts = [f"{found.count(status)} {status.value}" for status in Status if status in found]
    return ", ".join(counts) or "nothing was asked"


def as_json(outcomes: Iterable[HealthOutcome]) -> str:
    """One object per outcome."""
    return json.dumps(
        [
            {
                "rule": outcome.rule.name,
                "description": outcome.rule.description,
                "table": outcome.table,
                "status": outcome.status.value,
                "message": outcome.message,
                "measure": {"name": outcome.rule.measure, "value": outcome.measure},
                "measures": dict(outcome.measures),
                "fixes": list(outcome.fixes),
                "samples": list(outcome.samples),
            }
            for outcome in outcomes
        ],
        indent=2,
        ensure_ascii=False,
    )


def as_junit(outcomes: Iterable[HealthOutcome], *, strict: bool) -> str:
    """JUnit XML: a test suite per rule, a test case per table. An ERROR is a failure, with `strict` a WARN is too."""
    fails = {Status.ERROR, Status.WARN} if strict else {Status.ERROR}
    groups = by_rule(outcomes)
    every = [outcome for _, group in groups for outcome in group]
    root = ET.Element("testsuites", {"name": "dwh health", **_counts(every, fails)})
    for rule, group in groups:
        suite = ET.SubElement(root, "testsuite", {"name": rule, "skipped": "0", **_counts(group, fails)})
        for outcome in group:
            case = ET.SubElement(suite, "testcase", name=outcome.table, classname=f"health.{rule}", time="0")
            text = "\n".join(lines(outcome))
            if outcome.status in fails:
                failure = ET.SubElement(case, "failure", type=outcome.status.name, message=_legal(outcome.message))
                failure.text = _legal(text)
            else:
                ET.SubElement(case, "system-out").text = _legal(f"{outcome.status.value}: {text}")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def upkeep(actions: Iterable[Action]) -> Table:
    """What maintenance would do to which table, and why or why not."""
    table = Table(title="Maintenance", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("table", "what", "why"):
        table.add_column(name, no_wrap=name != "why", overflow="fold")
    for action in actions:
        refused = f"\nrefused, {action.refused}" if action.refused else ""
        table.add_row(action.table, action.upkeep.value, escape(f"{action.why}{refused}"))
    if not table.row_count:
        table.add_row("", "", "nothing to do")
    return table


def _counts(outcomes: list[HealthOutcome], fails: set[Status]) -> dict[str, str]:
    failures = sum(outcome.status in fails for outcome in outcomes)
    return {"tests": str(len(outcomes)), "failures": str(failures), "errors": "0", "time": "0"}


def _legal(text: str) -> str:
    """Text without the control characters that XML 1.0 has no way to write."""
    return "".join(char for char in text if char in "\t\n\r" or ord(char) >= ord(" "))
