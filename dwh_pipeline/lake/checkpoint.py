"""What a checkpoint of a stream holds, whose it is, and how a damaged one is repaired without losing or doubling a row.

Spark writes `metadata` (the id of the query), `offsets` (what a micro-batch will read, written before it runs),
`commits` (which micro-batches are done) and `sources` (the files seen). A checkpoint only saves work: bronze knows
which files it holds. So the worst repair is to start a new one, and none is ever deleted. Plain files; no Spark here.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from dwh_pipeline.errors import CheckpointError

MEANINGS = {
    "metadata": "the id of the query",
    "offsets": "what each micro-batch reads, written before it runs",
    "commits": "the micro-batches that are done",
    "sources": "the files that were seen",
    "state": "the state of aggregations",
}


class Repair(StrEnum):
    """What makes a damaged checkpoint usable again."""

    REMOVE_OFFSET = "remove the last offset, which was never committed"
    REMOVE_COMMIT = (
        "remove the last commit; its micro-batch comes again, and a file that bronze holds is not appended again"
    )
    NEW_GENERATION = (
        "start a new checkpoint and keep the old one beside it; a file that bronze holds is not appended again"
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, in words, and the repair."""

    what: str
    repair: Repair


@dataclass(frozen=True, slots=True)
class Passport:
    """Whose a checkpoint is: kept beside it, in `<table>.passport.json`."""

    feed: str
    source: str
    target_id: str
    query_id: str
    made_at: str
    generation: int


def passport_file(checkpoint: Path) -> Path:
    """Where the passport of a checkpoint is."""
    return checkpoint.with_name(f"{checkpoint.name}.passport.json")


