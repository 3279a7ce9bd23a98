"""What Spark plans for a DataFrame, read from EXPLAIN COST: which sides of joins it would broadcast. Nothing is run.

Sizes are Spark's own estimates in the optimised logical plan: those that it decides by.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import DataFrame

from dwh_pipeline.contracts.health import Broadcast

_BRANCH = re.compile(r"^(?:[ :]  )*(?:[:+]- )?")
_SIZE = re.compile(r"Statistics\(sizeInBytes=([\d.]+(?:E[+]?\d+)?) ([KMGTPE]iB|B)")
_RELATION = re.compile(r"Relation \S*?([^\s.\[]+\.[^\s.\[]+)\[")
_UNITS = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5, "EiB": 6}
# The side that can be sent whole: of an outer join not the one whose rows have to be kept (Spark's BuildSide rules).
_BUILDABLE = {
    "Inner": ("left", "right"),
    "Cross": ("left", "right"),
    "LeftOuter": ("right",),
    "LeftSemi": ("right",),
    "LeftAnti": ("right",),
    "RightOuter": ("left",),
}


@dataclass(frozen=True, slots=True)
class _Node:
    depth: int
    text: str

    @property
    def bytes(self) -> int:
        found = _SIZE.search(self.text)
        return round(float(found[1]) * 1024 ** _UNITS[found[2]]) if found else 0


def broadcasts(frame: DataFrame, threshold: int) -> tuple[Broadcast, ...]:
    """The sides of joins that Spark would broadcast: by a hint, or not larger than `threshold` bytes (below 0: none).

    A plan costs no job. Adaptive execution may change it while it runs, by the same threshold.
    """
    nodes = _optimised_plan(frame)
    found: list[Broadcast] = []
    for position, node in enumerate(nodes):
        if node.text.startswith("Join "):
            sides = dict(zip(("left", "right"), _children(nodes, position), strict=True))
            found.extend(_broadcast(node, sides, threshold))
    return tuple(found)


def _broadcast(join: _Node, sides: dict[str, list[_Node]], threshold: int) -> Iterator[Broadcast]:
    kind = join.text.split()[1].rstrip(",")
    able = _BUILDABLE.get(kind.partition("(")[0], ())
    forced = [side for side in able if f"{side}Hint=(strategy=broadcast" in join.text]
    small = [side for side in able if sides[side][0].bytes <= threshold]
    chosen = min(forced or small, key=lambda side: sides[side][0].bytes, default=None)
    if chosen is not None:
        top = sides[chosen][0]
        yield Broadcast(_name(sides[chosen]), top.bytes, is_forced=bool(forced))


def _children(nodes: list[_Node], parent: int) -> Iterator[list[_Node]]:
    """The subtrees right below a node, each with its top first."""
    depth = nodes[parent].depth
    subtree: list[_Node] = []
    for node in nodes[parent + 1 :]:
        if node.depth <= depth:
            break
        if node.depth == depth + 1 and subtree:
            yield subtree
            subtree = []
        subtree.append(node)
    yield subtree


def _name(subtree: list[_Node]) -> str:
    """The tables that a subtree reads."""
    tables = dict.fromkeys(found[1] for node in subtree if (found := _RELATION.match(node.text)))
    return ", ".join(tables) or "rows kept by Spark"


def _optimised_plan(frame: DataFrame) -> list[_Node]:
    view = f"plan_{uuid4().hex}"
    frame.createOrReplaceTempView(view)
    try:
        text: str = frame.sparkSession.sql(f"EXPLAIN COST SELECT * FROM {view}").collect()[0][0]  # noqa: S608
    finally:
        frame.sparkSession.catalog.dropTempView(view)
    lines = text.partition("== Optimized Logical Plan ==\n")[2].partition("\n== Physical Plan ==")[0].splitlines()
    nodes = []
    for line in lines:
        branch = _BRANCH.match(line)
        width = len(branch[0]) if branch else 0
        nodes.append(_Node(width // 3, line[width:]))
    return nodes
