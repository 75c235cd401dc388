"""A notebook run by nbconvert and opened from the disk, with no network."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.browser


def test_an_exported_page_is_readable_without_network(lab, persona):
    persona("exported")
    file = lab.write("exported.ipynb", "%load_ext toolnexus_nb", "%soul exported", "%%agent exported -m mirror\nHello there.")
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", file.name]
    subprocess.run(command, cwd=lab.root, env=lab.environment, check=True, capture_output=True)
    page = lab.page.context.new_page()
    page.route("http*://**", lambda route: route.abort())
    page.goto(file.with_suffix(".html").as_uri(), wait_until="domcontentloaded")
    page.locator(".tnx-section > summary:visible", has_text="SOUL.md").click()
    page.locator(".tnx-row:visible", has_text="You are Kip, a terse assistant.").wait_for()
    words = page.locator("body").inner_text()
    page.close()
    assert words.count("operating instructions") == 1
    assert "✓ done · mirror · " in words
