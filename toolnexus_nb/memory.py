"""The memory tool: byte-exact, locked, atomic edits of a persona's MEMORY.md and USER.md.

Border: `disk` reads and writes, filelock keeps other processes out. Text becomes bytes here, never the
other way round: what was decoded is only ever shown. Source of the rules: toolnexus SPEC 7E, MemoryTool.
"""

from __future__ import annotations

import difflib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from . import disk
from .conversation import Tool, ToolResult
from .errors import SessionError
from .rules import CAP_BYTES, WHITE

FILES: Final = {"self": "MEMORY.md", "user": "USER.md"}
ACTIONS: Final = ("add", "replace", "remove")
#: How long a write waits for another process before it gives up.
LOCK_SECONDS: Final = 10.0
#: A temporary file this long without a write belongs to a process that was killed.
STALE_SECONDS: Final = 60.0

_POLL_SECONDS: Final = 0.005
_LOCK_NAME: Final = ".toolnexus.lock"
#: How the names of `disk.write_atomic`'s temporary files begin and end.
_TEMPORARY: Final = (".toolnexus-", ".tmp")
_CONTEXT_LINES: Final = 3
_HUNK: Final = re.compile(r"^@@ -(\d+)(.*) \+(\d+)(.*) @@\n")
_ESCAPED: Final = re.compile("[\udc80-\udcff]")
#: `# x`, also inside a list item, which is where `add` puts it.
_ATX: Final = re.compile(r" {0,3}(?:[-*+][ \t]+)*#{1,6}(?:[ \t].*)?")
_SETEXT: Final = re.compile(r" {0,3}(?:=+|-+)[ \t]*")

_DESCRIPTION: Final = (
    "Keep lasting notes in your own files. action=add appends `text` as a new entry; action=replace puts `with` in place of "
    "the first occurrence of `text`; action=remove deletes the first occurrence of `text`. For replace and remove, `text` must "
    "be copied exactly from the file. target=self is MEMORY.md, your own notes (the default); target=user is USER.md, what you "
    "know of the user. The file changes at once, but you will read it only at the start of your next session: your present "
    "instructions stay as they are."
)
_PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "target": {"type": "string", "enum": list(FILES), "description": "self: MEMORY.md (default). user: USER.md."},
        "text": {"type": "string", "description": "add: the new entry. replace, remove: the existing text, exactly as it stands."},
        "with": {"type": "string", "description": "replace: what comes in its place."},
    },
    "required": ["action", "text"],
}


class _Failure(Exception):
    """Why an edit was not made, in words for the model."""


