"""The memory tool: byte-exact, locked, atomic edits of a persona's MEMORY.md and USER.md.

Border: `disk` reads and writes, `locking` keeps other processes out. `entries` says what an edit makes
of the bytes, `diff.raw` what a person sees of it. Source of the rules: toolnexus SPEC 7E, MemoryTool.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from . import disk
from .conversation import Tool, ToolResult
from .diff.raw import masked_diff, new_headings
from .entries import EditError, added, removed, replaced
from .errors import SessionError
from .locking import Busy, locked
from .rules import CAP_BYTES, WHITE

FILES: Final = {"self": "MEMORY.md", "user": "USER.md"}
ACTIONS: Final = ("add", "replace", "remove")

_DESCRIPTION: Final = (
    "Keep lasting notes in your own files. action=add appends `text` as a new entry; action=replace puts `with` in place of "
    "`text`; action=remove deletes `text`. For replace and remove, `text` is a whole entry, or a part that stands only once, "
    "copied exactly from the file. target=self is MEMORY.md, your own notes (the default); target=user is USER.md, what you "
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


@dataclass(frozen=True, slots=True)
class MemoryEdit:
    """One edit of one file: asked for before it is made, shown and undone after it.

    `file` is MEMORY.md or USER.md and `path` where it really lies, links resolved. `before`
    and `after` are the whole file; `existed` is False when the edit creates it, and `before`
    is then empty. `text` is what the model gave. `outside` names the real file, for people and
    models to read, when a link leads out of the persona's directory; else it is "".
    """

    action: str
    target: str
    file: str
    path: Path = field(repr=False)
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)
    existed: bool
    text: str = field(repr=False)
    outside: str = ""

    @property
    def place(self) -> str:
        """What is written, in words: the file, and where it really lies when that is outside of the directory."""
        return f"{self.file} (a link to {self.outside}, outside the directory)" if self.outside else self.file

    @property
    def diff(self) -> str:
        """A unified diff to look at, secrets masked, "" when nothing changes; see `masked_diff`."""
        return masked_diff(self.before, self.after, self.outside or self.file, existed=self.existed)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about the file after this edit, one line each."""
        lines = [f"opens a heading, as the sections of the soul do: {line}" for line in new_headings(self.before, self.after)]
        if self.outside:
            lines.insert(0, f"{self.file} is a link: this writes {self.outside}, outside the directory")
        if len(self.after) > CAP_BYTES:
            lines.append(f"{self.file} has {len(self.after)} bytes now: only the first {CAP_BYTES} are sent")
        return tuple(lines)

    def undo(self) -> None:
        """Put the bytes of before back; a file the edit created is removed.

        Raises SessionError when the file is no longer as the edit left it, or cannot be written.
        """
        try:
            with locked(self.path):
                if _read(self.path, self.file) != (self.after, True):
                    raise SessionError(f"{self.place} changed since: it is left as it is: edit it by hand")
                if self.existed:
                    _save(self.path, self.before)
                else:
                    self.path.unlink()
        except (EditError, Busy, OSError) as error:
            raise SessionError(f"{self.file} is not undone: {_reason(error)}") from error


