"""One writer at a time in a folder, across threads, processes and containers.

Border: the only caller of filelock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from . import disk

#: How long a write waits for another process before it gives up.
LOCK_SECONDS: Final = 10.0
#: A temporary file this long without a write belongs to a process that was killed.
STALE_SECONDS: Final = 60.0

_POLL_SECONDS: Final = 0.005
_LOCK_NAME: Final = ".toolnexus.lock"
#: How the names of `disk.write_atomic`'s temporary files begin and end.
_TEMPORARY: Final = (".toolnexus-", ".tmp")


class Busy(Exception):
    """Another process has held the lock for LOCK_SECONDS."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the folder the file lies in; clear away what killed processes left there.

    The lock lies beside the file, for as long as it is held (after a kill, until the next write).
    There every process that can reach the file finds it, whatever its user, TMPDIR, HOME or container,
    and it asks for no leave that the write does not need too. To remove it while others wait is safe:
    filelock, from 4.0 on, takes no lock on a file that has lost its name, and itself removes none.
    Raises Busy, or OSError where the folder is missing or takes no lock.
    """
    from filelock import FileLock, Timeout  # not at the top: it takes longer to import than all of this package

    os.stat(path.parent)  # filelock would make a folder that is missing
    # For everyone, whatever the umask: else the lock of a killed process would keep other users out.
    lock = FileLock(path.with_name(_LOCK_NAME), mode=0o666)
    try:
        lock.acquire(timeout=LOCK_SECONDS, poll_interval=_POLL_SECONDS)
    except Timeout as error:
        raise Busy("memory is being written by another process: try again") from error
    try:
        _sweep(path.parent)
        yield
    finally:
        with suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()


def _sweep(folder: Path) -> None:
    """Remove the temporary files of writers that were killed, known by their name and their age."""
    for entry in disk.list_folder(str(folder)):
        if entry.is_file and entry.name.startswith(_TEMPORARY[0]) and entry.name.endswith(_TEMPORARY[1]):
            with suppress(OSError):
                if time.time() - (folder / entry.name).stat().st_mtime > STALE_SECONDS:
                    (folder / entry.name).unlink()
