"""What the head of a .gguf file says: whether the model has a chat template of its own.

Border: none; bytes in. llama.cpp puts a template of its own in place of a missing one and does not
say so, hence this reader. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from typing import Final

MAGIC: Final = b"GGUF"
#: As much of a file as is read. The metadata of a large vocabulary takes some 20 MB.
HEAD_BYTES: Final = 64 * 1024 * 1024

_KEY: Final = b"tokenizer.chat_template"
#: From version 2 on, counts have 64 bits.
_VERSIONS: Final = (2, 3)
_STRING: Final = 8
_ARRAY: Final = 9
#: The bytes of a value by its type: integers, floats and a boolean.
_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def has_chat_template(head: bytes) -> bool | None:
    """Tell whether the metadata holds a chat template, None where that cannot be told.

    `head` is the file's beginning, HEAD_BYTES of it at most. Whatever it holds, nothing is
    raised, and the time is linear in its length.
    """
    try:
        return _has(head)
    except (struct.error, KeyError):
        # Damaged, cut off, or of a type that is not in the format: llama.cpp will say what it makes of it.
        return None


def _has(head: bytes) -> bool | None:
    magic, version, _tensors, pairs = struct.unpack_from("<4sIQQ", head)
    if magic != MAGIC or version not in _VERSIONS:
        return None
    at = struct.calcsize("<4sIQQ")
    for _ in range(pairs):
        key_at, at = _string(head, at)
        (kind,) = struct.unpack_from("<I", head, at)
        if head[key_at:at] == _KEY:
            value_at, end = _string(head, at + 4)
            return kind == _STRING and bool(head[value_at:end].strip())
        at = _behind(head, at + 4, kind)
    return False


def _behind(head: bytes, at: int, kind: int) -> int:
    """Return where the value that begins there ends. Raises KeyError for an unknown type, struct.error past the end."""
    if kind == _STRING:
        return _string(head, at)[1]
    if kind != _ARRAY:
        return _within(head, at + _SIZES[kind])
    member, count = struct.unpack_from("<IQ", head, at)
    at += struct.calcsize("<IQ")
    if member != _STRING:
        return _within(head, at + count * _SIZES[member])
    for _ in range(count):
        _, at = _string(head, at)
    return at


def _string(head: bytes, at: int) -> tuple[int, int]:
    """Return where the characters of a string begin and end; its length stands before them."""
    (length,) = struct.unpack_from("<Q", head, at)
    return at + 8, _within(head, at + 8 + length)


def _within(head: bytes, end: int) -> int:
    if end > len(head):
        raise struct.error("the value ends behind the head")
    return end
