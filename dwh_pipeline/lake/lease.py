"""The lease of a bronze table: one process at a time appends to it.

A lock of the operating system on a file beside the checkpoint. It ends with its process, however that dies, so a
killed run blocks nobody and nothing has to expire. What the file says is only to name the holder.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from dwh_pipeline.errors import LeaseHeldError


@contextmanager
def lease(path: Path) -> Iterator[None]:
    """Hold the lease, or fail at once.

    Raises:
        LeaseHeldError: another process, or another run in this one, holds it; names host, process and since when.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LeaseHeldError(path.stem, _holder(path)) from None
        file.truncate(0)
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        json.dump({"host": socket.gethostname(), "pid": os.getpid(), "since": since}, file)
        file.flush()
        yield


def _holder(path: Path) -> str:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # it is just being written
        return "another process"
    return f"process {told['pid']} on {told['host']} since {told['since']} UTC"
