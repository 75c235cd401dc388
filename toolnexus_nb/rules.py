"""The rules of the original, written down once: the seven files, the cap, its notice, what counts as white space.

Border: none; constants only. Source: toolnexus (Go), SPEC 7E, ComposeSoul.
"""

from __future__ import annotations

from typing import Final

BOOTSTRAP_ORDER: Final = (
    "AGENTS.md",
    "SOUL.md",
    "IDENTITY.md",
    "USER.md",
    "TOOLS.md",
    "HEARTBEAT.md",
    "MEMORY.md",
)
#: What each of the seven is for.
ROLES: Final = {
    "AGENTS.md": "operating instructions",
    "SOUL.md": "identity and voice",
    "IDENTITY.md": "who the agent is",
    "USER.md": "model of the user",
    "TOOLS.md": "tool guidance",
    "HEARTBEAT.md": "what to do on a heartbeat",
    "MEMORY.md": "long-term notes",
}
CAP_BYTES: Final = 2_097_152
TRUNCATION_NOTICE: Final = "\n[truncated: exceeds 2 MB bootstrap cap]"
#: Go's unicode.IsSpace. str.strip() would also take U+001C-001F, which Go keeps.
WHITE: Final = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
