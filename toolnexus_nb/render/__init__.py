"""One value, several faces: `bundle(value)` is what a notebook shows of a Soul or a Run."""

from __future__ import annotations

from ..conversation import Run
from ..soul import Soul


def bundle(value: Soul | Run) -> dict[str, str]:
    """Return the mimebundle (text/html, text/plain) of a Soul or a Run; TypeError for anything else."""
    if isinstance(value, Soul):
        from .html import soul_page
        from .text import soul_text
        from .view import view

        seen = view(value)
        return {"text/html": soul_page(seen), "text/plain": soul_text(seen)}
    if isinstance(value, Run):
        from .reply import run_html, run_text

        return {"text/html": run_html(value), "text/plain": run_text(value)}
    raise TypeError(f"{type(value).__name__} has no face: give a Soul or a Run")