@dataclass(frozen=True, slots=True)
class MemoryEdit:
    """One edit of one file: asked for before it is made, shown and undone after it.

    `file` is MEMORY.md or USER.md and `path` where it really lies, links resolved. `before`
    and `after` are the whole file; `existed` is False when the edit creates it, and `before`
    is then empty. `text` is what the model gave.
    """

    action: str
    target: str
    file: str
    path: Path
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)
    existed: bool
    text: str

    @property
    def diff(self) -> str:
        """A unified diff to look at, "" when nothing changes.

        A carriage return shows as ␍ and a byte that is not UTF-8 as U+FFFD, so it is no patch to apply.
        """
        return "".join(_diff(self.before, self.after, self.file, self.existed))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about the file after this edit, one line each."""
        opened = _headings(self.after) - _headings(self.before)
        lines = [f"opens a heading, as the sections of the soul do: {line.strip()}" for line in opened]
        if len(self.after) > CAP_BYTES:
            lines.append(f"{self.file} has {len(self.after)} bytes now: only the first {CAP_BYTES} are sent")
        return tuple(lines)

    def undo(self) -> None:
        """Put the bytes of before back; a file the edit created is removed.

        Raises SessionError when the file is no longer as the edit left it, or cannot be written.
        """
        try:
            with _locked(self.path):
                if _read(self.path, self.file) != (self.after, True):
                    raise SessionError(f"{self.file} changed since: it is left as it is: edit {self.path} by hand")
                if self.existed:
                    _save(self.path, self.before)
                else:
                    self.path.unlink()
        except (_Failure, OSError) as error:
            raise SessionError(f"{self.file} is not undone: {_reason(error)}") from error


def memory_tool(
    directory: str | os.PathLike[str],
    *,
    confirm: Callable[[MemoryEdit], bool] | None = None,
    confirm_outside: Callable[[MemoryEdit], bool] | None = None,
    on_edit: Callable[[MemoryEdit], None] | None = None,
) -> Tool:
    """Return the tool `memory`, by which a persona writes notes into its own directory.

    `confirm` is asked before each write and may say no; `on_edit` is told after it. Neither
    is called for an edit that changes nothing. The prompt of the running session never changes.
    Whatever a model sends, the tool answers with a ToolResult; its `diff` starts with the
    edit's warnings, each on a line of its own behind "! ".
    """
    # A later chdir moves nothing; `link/..` stays as it is, since only the system knows where that leads.
    root = str(Path(directory).absolute())

    def call(arguments: dict[str, Any]) -> ToolResult:
        try:
            edit = _write(root, _checked(arguments), confirm, confirm_outside)
        except (_Failure, OSError, ValueError) as error:
            # What a model sent may hold lone surrogates; it goes back in the answer, which must be sendable.
            return ToolResult(_reason(error).encode(errors="backslashreplace").decode(), is_error=True)
        notes = [f"! {warning}\n" for warning in edit.warnings]
        if on_edit and edit.after != edit.before:
            notes += _told(on_edit, edit)
        return ToolResult(f"ok ({edit.action} → {edit.file}); loads next session", diff="".join(notes) + edit.diff)

    return Tool("memory", _DESCRIPTION, _PARAMETERS, call)


class _Request(NamedTuple):
    """What a model asked for, once its arguments have proved usable."""

    action: str
    target: str
    text: str
    with_: str


def _checked(arguments: dict[str, Any]) -> _Request:
    """Return the arguments, or fail with the first thing that is wrong with them; null is not given."""
    action, text = arguments.get("action"), arguments.get("text")
    if not isinstance(action, str) or action not in ACTIONS:
        raise _Failure(f"unknown action: {'' if action is None else action}")
    target = "self" if arguments.get("target") is None else arguments["target"]
    if not isinstance(target, str) or target not in FILES:
        raise _Failure(f"unknown target: {target}: use self (MEMORY.md) or user (USER.md)")
    if text is None or text == "":
        raise _Failure(f"empty text: say what to {action}")
    with_ = "" if arguments.get("with") is None else arguments["with"]
    return _Request(action, target, _string("text", text), _string("with", with_))


def _string(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _Failure(f"{name} must be a string, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _Failure(f"{name} holds half a character (a lone surrogate) at position {error.start}: send whole ones") from error
    return value


def _write(
    directory: str,
    request: _Request,
    confirm: Callable[[MemoryEdit], bool] | None,
    confirm_outside: Callable[[MemoryEdit], bool] | None,
) -> MemoryEdit:
    """Make the edit and return it as it was made.

    The question is put outside the lock, because an answer may take minutes. The edit is worked out
    again under it: has the file moved on, the question is put again, so that what is written is what
    was agreed to. Each time round somebody else has got on, so it ends.
    """
    edit = _plan(directory, request)
    if confirm is None and not Path(edit.path).resolve().is_relative_to(Path(directory).resolve()):
        confirm = confirm_outside
    while edit.after != edit.before:
        if confirm:
            _ask(confirm, edit)
        try:
            # As the original does. Not the folder a dangling link points into: that may be an unmounted disk.
            os.makedirs(directory, exist_ok=True)
            with _locked(edit.path):
                asked, edit = edit, _plan(directory, request)
                if edit == asked or (confirm is None and edit.path == asked.path):
                    _save(edit.path, edit.after)
                    break
        except OSError as error:
            raise _Failure(f"{edit.file} cannot be written: {_reason(error)}") from error
    return edit


def _ask(confirm: Callable[[MemoryEdit], bool], edit: MemoryEdit) -> None:
    try:
        agreed = confirm(edit)
    except Exception as error:  # no one to ask, a screen that is gone: silence is no consent
        raise _Failure(f"not written: the user could not be asked: {_reason(error)}") from error
    if not agreed:
        raise _Failure(f"not written: the user refused this edit of {edit.file}")


def _told(on_edit: Callable[[MemoryEdit], None], edit: MemoryEdit) -> list[str]:
    """Tell of the edit; a failure to show it does not make it undone, so it is a note."""
    try:
        on_edit(edit)
    except Exception as error:
        return [f"! {edit.file} is written, but showing it failed: {_reason(error)}\n"]
    return []


def _plan(directory: str, request: _Request) -> MemoryEdit:
    """Work the edit out on the file as it is now; nothing is written."""
    action, target, text, with_ = request
    file = FILES[target]
    path = Path(os.path.realpath(os.path.join(directory, file)))
    before, existed = _read(path, file)
    after = _added(before, text) if action == "add" else _replaced(before, text, with_ if action == "replace" else "")
    return MemoryEdit(action, target, file, path, before, after, existed, text)


def _added(before: bytes, text: str) -> bytes:
    """Put an entry behind what stands, whose trailing white space goes, as Go's TrimSpace counts it.

    Bytes that are not UTF-8 pass through "surrogateescape" unchanged, and none of them is white.
    A file that has CRLF anywhere gets its new line ends as CRLF; the entry's own stay as given.
    """
    kept = before.decode(errors="surrogateescape").rstrip(WHITE).encode(errors="surrogateescape")
    end = b"\r\n" if b"\r\n" in before else b"\n"
    return kept + (end if kept else b"") + b"- " + text.encode() + end


def _replaced(before: bytes, text: str, with_: str) -> bytes:
    """Put `with_` in place of the first occurrence of `text`, or fail with `not found`.

    A model writes LF whatever it read: what is not found as it is, is looked for with CRLF line
    ends, and what comes in its place gets them too.
    """
    old, new = text.encode(), with_.encode()
    if old not in before:
        old, new = (part.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for part in (old, new))
    if old not in before:
        raise _Failure(f"not found: {text}")
    return before.replace(old, new, 1)


def _read(path: Path, file: str) -> tuple[bytes, bool]:
    """Return the bytes and True, or b"" and False when there is no such file."""
    try:
        return disk.read_whole(path), True
    except FileNotFoundError:
        return b"", False
    except OSError as error:
        raise _Failure(f"{file} cannot be read: {_reason(error)}") from error


def _save(path: Path, data: bytes) -> None:
    # A rename asks the folder for leave, not the file: a file made read-only would be replaced all the same.
    if path.exists() and not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise _Failure(f"{path.name} cannot be written: it is read-only")
    disk.write_atomic(path, data)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of the folder the file lies in; clear away what killed processes left there.

    The lock lies beside the file, for as long as it is held (after a kill, until the next write).
    There every process that can reach the file finds it, whatever its user, TMPDIR, HOME or container,
    and it asks for no leave that the write does not need too. To remove it while others wait is safe:
    filelock, from 4.0 on, takes no lock on a file that has lost its name, and itself removes none.
    """
    from filelock import FileLock, Timeout  # not at the top: it takes longer to import than all of this package

    os.stat(path.parent)  # filelock would make a folder that is missing
    # For everyone, whatever the umask: else the lock of a killed process would keep other users out.
    lock = FileLock(path.with_name(_LOCK_NAME), mode=0o666)
    try:
        lock.acquire(timeout=LOCK_SECONDS, poll_interval=_POLL_SECONDS)
    except Timeout as error:
        raise _Failure("memory is being written by another process: try again") from error
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


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__


