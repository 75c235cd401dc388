"""%%agent runs a persona on the text of a cell."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, TypeVar, cast

from IPython.core.error import StdinNotImplementedError, UsageError
from IPython.core.magic_arguments import argument, magic_arguments

from ..errors import RunFailed
from . import MEMORY
from .line import Command, OneLine, nearly, parse, plain_errors

if TYPE_CHECKING:
    from ..agent import Agent, Options
    from ..conversation import Run, Tool
    from ..live import Live
    from ..memory import MemoryEdit
    from ..session import Session
    from ..soul import Soul
    from ..spec import MemoryMode

_Number = TypeVar("_Number", int, float)


class _Stopped(OneLine, KeyboardInterrupt):
    """Stop."""


class _Failed(OneLine, RunFailed):
    """A run that did not end well."""


# Front ends and runners read the class's name.
_Stopped.__name__ = KeyboardInterrupt.__name__
_Failed.__name__ = RunFailed.__name__


class RunCommand(Command):
    """%%agent."""

    @magic_arguments("%agent")
    @argument(
        "where", nargs="*", metavar="DIR", help="A persona directory, or the name of one shown with %%soul. Default: the last soul shown."
    )
    @argument("-m", "--model", help="local[:FILE.gguf], mirror, openai:M, anthropic:M, openrouter:M, ollama:M, lmstudio:M, llamacpp:M.")
    @argument("-o", "--output", metavar="NAME", help="Bind the Run to this variable.")
    @argument("-c", "--continue", dest="continues", action="store_true", help="Continue the conversation of the last run.")
    @argument("--base-url", metavar="URL", help="Any server by address.")
    @argument("--style", choices=("openai", "anthropic"), help="The dialect spoken at --base-url.")
    @argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME=VARIABLE",
        help="Send this HTTP header with the value of an environment variable, for instance api-key=AZURE_API_KEY; may be repeated.",
    )
    @argument("--temperature", type=float, help="Sampling temperature.")
    @argument("--max-tokens", type=int, help="Most tokens of one reply.")
    @argument("--seed", type=int, help="Seed of the sampling, where the server has one.")
    @argument("--param", action="append", default=[], metavar="KEY=JSON", help="Any other request parameter; may be repeated.")
    @argument("--tool", action="append", default=[], metavar="NAME", help="A function of the namespace as a tool; may be repeated.")
    @argument("--memory", choices=MEMORY, help="May the agent write MEMORY.md and USER.md.")
    @argument("--role", choices=("system", "user"), default="system", help="The role the soul is sent under.")
    @argument("--max-turns", type=int, help="Requests per run.")
    @argument("--timeout", type=float, metavar="SECONDS", help="Seconds of silence after which the run is ended.")
    @argument("--deadline", type=float, metavar="SECONDS", help="Seconds after which the run is ended, whatever arrives.")
    @argument("--fill", action="store_true", help="Expand {name} and $name in the cell body; without it the body is sent as written.")
    @argument("--dry-run", action="store_true", help="Show the request and what fills it, secrets masked; send nothing, start no model.")
    def agent(self, line: str, cell: str) -> None:
        """Run a persona on the text of the cell and show the reply as it arrives.

        Each %%agent cell is a run of its own unless -c continues the conversation. A -c cell
        that is run again replaces its own turn.
        """
        args = self._parsed(line)
        with plain_errors():
            self._run(args, cell)

    def _parsed(self, line: str) -> argparse.Namespace:
        # An option of %agent, passed over in silence, would look obeyed.
        hint = "runs nothing: write %agent {flag} on a line of its own"
        return parse(self.agent, line, elsewhere=self.magics.manage_command.agent, hint=hint)

    def _run(self, args: argparse.Namespace, cell: str) -> None:
        prompt = self.filled(cell) if args.fill else cell
        if not prompt.strip():
            raise UsageError("%%agent: the cell has no text to send: write the message below the first line")
        if args.output and (not args.output.isidentifier() or iskeyword(args.output)):
            raise UsageError(f"-o {args.output}: not a variable name: use letters, digits and _")
        options = self._options(args)
        session = self._session(args)
        if args.dry_run:
            self._show_request(session, prompt, options)
            return
        self._converse(session, prompt, options, args.output)

    def _show_request(self, session: Session, prompt: str, options: Options) -> None:
        from ..render.session import request_text

        self.say(request_text(session.request(prompt, options, self.cell)))

    def _converse(self, session: Session, prompt: str, options: Options, output: str | None) -> None:
        from dataclasses import replace

        from ..live import drain

        live = self._live(session)
        stream = session.stream(prompt, replace(options, confirm=lambda edit: self._agreed(live, edit)), self.cell)
        run = drain(stream, live)
        self.magics.session = session
        if output:
            self.shell.user_ns[output] = run
        self._after(session, live)
        live.finish(run)
        _raise_for(run)

    def _after(self, session: Session, live: Live) -> None:
        """Say that the disk has moved on: the running prompt never changes, and nobody should wonder why."""
        from ..conversation import Notice

        if stale := session.stale():
            live.show(
                Notice(f"{', '.join(stale)} changed on disk since this soul was composed; %soul {session.agent.name} loads the change")
            )

    def _session(self, args: argparse.Namespace) -> Session:
        from ..session import Session

        if args.continues:
            if self.magics.session is None:
                raise UsageError("-c: there is no conversation to continue: run %%agent once without -c")
            if args.where and self._agent(args).home != self.magics.session.agent.home:
                raise UsageError(f"-c: the conversation is with {self.magics.session.agent.name}: leave the directory out, or leave -c out")
            return self.magics.session
        return Session(self._agent(args), edits=self.magics.edits)

    def _agent(self, args: argparse.Namespace) -> Agent:
        from ..agent import persona

        return persona(self._soul_to_run(args))

    def _soul_to_run(self, args: argparse.Namespace) -> Soul:
        """Return the snapshot that %soul took of the named persona; compose one where it took none."""
        words = " ".join(args.where)
        if words in self.magics.souls and not os.path.isdir(words):
            return self.magics.souls[words]
        if not words and self.magics.last is not None:
            return self.magics.last
        where = self.where(words)
        if where is None:
            raise UsageError("%%agent: no persona is named: %%agent DIR, or %soul DIR first")
        soul = self.compose(where)
        return next((known for known in self.magics.souls.values() if known.root == soul.root), soul)

    def _options(self, args: argparse.Namespace) -> Options:
        from ..agent import Options

        return Options(
            model=args.model or ("" if args.base_url else self.magics.model),
            base_url=args.base_url or ("" if args.model else self.magics.base_url),
            style=args.style or self.magics.style,
            headers=_headers(args.header),
            tools=tuple(self._tool(name) for name in args.tool),
            max_turns=_at_least(1, args.max_turns, "--max-turns") or self.magics.max_turns,
            timeout_seconds=_at_least(0.1, args.timeout, "--timeout") or self.magics.timeout_seconds,
            deadline_seconds=_at_least(0.1, args.deadline, "--deadline"),
            params=_params(args),
            memory=cast("MemoryMode", args.memory or self.magics.memory),
            role=args.role,
        )

    def _tool(self, name: str) -> Tool:
        from ..tools import as_tool

        function = self.shell.user_ns.get(name)
        if not callable(function) and not hasattr(function, "parameters"):
            functions = [known for known, value in self.shell.user_ns.items() if callable(value) and not known.startswith("_")]
            raise UsageError(f"--tool {name}: not a function of this notebook: define it first{nearly(name, functions)}")
        try:
            return as_tool(function)
        except ValueError as error:
            raise UsageError(f"--tool {error}") from None

    def _agreed(self, live: Live, edit: MemoryEdit) -> bool:
        """Show the edit where the call is, and ask."""
        live.question(edit)
        try:
            return input(f"write {edit.place}? [y/N] ").strip().lower() in ("y", "yes")
        except (StdinNotImplementedError, EOFError):
            # Run by nbclient or papermill: nobody is there to say yes.
            return False

    def _live(self, session: Session) -> Live:
        from ..live import CellLive, TerminalLive

        soul = session.agent.spec
        words = f"soul {soul.digest[:12]}"
        if self.in_kernel:
            return CellLive(self.publish, session.agent.name, words)
        return TerminalLive(sys.stdout, session.agent.name, words)


def _raise_for(run: Run) -> None:
    """Make "Run all" and the runners stop where a run did not end well."""
    if run.status == "interrupted":
        raise _Stopped("stopped; what had arrived is kept")
    if run.is_error:
        raise _Failed(run.ending, run)


def _headers(pairs: list[str]) -> Mapping[str, str]:
    """Return the headers of a line, their values from the environment.

    No error shows what follows the "=": it may be a key, typed in by mistake.
    """
    headers = {}
    for pair in pairs:
        name, equals, variable = pair.partition("=")
        if not equals or not name or not variable.isidentifier():
            raise UsageError(f"--header {name}: not NAME=VARIABLE: give the name of an environment variable, never the key itself")
        if variable not in os.environ:
            raise UsageError(f"--header {name}: there is no such environment variable: set it, then name it here, never the key itself")
        headers[name] = os.environ[variable]
    return headers


def _params(args: argparse.Namespace) -> Mapping[str, Any]:
    """Return the request parameters of a line; --param wins over the flags."""
    _at_least(1, args.max_tokens, "--max-tokens")
    params = {name: value for name in ("temperature", "max_tokens", "seed") if (value := getattr(args, name)) is not None}
    for pair in args.param:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"--param {pair}: not KEY=JSON: write for instance --param top_p=0.9")
        try:
            params[key] = json.loads(value)
        except ValueError:
            raise UsageError(f"--param {key}: {value} is not JSON: text needs quotes, --param '{key}=\"{value}\"'") from None
    return params


def _at_least(least: float, value: _Number | None, flag: str) -> _Number | None:
    if value is not None and not value >= least:
        raise UsageError(f"{flag} {value}: too small: {least} is the least")
    return value
