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
from typing import IO, Any

from dwh_pipeline.contracts.health import FailedLoad
from dwh_pipeline.errors import LeaseHeldError

# `left_behind` holds the lock for a moment too.
_ATTEMPTS, _SECONDS_BETWEEN = 3, 0.1

_Word = dict[str, Any]  # host, pid and since; error, if a load failed
_BESIDE = "last_load"  # under this name, work that is no load keeps what the last one said


def lease_file(checkpoints: Path, table: str) -> Path:
    """The lease of a table (`schema.name`)."""
    return checkpoints / f"{table}.lease"


@contextmanager
def lease(path: Path, *, is_load: bool = True) -> Iterator[FailedLoad | None]:
    """Hold the lease, or fail at once. Gives the last load of the table, if it did not come to its end.

    What a failed load left is followed by the word of the next load alone: other work (`is_load` false), such as
    maintenance, leaves it as it was.

    Raises:
        LeaseHeldError: another process, or another run in this one, holds it; names host, process and since when.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        if not _lock(file):
            raise LeaseHeldError(path.stem, _holder(path))
        left = _last_load(file)
        holder: _Word = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
        }
        _tell(file, holder if is_load else {**holder, _BESIDE: left})
        word = None if is_load else left
        try:
            yield _failed_load(left)
        except BaseException as error:
            if is_load:
                lines = str(error).splitlines()
                word = {**holder, "error": lines[0] if lines else type(error).__name__}
            raise
        finally:
            _tell(file, word)


def left_behind(path: Path) -> FailedLoad | None:
    """The last load of the table, if it did not come to its end; None if it did, or if the lease is held."""
    if not path.is_file():
        return None
    with path.open(encoding="utf-8") as file:
        return _failed_load(_last_load(file)) if _lock(file) else None


def _last_load(file: IO[str]) -> _Word | None:
    """What the last load said. None: it came to its end, or was killed in the moment it began, having done nothing."""
    file.seek(0)
    try:
        word: _Word = json.loads(file.read())
    except ValueError:
        return None
    last: _Word | None = word.get(_BESIDE, word)
    return last


def _failed_load(word: _Word | None) -> FailedLoad | None:
    if word is None:
        return None
    return FailedLoad(f"process {word['pid']} on {word['host']}", word["since"], word.get("error"))


def _lock(file: IO[str]) -> bool:
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(_SECONDS_BETWEEN)
        else:
            return True
    return False


def _tell(file: IO[str], word: _Word | None) -> None:
    file.truncate(0)
    if word is not None:
        json.dump(word, file)
        file.flush()


def _holder(path: Path) -> str:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # it is just being written
        return "another process"
    return f"process {told['pid']} on {told['host']} since {told['since']} UTC"