def memory_tool(
    directory: str | os.PathLike[str],
    *,
    confirm: Callable[[MemoryEdit], bool] | None = None,
    confirm_outside: Callable[[MemoryEdit], bool] | None = None,
    on_edit: Callable[[MemoryEdit], None] | None = None,
) -> Tool:
    """Return the tool `memory`, by which a persona writes notes into its own directory.

    `confirm` is asked before each write and may say no. Where there is none, `confirm_outside`
    is asked before a write that a link leads out of the directory; where that is missing too,
    such a write is refused. `on_edit` is told after a write. None of them is called for an edit
    that changes nothing. The prompt of the running session never changes.
    Whatever a model sends, the tool answers with a ToolResult; its `diff` starts with the
    edit's warnings, each on a line of its own behind "! ".
    """
    # A later chdir moves nothing; `link/..` stays as it is, since only the system knows where that leads.
    root = str(Path(directory).absolute())

    def call(arguments: dict[str, Any]) -> ToolResult:
        try:
            edit = _write(root, _checked(arguments), confirm, confirm_outside)
        except (EditError, Busy, OSError, ValueError) as error:
            # What a model sent may hold lone surrogates; it goes back in the answer, which must be sendable.
            return ToolResult(_reason(error).encode(errors="backslashreplace").decode(), is_error=True)
        notes = [f"! {warning}\n" for warning in edit.warnings]
        if on_edit and edit.after != edit.before:
            notes += _told(on_edit, edit)
        real = f": it is a link to {edit.outside}, outside the directory" if edit.outside else ""
        return ToolResult(f"ok ({edit.action} → {edit.file}); loads next session{real}", diff="".join(notes) + edit.diff)

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
        raise EditError(f"unknown action: {'' if action is None else action}")
    target = "self" if arguments.get("target") is None else arguments["target"]
    if not isinstance(target, str) or target not in FILES:
        raise EditError(f"unknown target: {target}: use self (MEMORY.md) or user (USER.md)")
    if text is None or text == "":
        raise EditError(f"empty text: say what to {action}")
    with_ = _string("with", "" if arguments.get("with") is None else arguments["with"])
    if action == "replace" and not with_.strip(WHITE):
        raise EditError("replace without with: say in `with` what comes in place of the text, or use remove")
    return _Request(action, target, _string("text", text), with_)


def _string(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise EditError(f"{name} must be a string, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise EditError(f"{name} holds half a character (a lone surrogate) at position {error.start}: send whole ones") from error
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
    while edit.after != edit.before:
        asks = confirm is not None or bool(edit.outside)
        if asks:
            _ask(confirm or confirm_outside, edit)
        try:
            # As the original does. Not the folder a dangling link points into: that may be an unmounted disk.
            os.makedirs(directory, exist_ok=True)
            with locked(edit.path):
                asked, edit = edit, _plan(directory, request)
                if edit == asked or (not asks and edit.path == asked.path):
                    _save(edit.path, edit.after)
                    break
        except OSError as error:
            raise EditError(f"{edit.file} cannot be written: {_reason(error)}") from error
    return edit


def _ask(confirm: Callable[[MemoryEdit], bool] | None, edit: MemoryEdit) -> None:
    if confirm is None:
        raise EditError(
            f"not written: {edit.file} is a link to {edit.outside}, outside the directory: no one is here to ask: pass Options(confirm=…)"
        )
    try:
        agreed = confirm(edit)
    except Exception as error:  # no one to ask, a screen that is gone: silence is no consent
        raise EditError(f"not written: the user could not be asked: {_reason(error)}") from error
    if not agreed:
        raise EditError(f"not written: the user refused this edit of {edit.place}")


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
    match action:
        case "add":
            after = added(before, text)
        case "replace":
            after = replaced(before, text, with_)
        case _:
            after = removed(before, text)
    return MemoryEdit(action, target, file, path, before, after, existed, text, _outside(directory, path))


def _outside(directory: str, path: Path) -> str:
    """Name a file that does not lie in the directory; "" for one that does.

    A neighbour is named by its way from there (../notes/MEMORY.md), one further off by its bare
    name: more steps up would spell out the folders of this machine.
    """
    home = Path(os.path.realpath(directory))
    if path.is_relative_to(home):
        return ""
    near = home.parent != home.parent.parent and path.is_relative_to(home.parent)
    name = f"../{path.relative_to(home.parent).as_posix()}" if near else path.name
    return "".join(character if character.isprintable() else "\ufffd" for character in name)


def _read(path: Path, file: str) -> tuple[bytes, bool]:
    """Return the bytes and True, or b"" and False when there is no such file."""
    try:
        return disk.read_whole(path), True
    except FileNotFoundError:
        return b"", False
    except OSError as error:
        raise EditError(f"{file} cannot be read: {_reason(error)}") from error


def _save(path: Path, data: bytes) -> None:
    # A rename asks the folder for leave, not the file: a file made read-only would be replaced all the same.
    if path.exists() and not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise EditError(f"{path.name} cannot be written: it is read-only")
    disk.write_atomic(path, data)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
