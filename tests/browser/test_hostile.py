"""Files written to break out of the page they are shown in."""

import pytest

pytestmark = pytest.mark.browser

PWNED = "document.title='pwned'"
HOSTILE = {
    "AGENTS.md": f"hi</script><script>{PWNED}</script></details></pre></span></style></div></template>\n<!-- never closed\n<plaintext>",
    "SOUL.md": f'<img src=x onerror="{PWNED}"> <svg onload="{PWNED}"> ![a](http://127.0.0.9/p.png) <img src=\'http://127.0.0.9/q.png\'>',
    "IDENTITY.md": f"[c](javascript:{PWNED}) <iframe srcdoc='<script>parent.{PWNED}</script>'></iframe>",
    "TOOLS.md": "<style>body{display:none}</style><link rel=stylesheet href=http://127.0.0.9/s.css>",
    "USER.md": "\x1b]0;pwned\x07\x1b[2J \u202egnirts\u202c $\\require{html}\\href{javascript:1}{x}$",
    "MEMORY.md": "- the last section\n",
}


def test_hostile_files_do_nothing_and_ask_for_nothing(lab, persona):
    persona("hostile", HOSTILE)
    lab.foreign.clear()
    notebook = lab.run("hostile.ipynb", "%load_ext toolnexus_nb", "%soul hostile", "%soul hostile --view html")
    title = lab.page.title()
    notebook.find(".tnx-live button:has-text('open all')").click()
    notebook.find(".tnx-live .tnx-row:has-text('the last section')").wait_for()
    for summary in notebook.find(".tnx-section:visible > summary").all():
        summary.click()
    for words in (notebook.text(1), notebook.text(2)):
        assert "hi</script><script>" in words
        assert "<!-- never closed" in words
        assert "![a](http://127.0.0.9/p.png)" in words
        assert words.rstrip().endswith("- the last section")
    lab.page.wait_for_timeout(300)
    assert (lab.page.title(), lab.foreign) == (title, [])
    assert "pwned" not in title
    assert notebook.find(".tnx img, .tnx script, .tnx iframe, .tnx svg").count() == 0
