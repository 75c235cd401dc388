"""Fixtures that several files share: a small persona, a shell with the extension loaded, cells typed into it."""

import atexit
import os

import pytest
from IPython.core.error import UsageError

from toolnexus_nb.errors import RunFailed

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


def persona(path, soul="You are another.\n"):
    path.mkdir(parents=True)
    (path / "SOUL.md").write_text(soul, encoding="utf-8")
    return path


class Typed:
    """A shell in which cells are typed: `out` and `err` are what the last one printed."""

    def __init__(self, shell, capsys):
        self.shell, self.capsys = shell, capsys
        self.out = self.err = ""

    def __call__(self, cell):
        """Run a cell and return what came of it."""
        self.capsys.readouterr()
        done = self.shell.run_cell(cell, store_history=True)
        self.out, self.err = self.capsys.readouterr()
        return done

    def ok(self, cell):
        """Run a cell that must succeed and return what it printed."""
        assert self(cell).success, self.out + self.err
        return self.out

    def refused(self, cell):
        """Run a cell that must be refused in one line and return that line."""
        error = self(cell).error_in_exec
        assert isinstance(error, UsageError), self.out + self.err
        assert (self.out, self.err) == (f"UsageError: {error}\n", "")
        assert "\n" not in str(error)
        return str(error)

    def failed(self, cell):
        """Run a cell whose run must fail and return the error; its traceback is one line, the last."""
        error = self(cell).error_in_exec
        assert isinstance(error, RunFailed), self.out + self.err
        assert self.out.endswith(f"\nRunFailed: {error}\n")
        return error

    def __getitem__(self, name):
        return self.shell.user_ns[name]

    @property
    def magics(self):
        (magics,) = [known for known in self.shell.configurables if type(known).__name__ == "SoulMagics"]
        return magics


@pytest.fixture
def typed(shell, capsys, kip, monkeypatch):
    """A shell whose working directory holds the persona `kip`; no key is in the environment, the model is the mirror."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    typed = Typed(shell, capsys)
    typed("%config SoulMagics.model = 'mirror'")
    return typed
