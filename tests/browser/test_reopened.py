"""A notebook saved, its kernel gone, opened again: the static twin says it all."""

import pytest

pytestmark = pytest.mark.browser


def test_a_reopened_notebook_shows_the_twin_alone_and_its_sections_open(lab, persona):
    persona("later")
    notebook = lab.run("later.ipynb", "%load_ext toolnexus_nb", "%soul later")
    notebook.find(".tnx-live").wait_for()
    again = notebook.reopen()
    again.find(".tnx-section").first.wait_for()
    words = again.text(1)
    assert "not found" not in words
    assert "Error" not in words
    assert words.count("operating instructions") == 1
    assert again.find(".tnx-live").count() == 0
    again.find("summary:has-text('SOUL.md')").click()
    assert again.find(".tnx-row:visible").all_inner_texts() == ["You are Kip, a terse assistant.\n"]


def test_a_notebook_from_a_stranger_is_readable_too(lab, persona):
    persona("stranger")
    notebook = lab.run("stranger.ipynb", "%load_ext toolnexus_nb", "%soul stranger")
    notebook.save()
    # Another file with other code: Jupyter has signed nothing of it.
    file = lab.root / "stranger.ipynb"
    file.write_text(file.read_text().replace("%soul stranger", "%soul  stranger"))
    again = notebook.reopen(save=False)
    again.find("summary").first.wait_for()
    words = again.text(1)
    assert "not found" not in words
    assert words.count("operating instructions") == 1
    again.find("summary:has-text('SOUL.md')").click()
    assert "You are Kip, a terse assistant." in again.text(1)
