"""The only place that opens a file: capped read, whole read, atomic write. Bytes in, bytes out.

Border: the operating system. Nothing here knows what a soul is.
"""

from __future__ import annotations

import os
import stat
import tempfile
from typing import NamedTuple, TypeAlias

#: Never wait for a writer (FIFO), never leak the descriptor, never gain a terminal.
_OPEN_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
)
_CHUNK_BYTES = 65_536


class NotRegular(OSError):
    """A FIFO, socket, device or directory stands where a file was expected."""


#: The head of a file: (at most the bytes asked for, its size on disk in bytes, the target when it is a link).
#: A plain tuple: seven are made for each soul, and a named one takes longer to make than a file takes to close.
Capped: TypeAlias = tuple[bytes, int, str | None]


def read_capped(path: str, limit_bytes: int) -> Capped:
    """Read at most `limit_bytes` of a regular file, following symbolic links.

    Raises NotRegular for what is no regular file (it is never opened) and OSError
    or ValueError (a NUL in the path) for what cannot be read.
    """
    status = os.lstat(path)
    target = None
    if not stat.S_ISREG(status.st_mode):
        status = _regular(path)
        target = os.path.realpath(path)
    size = status.st_size
    # Opened after the look, not before: opening a FIFO or a device has effects of its
    # own. Should the file be swapped in between, O_NONBLOCK still keeps us from waiting.
    descriptor = os.open(path, _OPEN_FLAGS)
    try:
        # Asking for the size and one more: os.read allocates what it is asked for, so a
        # blanket limit would cost 2 MB for each small file.
        data = os.read(descriptor, size + 1 if size < limit_bytes else limit_bytes)
        if len(data) != size or not size:
            data = _read_on(descriptor, data, limit_bytes)
            # /proc says 0, a growing file too little and a shrinking one too much: the end that was met counts.
            size = len(data) if len(data) < limit_bytes else max(size, len(data))
    finally:
        os.close(descriptor)
    return data, size, target


def _read_on(descriptor: int, data: bytes, limit: int) -> bytes:
    """Read until the end or the limit: for a file whose size on disk is not, or no longer, true."""
    parts, have = [data], len(data)
    while have < limit:
        more = os.read(descriptor, min(_CHUNK_BYTES, limit - have))
        if not more:
            break
        parts.append(more)
        have += len(more)
    return b"".join(parts)


def _regular(path: str | os.PathLike[str]) -> os.stat_result:
    """Return the status of the file behind a link; NotRegular for anything else."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(f"is {_kind(status.st_mode)}, not a file")
    return status


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    )
    return next((name for test, name in kinds if test(mode)), "of an unknown kind")


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """Return every byte of a regular file; OSError says why it cannot be read."""
    _regular(path)
    with open(path, "rb") as file:
        return file.read()


def write_atomic(path: str | os.PathLike[str], data: bytes, mode: int | None = None) -> None:
    """Put `data` in place of the file, all of it or none of it.

    The bytes are complete and on disk (fsync) under a temporary name beside the
    resolved target before one rename makes them the file. A symbolic link stays a
    link; the mode of an existing file is kept unless `mode` is given.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    mode = _mode(target) if mode is None else mode
    descriptor, temporary = tempfile.mkstemp(prefix=".toolnexus-", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_folder(folder)


def _mode(target: str) -> int:
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        return _default_mode()


def _default_mode() -> int:
    # The umask can only be read by setting it.
    mask = os.umask(0o022)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: str) -> None:
    """Make the rename itself durable, where the system lets a folder be synced."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        # Some network file systems refuse; the file's own bytes are safe already.
        return
    finally:
        os.close(descriptor)


class Entry(NamedTuple):
    """One name in a folder: `is_file` and `is_folder` follow symbolic links."""

    name: str
    is_file: bool
    is_folder: bool


def list_folder(path: str, most: int = 2_000) -> tuple[Entry, ...]:
    """Return up to `most` entries of a folder, sorted by name; () when it cannot be listed."""
    found: list[Entry] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if len(found) == most:
                    break
                found.append(_entry(entry))
    except (OSError, ValueError):
        return ()
    return tuple(sorted(found))


def _entry(entry: os.DirEntry[str]) -> Entry:
    try:
        return Entry(entry.name, entry.is_file(), entry.is_dir())
    except OSError:
        return Entry(entry.name, False, False)
