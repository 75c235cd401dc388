"""One server, one browser and one loaded Lab for all tests of this folder."""

import os
import shutil
from importlib.util import find_spec

import pytest

# Notebook 7 is a server extension of its own; its tests run where it is installed.
collect_ignore = [] if find_spec("notebook") else ["test_notebook7.py"]

KIP = {
    "AGENTS.md": "# Rules\n\nAnswer in one line.\n",
    "SOUL.md": "You are Kip, a terse assistant.\n",
    "MEMORY.md": "- prefers metric units\n",
}


@pytest.fixture(scope="package")
def chromium():
    """The path of the browser. Without one there is nothing to test, which CI counts as a failure."""
    executable = shutil.which("chromium")
    if executable is None:
        words = "no chromium on PATH: install it (Debian: apt-get install chromium) to run the browser tests"
        if os.environ.get("TOOLNEXUS_NB_BROWSER") == "required":
            pytest.fail(words)
        pytest.skip(words)
    return executable


# Of the package, not of the session: playwright's event loop would be in the way of the tests that follow.
@pytest.fixture(scope="package")
def front_end(chromium, tmp_path_factory):
    """Lab in a page, in front of a fresh root folder."""
    from .lab import Lab, browser, server

    folder = tmp_path_factory.mktemp("lab")
    with server(folder) as address, browser(chromium) as running:
        yield Lab(address, folder, running.new_context().new_page())


@pytest.fixture
def lab(front_end):
    """Lab with no notebook open and nothing asked of any other host."""
    front_end.tidy()
    return front_end


@pytest.fixture(scope="package")
def persona(front_end):
    """Write a persona directory into Lab's root: `persona(name)` is Kip, `persona(name, files)` another."""

    def write(name, files=KIP):
        home = front_end.root / name
        home.mkdir()
        for file, content in files.items():
            (home / file).write_bytes(content.encode() if isinstance(content, str) else content)
        return home

    return write
