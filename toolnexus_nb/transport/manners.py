"""What a run has learnt of its server: options that it refused once are not sent to it again.

Border: none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..conversation import Notice
from ..providers import Ask
from .refusal import Refusal

_NEWER_NAME = "max_completion_tokens"


@dataclass(slots=True)
class Manners:
    """How a server wants to be asked; one belongs to one run."""

    takes_tools: bool = True
    takes_stream_options: bool = True
    takes_max_tokens: bool = True

    def applied(self, ask: Ask) -> Ask:
        """Return the Ask without what the server has refused."""
        if not self.takes_tools:
            ask = replace(ask, takes_tools=False)
        if not self.takes_stream_options:
            ask = replace(ask, include_usage=False)
        if not self.takes_max_tokens and "max_tokens" in ask.params:
            params = {_NEWER_NAME if name == "max_tokens" else name: value for name, value in ask.params.items()}
            ask = replace(ask, params=params)
        return ask

    def learn(self, refusal: Refusal, ask: Ask) -> Notice | None:
        """Take note of what a refusal says; None where it names nothing that can be left out of that Ask."""
        if refusal.is_about_usage(ask):
            self.takes_stream_options = False
            return Notice("the server refused stream_options: usage is not reported")
        if refusal.is_about_max_tokens(ask):
            self.takes_max_tokens = False
            return Notice(f"this model wants max_tokens under its newer name: sent as {_NEWER_NAME}")
        if refusal.is_about_tools(ask):
            self.takes_tools = False
            return Notice("this model takes no tools: memory and other tools are off for this run")
        return None
