"""A model's Markdown as safe HTML: no raw HTML, no image, no script, dollars literal.

Border: the only importer of markdown-it-py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from .view import visible_lines

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


def markdown_html(text: str) -> str:
    """Render one piece of a reply. Links open elsewhere and carry no referrer; nothing is fetched."""
    return str(_parser().render(visible_lines(text)))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    # With the rule off `![alt](url)` is a "!" and a link: what was sent is seen, nothing is asked for.
    parser.disable("image")
    parser.add_render_rule("link_open", _link_open)
    return parser


def _link_open(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    tokens[index].attrSet("target", "_blank")
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    return str(self.renderToken(tokens, index, options, env))
