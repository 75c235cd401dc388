"""%soul: a persona directory looked at. What is shown is decided here, how it looks in `render`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from IPython.core.magic_arguments import argument, magic_arguments

from . import VIEWS
from .line import Command, compose, local_tokenizer, parse

if TYPE_CHECKING:
    from ..diff import SoulDiff
    from ..render.view import SoulView
    from ..render.widget import LiveSoul
    from ..soul import Soul
    from . import SoulMagics


class _Showing(NamedTuple):
    """How the soul that a magic is about to return shall be shown."""

    soul: Soul
    view: str
    show_secrets: bool
    changes: SoulDiff | None
    since: str
    #: The execution whose line ended in ";", None for a line that did not.
    hushed: object = None


class _Shown(NamedTuple):
    """The live views of one cell, and the execution that made them."""

    execution: object
    views: list[LiveSoul]


class SoulCommand(Command):
    """%soul and the formatter of every Soul."""

    def __init__(self, magics: SoulMagics) -> None:
        super().__init__(magics)
        self._showing: _Showing | None = None
        self._shown: dict[object, _Shown] = {}

    @magic_arguments()
    @argument(
        "where", nargs="*", metavar="DIR", help="A persona directory, or the name of one shown before. Default: the current directory."
    )
    @argument("--view", choices=VIEWS, help="The face: auto, widget (live), html (static), text.")
    @argument("--show-secrets", action="store_true", help="Do not mask what looks like a key or password.")
    def soul(self, line: str) -> Soul | None:
        """Show the soul of a persona directory, file by file, and return it.

        Each of the seven files is found, or skipped with the reason, or truncated with the
        place. `soul = %soul DIR` binds it without showing. Shown again, it says what changed.
        """
        args = parse(self.soul, line)
        where = self.where(" ".join(args.where))
        if where is None:
            self.say("\n".join(self._listing()))
            return None
        soul = self.compose(where)
        before, since = self._before(soul)
        self.magics.souls[soul.name] = self.magics.last = soul
        changes = _changes(before, soul) if before is not None else None
        # IPython looks for the ";" behind the call it makes of a magic's line, and does not find it there.
        hushed = self._execution if line.rstrip().endswith(";") and not where.endswith(";") else None
        self._showing = _Showing(soul, args.view or self.magics.view, args.show_secrets, changes, since, hushed)
        return soul

    def _before(self, soul: Soul) -> tuple[Soul | None, str]:
        """Return the soul to compare with: the running session's snapshot, else the one shown last."""
        running = self.magics.session.agent.spec.soul if self.magics.session else None
        if running is not None and not isinstance(running, str) and running.root == soul.root and running.text != soul.text:
            return running, "Since the running session's snapshot (this loads next session):"
        shown = next((known for known in self.magics.souls.values() if known.root == soul.root), None)
        return shown, "Since it was last shown:"

    def _listing(self) -> Iterator[str]:
        if not self.magics.souls:
            yield "no persona here and none loaded: %soul DIR shows one"
        for name, soul in self.magics.souls.items():
            stale = soul.stale()
            yield f"{name}: {len(soul.found)} of 7 files, sha256 {soul.digest[:12]}" + (
                f", changed on disk: {', '.join(stale)}" if stale else ""
            )

    def show(self, soul: Soul) -> None:
        """Show a Soul in the face that fits; the formatter of every Soul in this shell."""
        showing = self._showing if self._showing and self._showing.soul is soul else None
        self._showing = None
        if showing and showing.hushed == self._execution:
            return
        if showing is None or showing.hushed is not None:
            stale = soul.stale()
            changes = _changes(soul, compose(soul.root)) if stale else None
            showing = _Showing(soul, self.magics.view, False, changes, "This is a snapshot; the disk has moved on since:")
        self._face(showing)

    def _face(self, showing: _Showing) -> None:
        from ..render.text import soul_text
        from ..render.view import view

        seen = view(
            showing.soul, changes=showing.changes, since=showing.since, count_tokens=local_tokenizer(), show_secrets=showing.show_secrets
        )
        text = soul_text(seen, showing.show_secrets)
        face = showing.view if showing.view != "auto" else "widget" if self.in_kernel else "text"
        if face == "text":
            self.say(text)
            return
        from ..render.html import soul_page

        uid = ""
        if face == "widget":
            uid = self._live_view(seen, showing)
        self.publish({"text/html": soul_page(seen, uid, showing.show_secrets), "text/plain": text}, metadata={})

    def _live_view(self, seen: SoulView, showing: _Showing) -> str:
        from ..render.widget import LiveSoul

        parent = self.shell.get_parent() if self.in_kernel else {}
        # Front ends with a person before them name the cell that runs; runners do not.
        cell = parent.get("metadata", {}).get("cellId")
        live = LiveSoul(seen, show_secrets=showing.show_secrets, filled=not cell)
        self._keep(live, cell or showing.soul.root, self._execution)
        # The text is empty because the twin below says everything: an untrusted or dead
        # notebook shows this output's text.
        widget_view = {"version_major": 2, "version_minor": 0, "model_id": live.widget.model_id}
        self.publish({"application/vnd.jupyter.widget-view+json": widget_view, "text/plain": ""}, metadata={})
        return live.uid

    @property
    def _execution(self) -> object:
        """What tells one execution of a cell from the next."""
        parent = self.shell.get_parent() if self.in_kernel else {}
        return parent.get("header", {}).get("msg_id") or self.shell.execution_count

    def _keep(self, live: LiveSoul, cell: str, execution: object) -> None:
        """Remember a live view under its cell and close those of the cell's earlier execution."""
        shown = self._shown.get(cell)
        if shown is not None and shown.execution == execution:
            shown.views.append(live)
            return
        for old in shown.views if shown else ():
            old.close()
        self._shown[cell] = _Shown(execution, [live])

    def close(self) -> None:
        """Close every live view."""
        for shown in self._shown.values():
            for view in shown.views:
                view.close()
        self._shown.clear()


def _changes(before: Soul, after: Soul) -> SoulDiff:
    from ..diff import changes

    return changes(before, after)
