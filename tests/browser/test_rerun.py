"""A cell that is run again: what it replaces is freed, in the kernel and in the page."""

import pytest

pytestmark = pytest.mark.browser

COUNT = "import ipywidgets\nprint(len(ipywidgets.widgets.widget._instances))"


def test_a_cell_run_again_leaves_no_more_models_behind(lab, persona):
    persona("again")
    notebook = lab.run("again.ipynb", "%load_ext toolnexus_nb", "%soul again", COUNT)
    notebook.find(".tnx-live").wait_for()
    before = (notebook.text(2), notebook.models())
    for _ in range(3):
        notebook.run()
    notebook.find(".tnx-live").wait_for()
    assert before == (notebook.text(2), notebook.models())
    assert int(before[0]) == before[1] > 0
