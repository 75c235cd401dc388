"""What an agent is and how one run is made: Budget, Spec, Options. Values only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .conversation import Message, Tool
from .soul import Soul

if TYPE_CHECKING:
    import httpx

    from .memory import MemoryEdit

MemoryMode = Literal["on", "ask", "off"]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may use at most; None leaves the limit to Options, or open. `seconds` is wall time."""

    max_tokens: int | None = None
    max_turns: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """What an agent is.

    `soul` is a Soul or any system prompt as str. `model` is a name as for `-m`, "inherit"
    to take it from the Options. `tools` are Tools or plain Python functions.
    """

    does: str = ""
    soul: Soul | str = ""
    model: str = "inherit"
    tools: Sequence[Tool | Callable[..., Any]] = ()
    budget: Budget = Budget()

    @property
    def prompt(self) -> str:
        """The system prompt, character for character as it is sent."""
        return str(self.soul)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.prompt.encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Options:
    """How one run is made.

    model            a name as for `-m` (`openai:gpt-4o`, `local`, `mirror` …); "" takes the Spec's
    base_url, style  any server by address; style "openai" (default) or "anthropic"
    api_key          "" takes it from the environment at call time; never in repr
    headers          more HTTP headers, for instance {"api-key": "…"}; never in repr
    transport        an httpx.BaseTransport that answers in place of the network
    tools            more tools, after the Spec's
    max_turns        requests per run, 10
    timeout_seconds  of silence, not of the whole run; 120
    deadline_seconds of the whole run, by the clock; None leaves it to the Spec's budget, or open
    retries          before the first byte of an answer; 2
    params           merged into the request body, for instance {"temperature": 0}
    memory           on | ask (`confirm` is called before a write) | off; a write that a link
                     leads out of the directory calls `confirm` also with "on"
    role             the role the soul is sent under: "system", or "user" for servers without one
    history          messages before the prompt: `Run.messages` continues a conversation
    on_edit          called with every write of the memory tool
    """

    model: str = ""
    base_url: str = ""
    style: str = ""
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    transport: httpx.BaseTransport | None = None
    tools: Sequence[Tool | Callable[..., Any]] = ()
    max_turns: int = 10
    timeout_seconds: float = 120.0
    deadline_seconds: float | None = None
    retries: int = 2
    params: Mapping[str, Any] = field(default_factory=dict)
    memory: MemoryMode = "on"
    confirm: Callable[[MemoryEdit], bool] | None = None
    role: Literal["system", "user"] = "system"
    history: tuple[Message, ...] = ()
    on_edit: Callable[[MemoryEdit], None] | None = None
