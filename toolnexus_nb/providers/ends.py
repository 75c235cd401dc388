"""How servers say that a reply is over: one table for both dialects, since gateways pass on the words of what is behind them.

Border: none. Sources: the documents of OpenAI, Anthropic, Google, Mistral, Cohere, Amazon, DeepSeek and Zhipu,
and the sources of vLLM, SGLang, TGI, llama.cpp and ollama.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..conversation import Finish, FinishReason, Notice
from ..errors import BadReply
from .reading import one_line

_WORDS: Final[Mapping[FinishReason, str]] = {
    "stop": "stop end_turn stop_sequence stop_str stop_token eos eos_token end end_of_text complete completed finish finished done "
    "normal matched_stop",
    "tool_calls": "tool_calls tool_call tool_use function_call",
    "length": "length max_tokens max_length max_output_tokens max_tokens_exceeded max_new_tokens model_length token_limit "
    "limit model_context_window_exceeded context_length_exceeded context_window_exceeded",
    "refused": "content_filter content_filtered refusal refused safety recitation blocklist prohibited_content spii sensitive "
    "guardrail_intervened error_toxic image_safety",
}
FINISH_REASONS: Final[Mapping[str, FinishReason]] = {word: reason for reason, words in _WORDS.items() for word in words.split()}
_ERRORS: Final = frozenset(("error", "failed", "failure", "server_error", "internal_error", "engine_error"))

#: Said where a reply was closed as a whole one is, but for the word that says why.
NO_REASON: Final = Notice("the server closed the reply without a finish_reason: it is taken as whole")


def finish(word: str, *, calls: bool = False, refused: bool = False) -> Finish:
    """Return the ending that a server's word means. Raises BadReply for a word that means a failure."""
    plain = word.strip().lower()
    if plain in _ERRORS:
        raise BadReply(f"the server broke the reply off (finish_reason {one_line(word)}): what arrived is not the whole of it: try again")
    reason = FINISH_REASONS.get(plain, "unknown")
    if reason == "unknown":
        return Finish(reason, one_line(word) or "no stop_reason")
    if reason == "stop" and refused:
        return Finish("refused")
    return Finish("tool_calls") if reason == "stop" and calls else Finish(reason)
