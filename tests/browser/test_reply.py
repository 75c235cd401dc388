"""%%agent in a cell: the reply, its last line, and both again after the kernel is gone."""

import pytest

pytestmark = pytest.mark.browser


def test_a_reply_ends_with_its_last_line_and_is_still_there_when_reopened(lab, persona):
    persona("mirrored")
    notebook = lab.run("reply.ipynb", "%load_ext toolnexus_nb", "%%agent mirrored -m mirror\nHello there.")
    words = notebook.text(1)
    assert "Hello there." in words
    assert "✓ done · mirror · " in words
    again = notebook.reopen()
    again.find(".tnx-run").first.wait_for()
    assert again.text(1) == words
