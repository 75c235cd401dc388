"""The whole path of a memory on a real model: prompt, tool call, file, answer, in both dialects."""

from pathlib import Path

import pytest

from toolnexus_nb import Options, from_dir
from toolnexus_nb.embedded import local

HERMES = Path(__file__).parent.joinpath("data", "hermes.jinja").read_text(encoding="utf-8")
CALL = 'Reply with exactly <tool_call>{"name": "memory", "arguments": {"action": "add", "text": "likes tea"}}</tool_call>'


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_a_real_model_writes_the_memory_of_its_persona(kip, style):
    served = local.serve(chat_template=HERMES)
    edits = []
    run = from_dir(kip).run(
        CALL,
        Options(
            model=served.model,
            base_url=f"{served.address}/v1",
            style=style,
            transport=served.transport(),
            params={"temperature": 0, "max_tokens": 60},
            max_turns=2,
            on_edit=edits.append,
        ),
    )
    first = run.tool_calls[0]
    assert (first.name, first.arguments, first.result.text) == (
        "memory",
        {"action": "add", "text": "likes tea"},
        "ok (add → MEMORY.md); loads next session",
    )
    assert (kip / "MEMORY.md").read_text(encoding="utf-8").startswith("- prefers metric units\n- likes tea\n")
    assert run.turns == 2
    assert run.usage.completion > 0
    for edit in reversed(edits):
        edit.undo()
    assert (kip / "MEMORY.md").read_text(encoding="utf-8") == "- prefers metric units\n"
