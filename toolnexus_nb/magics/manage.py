"""%agent shows the session and manages it: history, undo, branches, files."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, magic_arguments

from .line import Command, nearly, parse, plain_errors

if TYPE_CHECKING:
    from ..session import Session

_RUNS_NOTHING: Final = "runs nothing: to run a persona write %%agent, and the message below it"
_NO_SESSION: Final = "%agent: no session yet: run %%agent, or %agent --load FILE"


class ManageCommand(Command):
    """%agent."""

    @magic_arguments("agent")
    @argument("where", nargs="*", metavar="DIR", help="With --load: the directory the persona may write its memory to.")
    @argument("--history", action="store_true", help="Show the conversation.")
    @argument("--reset", action="store_true", help="Forget the conversation; the soul stays.")
    @argument("--undo", action="store_true", help="Take the last memory write back; again, the one before it.")
    @argument("--fork", metavar="NAME", help="Keep the conversation as it is now under this name, and go on with it here.")
    @argument("--switch", metavar="NAME", help="Go on with the conversation that --fork kept under this name.")
    @argument("--save", metavar="FILE", help="Save the conversation, with the soul as it is.")
    @argument("--load", metavar="FILE", help="Load a saved conversation; -c continues it.")
    @argument("--force", action="store_true", help="With --save: replace a file that is no saved session.")
    def agent(self, line: str) -> None:
        """Show the session: persona, model, soul, turns, tokens, branches, and whether the disk has moved on.

        To run a persona, write %%agent and the message below it.
        """
        args = parse(self.agent, line, elsewhere=self.magics.run_command.agent, hint=_RUNS_NOTHING)
        if args.where and not args.load:
            raise UsageError(f"%agent: {_RUNS_NOTHING}")
        with plain_errors():
            self._manage(args)

    def _manage(self, args: argparse.Namespace) -> None:
        from ..render.session import history_text

        if args.load:
            self._load(args)
        told = [words for words in (self._undo(args), self._branch(args), self._reset(args), self._save(args)) if words]
        if args.history:
            told.append(history_text(self._session))
        self.say("\n".join(told or [self._status()]))

    @property
    def _session(self) -> Session:
        if self.magics.session is None:
            raise UsageError(_NO_SESSION)
        return self.magics.session

    def _load(self, args: argparse.Namespace) -> None:
        from ..session import load

        home = ""
        if args.where:
            home = self.where(" ".join(args.where)) or ""
            self.compose(home)
        loaded = load(os.path.expanduser(args.load), home)
        loaded.edits = self.magics.edits
        self.magics.session = loaded

    def _undo(self, args: argparse.Namespace) -> str:
        from ..session import undo

        if not args.undo:
            return ""
        edit = undo(self.magics.edits)
        return f"undone: {edit.action} → {edit.file}"

    def _branch(self, args: argparse.Namespace) -> str:
        branches = self.magics.branches
        if args.fork:
            branches[args.fork] = self._session.fork()
            return f"kept as {args.fork}: %agent --switch {args.fork} goes back to it"
        if not args.switch:
            return ""
        if args.switch not in branches:
            near = nearly(args.switch, [*branches])
            raise UsageError(f"--switch {args.switch}: no such branch: %agent --fork NAME keeps one{near}")
        # A copy, so that the branch stays as it was kept.
        self.magics.session = branches[args.switch].fork()
        return f"switched to {args.switch}: %%agent -c continues it"

    def _reset(self, args: argparse.Namespace) -> str:
        if not args.reset:
            return ""
        self._session.reset()
        return "" if args.history else self._status()

    def _save(self, args: argparse.Namespace) -> str:
        if not args.save:
            return ""
        self._session.save(os.path.expanduser(args.save), force=args.force)
        return f"saved: {args.save}: it holds the soul and the messages as they are, secrets included"

    def _status(self) -> str:
        from ..render.session import status_text

        return status_text(self._session, tuple(self.magics.branches))
