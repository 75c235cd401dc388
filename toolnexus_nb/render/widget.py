"""The live face: seven Accordions that fetch a body when it is opened, in pages.

Border: the only importer of ipywidgets.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final

import ipywidgets as ipw

from . import html
from .view import Row, SectionView, SoulView, number

PAGE_ROWS: Final = 400
PAGE_BYTES: Final = 32_000
#: Seven of these, the static twin and the models themselves stay below 256 KB.
FILLED_BYTES: Final = 6_000


class LiveSoul:
    """The widgets of one view. `uid` ties them to the static twin; `close` frees every model.

    Each section is an Accordion of its own: one Accordion with seven panes would close the
    first when the second is opened. ipywidgets gives its headers no keyboard focus, so the
    row of buttons above does the same by keyboard, and shows all seven states at a glance.
    """

    def __init__(self, view: SoulView, *, show_secrets: bool = False, filled: bool = False) -> None:
        """Build the view; `filled` puts the beginning of every body in before it is opened.

        A runner such as nbclient saves the state of the widgets, and a notebook restored
        from that state has nobody to ask for a body.
        """
        self.uid = f"tnx-{secrets.token_hex(4)}"
        # One Layout serves all: each would otherwise be a model and a message of its own.
        self._layout = ipw.Layout()
        self._narrow = ipw.Layout(width="auto", margin="0 4px 4px 0")
        self._panes = [_Pane(section, self._layout, show_secrets) for section in view.sections]
        self._all = ipw.Button(description="open all", tooltip="Open or close all sections", layout=self._narrow)
        self._all.on_click(self._toggle_all)
        chips = ipw.HBox([self._all, *(pane.chip for pane in self._panes)], layout=ipw.Layout(flex_flow="row wrap"))
        head = ipw.HTML(
            f'{html.style()}<div class="tnx tnx-view tex2jax_ignore mathjax_ignore">{html.header(view)}</div>', layout=self._layout
        )
        self.widget = ipw.VBox([head, chips, *(pane.accordion for pane in self._panes)], layout=self._layout)
        for name in (self.uid, "tnx", "tnx-live"):
            self.widget.add_class(name)
        if filled:
            for pane in self._panes:
                pane.fill_ahead()

    def _toggle_all(self, _button: Any) -> None:
        opening = self._all.description == "open all"
        self._all.description = "close all" if opening else "open all"
        for pane in self._panes:
            pane.chip.value = opening

    def close(self) -> None:
        """Close every model of the view; the page shows the static twin again."""
        _close(self.widget)


class _Pane:
    """One section: its button, its Accordion, and the body that is built when it is first opened."""

    def __init__(self, section: SectionView, layout: ipw.Layout, show_secrets: bool) -> None:
        self._section, self._show_secrets = section, show_secrets
        self._rows: list[Row] = []
        self._starts = [0]
        self._end = 0
        self._ahead = False
        self._body = ipw.HTML(layout=layout)
        self._box = ipw.VBox([self._body], layout=layout)
        title = f"{section.mark} {section.title} — {section.role}"
        self.accordion = ipw.Accordion([self._box], titles=(title,), selected_index=None, layout=layout)
        self.chip = ipw.ToggleButton(
            description=f"{section.mark} {section.name}", tooltip=section.title, layout=ipw.Layout(width="auto", margin="0 4px 4px 0")
        )
        self.chip.observe(lambda change: self._open(change.new), "value")
        self.accordion.observe(lambda change: self._opened(change.new == 0), "selected_index")

    def _open(self, opening: bool) -> None:
        self.accordion.selected_index = 0 if opening else None

    def _opened(self, opening: bool) -> None:
        self.chip.value = opening
        if opening and (self._ahead or not self._body.value):
            self._ahead = False
            self._fill()

    def _fill(self) -> None:
        section = self._section
        if not section.section.found:
            self._body.value = _wrapped(html.section_inside(section, 0))
            return
        self._rows = list(section.rows())
        self._show_page()
        if self._end < len(self._rows):
            self._add_pager()

    def fill_ahead(self) -> None:
        """Put the beginning of the body in; opening the section fetches the page as ever."""
        self._body.value = _wrapped(html.section_inside(self._section, FILLED_BYTES, self._show_secrets))
        self._ahead = True

    def _show_page(self) -> None:
        body, shown = html.page(self._rows, self._starts[-1], PAGE_ROWS, PAGE_BYTES)
        self._end = self._starts[-1] + shown
        tail = html.lost(self._section, self._show_secrets)
        if tail and self._end < len(self._rows):
            tail = '<p class="tnx-more">the cut is on the last page</p>'
        self._body.value = _wrapped(f"{html.section_facts(self._section)}{html.text_block(self._section, body)}{tail}")

    def _add_pager(self) -> None:
        self._where = ipw.Label()
        turns = (("first", self._first), ("previous", self._previous), ("next", self._next), ("last", self._last))
        self._box.children = (self._body, ipw.HBox([*(_button(words, turn) for words, turn in turns), self._where]))
        self._say_where()

    def _say_where(self) -> None:
        self._where.value = f"rows {number(self._starts[-1] + 1)} to {number(self._end)} of {number(len(self._rows))}"

    def _turn(self, starts: list[int]) -> None:
        self._starts = starts
        self._show_page()
        self._say_where()

    def _first(self, _button: Any) -> None:
        self._turn([0])

    def _next(self, _button: Any) -> None:
        if self._end < len(self._rows):
            self._turn([*self._starts, self._end])

    def _previous(self, _button: Any) -> None:
        if len(self._starts) > 1:
            self._turn(self._starts[:-1])

    def _last(self, _button: Any) -> None:
        # A page holds fewer rows where they are long, so the start moves towards the end
        # until the page reaches it.
        start = max(0, len(self._rows) - PAGE_ROWS)
        while start + html.page(self._rows, start, PAGE_ROWS, PAGE_BYTES)[1] < len(self._rows):
            start += (len(self._rows) - start + 1) // 2
        self._turn([*self._starts, start])


def _button(words: str, action: Callable[[Any], None]) -> ipw.Button:
    button = ipw.Button(description=words, tooltip=f"{words} page", layout=ipw.Layout(width="auto"))
    button.on_click(action)
    return button


def _wrapped(inside: str) -> str:
    return f'<div class="tnx tex2jax_ignore mathjax_ignore"><div class="tnx-in">{inside}</div></div>'


def _close(widget: ipw.Widget) -> None:
    for child in getattr(widget, "children", ()):
        _close(child)
    # Layout and style are models too, and outlive the widget they belong to.
    for name in ("layout", "style"):
        owned = getattr(widget, name, None)
        if isinstance(owned, ipw.Widget):
            owned.close()
    widget.close()