def _headings(data: bytes) -> Counter[str]:
    lines = re.split(r"\r\n|\n|\r", data.decode(errors="replace"))
    found = Counter(line for line in lines if _ATX.fullmatch(line))
    found.update(above for above, line in pairwise(lines) if above.strip() and _SETEXT.fullmatch(line))
    return found


def _diff(before: bytes, after: bytes, file: str, existed: bool) -> Iterator[str]:
    """Yield the lines of the diff. Only the part that differs goes to difflib, whose time is quadratic."""
    old, new = _lines(before), _lines(after)
    same = _shared(old, new)
    skipped = max(0, same - _CONTEXT_LINES)
    cut = max(0, _shared(old[same:][::-1], new[same:][::-1]) - _CONTEXT_LINES)
    names = (file if existed else "/dev/null", file)
    for line in difflib.unified_diff(old[skipped : len(old) - cut], new[skipped : len(new) - cut], *names, n=_CONTEXT_LINES):
        yield _shown(_HUNK.sub(lambda m: f"@@ -{int(m[1]) + skipped}{m[2]} +{int(m[3]) + skipped}{m[4]} @@\n", line))


def _lines(data: bytes) -> list[str]:
    """Split at LF only, the line ends kept; "surrogateescape" keeps bytes apart that would look alike."""
    *whole, rest = data.decode(errors="surrogateescape").split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _shared(one: list[str], other: list[str]) -> int:
    """Return how many lines the two have in common from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _shown(line: str) -> str:
    visible = _ESCAPED.sub("\ufffd", line).replace("\r", "␍")
    return visible if visible.endswith("\n") else f"{visible}\n\\ No newline at end of file\n"