def read_passport(checkpoint: Path) -> Passport | None:
    """The passport of a checkpoint; None if it has none.

    Raises:
        CheckpointError: the file cannot be read.
    """
    file = passport_file(checkpoint)
    if not file.is_file():
        return None
    try:
        return Passport(**json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise CheckpointError(checkpoint.name, f"{file} cannot be read", Repair.NEW_GENERATION.value) from None


def write_passport(checkpoint: Path, passport: Passport) -> None:
    """Put the passport beside the checkpoint, whole or not at all."""
    file = passport_file(checkpoint)
    new = file.with_name(f"{file.name}.new")
    new.write_text(json.dumps(asdict(passport), indent=2), encoding="utf-8")
    new.replace(file)


def query_id(checkpoint: Path) -> str | None:
    """The id of the query that a checkpoint belongs to; None if that cannot be read."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def problems(checkpoint: Path) -> tuple[Problem, ...]:
    """What is wrong with the files of a checkpoint; nothing if there is none yet."""
    offsets, commits = _batches(checkpoint / "offsets"), _batches(checkpoint / "commits")
    if not checkpoint.is_dir() or not any(checkpoint.iterdir()):
        return ()
    if query_id(checkpoint) is None:
        return (Problem("metadata is missing or cannot be read", Repair.NEW_GENERATION),)
    found = [*_gaps("offsets", offsets), *_gaps("commits", commits)]
    last_offset, last_commit = max(offsets, default=-1), max(commits, default=-1)
    if last_commit > last_offset:
        found.append(Problem(f"commit {last_commit} has no offset", Repair.NEW_GENERATION))
    for batch, file in offsets.items():
        if not _is_whole(file):
            repair = Repair.REMOVE_OFFSET if batch == last_offset > last_commit else Repair.NEW_GENERATION
            found.append(Problem(f"offsets/{batch} is empty or cut off", repair))
    for batch, file in commits.items():
        if not _is_whole(file):
            repair = Repair.REMOVE_COMMIT if batch == last_commit else Repair.NEW_GENERATION
            found.append(Problem(f"commits/{batch} is empty or cut off", repair))
    return tuple(found)


def passport_problems(checkpoint: Path, *, feed: str, target_id: str) -> tuple[Problem, ...]:
    """What the passport says against this use of the checkpoint. One without a passport may be used: it gets one."""
    passport = read_passport(checkpoint)
    if passport is None or not checkpoint.is_dir():
        return ()
    found = []
    if passport.feed != feed:
        found.append(f"it belongs to the feed {passport.feed}")
    if passport.target_id != target_id:
        found.append("it was made for a bronze table that is no longer there, so files of it would be passed over")
    if passport.query_id != query_id(checkpoint):
        found.append("its query is another one than its passport says")
    return tuple(Problem(what, Repair.NEW_GENERATION) for what in found)


def require_usable(checkpoint: Path, *, feed: str, target_id: str) -> None:
    """The checkpoint is sound and belongs to this stream, or there is none yet.

    Raises:
        CheckpointError: the first thing that is wrong, and the repair.
    """
    found = (*problems(checkpoint), *passport_problems(checkpoint, feed=feed, target_id=target_id))
    if found:
        raise CheckpointError(feed, found[0].what, found[0].repair.value)


def keep_passport(checkpoint: Path, *, feed: str, source: str, target_id: str) -> None:
    """Give the checkpoint its passport after a run, or a new one if it is new or the landing area has moved."""
    known, id_ = read_passport(checkpoint), query_id(checkpoint)
    if id_ is None or (known is not None and (known.source, known.query_id) == (source, id_)):
        return
    generation = len(list(checkpoint.parent.glob(f"{checkpoint.name}.generation-*[0-9]"))) + 1
    write_passport(
        checkpoint, Passport(feed, source, target_id, id_, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", generation)
    )


def remove_orphaned_checksums(checkpoint: Path) -> None:
    """Remove checksums of log files that are gone: they would keep Spark from writing these files again."""
    for folder in (checkpoint / "offsets", checkpoint / "commits"):
        for file in folder.glob(".*.crc"):
            if not folder.joinpath(file.name.removeprefix(".").removesuffix(".crc")).exists():
                file.unlink()


def entries(checkpoint: Path) -> dict[str, int]:
    """What a checkpoint holds, by the names of `MEANINGS`: the number of files of each."""
    found = {name: checkpoint / name for name in MEANINGS}
    files = {name: [path, *path.rglob("*")] for name, path in found.items()}
    counts = {name: sum(path.is_file() and path.suffix != ".crc" for path in paths) for name, paths in files.items()}
    return {name: count for name, count in counts.items() if count}


def last_batches(checkpoint: Path) -> tuple[int | None, int | None]:
    """The number of the last micro-batch that was begun, and of the last that was done; None for none."""
    return max(_batches(checkpoint / "offsets"), default=None), max(_batches(checkpoint / "commits"), default=None)


def next_version(checkpoint: Path) -> int | None:
    """The Delta version that a stream from a Delta table reads next; None if it has done nothing yet.

    The offset that Delta's source writes is one line of JSON with `reservoirVersion`.
    """
    _, done = last_batches(checkpoint)
    if done is None:
        return None
    lines = (checkpoint / "offsets" / str(done)).read_text(encoding="utf-8").splitlines()
    return int(json.loads(lines[-1])["reservoirVersion"])


def repair(checkpoint: Path, found: tuple[Problem, ...]) -> list[str]:
    """Carry out the repairs; what was done, in words. A new generation makes all others needless."""
    repairs = {problem.repair for problem in found}
    if Repair.NEW_GENERATION in repairs:
        return [start_new_generation(checkpoint)]
    done = []
    for kind, folder in ((Repair.REMOVE_OFFSET, "offsets"), (Repair.REMOVE_COMMIT, "commits")):
        if kind in repairs:
            last = _batches(checkpoint / folder)
            file = last[max(last)]
            file.unlink()
            done.append(f"removed {folder}/{file.name}")
    remove_orphaned_checksums(checkpoint)
    return done


def start_new_generation(checkpoint: Path) -> str:
    """Put a checkpoint and its passport aside, so that the next run starts a new one; what was done, in words."""
    number = next(n for n in range(1, 10_000) if not checkpoint.with_name(f"{checkpoint.name}.generation-{n}").exists())
    aside = checkpoint.with_name(f"{checkpoint.name}.generation-{number}")
    checkpoint.rename(aside)
    file = passport_file(checkpoint)
    if file.is_file():
        file.rename(passport_file(aside))
    return f"kept the old checkpoint as {aside.name}; the next run starts a new one"


def _batches(folder: Path) -> dict[int, Path]:
    """The log files of a folder by their number, in order. Spark removes the oldest, so the first need not be 0."""
    files = folder.iterdir() if folder.is_dir() else ()
    return dict(sorted((int(file.name), file) for file in files if file.name.isdigit()))


def _gaps(folder: str, batches: dict[int, Path]) -> list[Problem]:
    missing = sorted(set(range(min(batches), max(batches))) - set(batches)) if batches else []
    return [Problem(f"{folder}/{batch} is missing", Repair.NEW_GENERATION) for batch in missing]


def _is_whole(file: Path) -> bool:
    """A log file of Spark: the version `v1`, then lines of JSON."""
    text = file.read_text(encoding="utf-8", errors="replace")
    version, _, rest = text.partition("\n")
    try:
        return version == "v1" and all(json.loads(line) is not None for line in rest.splitlines() if line != "-")
    except ValueError:
        return False
