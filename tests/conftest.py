"""Fixtures that several files share: a small persona, a shell with the extension loaded."""

import atexit
import os

import pytest

# Written by the project for its tests: no real persona is copied.
PERSONA = {
    "AGENTS.md": "# Rules\n\nAnswer in one line.\n",
    "SOUL.md": "You are Kip, a terse assistant.\n",
    "MEMORY.md": "- prefers metric units\n",
}


@pytest.fixture(autouse=True)
def stay_here():
    """Come back to the working directory, whatever a test changed it to: the notebooks run from there."""
    before = os.getcwd()
    yield
    os.chdir(before)


@pytest.fixture
def kip(tmp_path):
    """A persona directory `kip` with three of the seven files; the working directory is its parent."""
    home = tmp_path / "kip"
    home.mkdir()
    for name, text in PERSONA.items():
        (home / name).write_text(text, encoding="utf-8")
    before = os.getcwd()
    os.chdir(tmp_path)
    yield home
    os.chdir(before)


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """A terminal-like IPython shell of its own, with the extension loaded."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "toolnexus_nb")
    yield shell
    shell.run_line_magic("unload_ext", "toolnexus_nb")
    # What a shell does when its process ends: a collection of all garbage, 0.3 s with the whole of pytest loaded.
    atexit.unregister(shell.atexit_operations)
    InteractiveShell.clear_instance()
