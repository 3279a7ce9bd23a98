"""The lease of a table: one process at a time loads or maintains it, and a load that failed leaves word.

A lock of the operating system on a file beside the checkpoints. It ends with its process, however that dies, so a
killed run blocks nobody and nothing has to expire. What the file says names the holder; a load that comes to its end
empties it, so what is left there tells of one that did not.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import IO

from dwh_pipeline.contracts.health import FailedLoad
from dwh_pipeline.errors import LeaseHeldError

# `left_behind` holds the lock for a moment too.
_ATTEMPTS, _SECONDS_BETWEEN = 3, 0.1


def lease_file(checkpoints: Path, table: str) -> Path:
    """The lease of a table (`schema.name`)."""
    return checkpoints / f"{table}.lease"


@contextmanager
def lease(path: Path) -> Iterator[None]:
    """Hold the lease, or fail at once.

    Raises:
        LeaseHeldError: another process, or another run in this one, holds it; names host, process and since when.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        if not _lock(file):
            raise LeaseHeldError(path.stem, _holder(path))
        told = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
        }
        _tell(file, told)
        try:
            yield
        except BaseException as error:
            lines = str(error).splitlines()
            _tell(file, {**told, "error": lines[0] if lines else type(error).__name__})
            raise
        file.truncate(0)


def left_behind(path: Path) -> FailedLoad | None:
    """The last load of the table, if it did not come to its end; None if it did, or if one is running."""
    if not path.is_file():
        return None
    with path.open(encoding="utf-8") as file:
        if not _lock(file):
            return None
        text = file.read()
    try:
        told = json.loads(text)
    except ValueError:  # empty: all is well; cut off: killed in the moment it began, having done nothing
        return None
    return FailedLoad(f"process {told['pid']} on {told['host']}", told["since"], told.get("error"))


def _lock(file: IO[str]) -> bool:
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(_SECONDS_BETWEEN)
        else:
            return True
    return False


def _tell(file: IO[str], what: dict[str, object]) -> None:
    file.truncate(0)
    json.dump(what, file)
    file.flush()


def _holder(path: Path) -> str:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # it is just being written
        return "another process"
    return f"process {told['pid']} on {told['host']} since {told['since']} UTC"
