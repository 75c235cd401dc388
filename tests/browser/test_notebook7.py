"""The same views in Notebook 7."""

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture
def notebook(lab, persona):
    persona("seven")
    lab.write("seven.ipynb", "%load_ext toolnexus_nb", "%soul seven", "%%agent seven -m mirror\nHello there.")
    notebook = lab.open_in_notebook7("seven.ipynb")
    notebook.run()
    yield notebook
    lab.tidy()
    lab.load()


def test_a_section_opens_and_the_reply_ends_and_both_are_there_when_reopened(notebook):
    notebook.find(".tnx-live .jupyter-widget-Collapse-header:has-text('SOUL.md')").click()
    notebook.find(".tnx-live .tnx-row:visible").wait_for()
    assert "You are Kip, a terse assistant." in notebook.text(1)
    assert notebook.text(1).count("operating instructions") == 1
    reply = notebook.text(2)
    assert "✓ done · mirror · " in reply
    notebook.lab.execute("docmanager:save")
    notebook.end_kernel()
    again = notebook.lab.open_in_notebook7("seven.ipynb")
    again.find(".jupyter-widgets:has-text('model not found')").wait_for(state="attached")
    assert "not found" not in again.text(1)
    again.find("summary:has-text('SOUL.md')").click()
    assert "You are Kip, a terse assistant." in again.text(1)
    assert again.text(2) == reply
