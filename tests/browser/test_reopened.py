"""Notebooks saved, their kernels gone, opened again: what was drawn says it all.

`mine` was run here; `strangers` is the same with other code, so Jupyter has signed nothing
of it and shows its outputs sanitised.
"""

import pytest

pytestmark = pytest.mark.browser

CELLS = ("%load_ext toolnexus_nb", "%soul later", "%%agent later -m mirror\nHello there.")


@pytest.fixture(scope="module")
def reopened(front_end, persona):
    """Lab after the night between: (what each cell showed, the names of both notebooks)."""
    persona("later")
    front_end.tidy()
    notebook = front_end.run("mine.ipynb", *CELLS)
    notebook.find(".tnx-live").wait_for()
    shown = [notebook.text(cell) for cell in range(len(CELLS))]
    notebook.save()
    front_end.tidy()
    saved = (front_end.root / "mine.ipynb").read_text()
    (front_end.root / "strangers.ipynb").write_text(saved.replace("%soul later", "%soul  later"))
    front_end.load()
    return shown


@pytest.fixture(params=["mine.ipynb", "strangers.ipynb"])
def notebook(request, reopened, lab):
    notebook = lab.open(request.param)
    if request.param == "mine.ipynb":
        # Lab's own line in place of the dead widget: it is there, and must not be seen.
        notebook.find(".jupyter-widgets:has-text('model not found')").wait_for(state="attached")
    return notebook


def test_the_twin_stands_alone_and_its_sections_open(notebook):
    words = notebook.text(1)
    assert "not found" not in words
    assert words.count("operating instructions") == 1
    notebook.find("summary:has-text('SOUL.md')").click()
    assert "You are Kip, a terse assistant." not in words
    assert "You are Kip, a terse assistant." in notebook.text(1)


def test_the_reply_is_as_it_was(notebook, reopened):
    assert "✓ done · mirror · " in reopened[2]
    assert notebook.text(2) == reopened[2]
