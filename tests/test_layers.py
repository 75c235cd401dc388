"""The arrows of the Architecture section: who may import whom, held by walking the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "toolnexus_nb"

#: module (or folder of siblings) -> what it may import of ours. Imports under TYPE_CHECKING count too.
ARROWS = {
    "__init__": {"soul", "agent", "conversation", "memory", "session", "tools", "diff", "lint", "errors", "magics"},
    "errors": {"conversation"},
    "conversation": {"errors"},
    "completion": set(),
    "masking": set(),
    "masked_stream": {"masking"},
    "disk": set(),
    "rules": set(),
    "revisions": {"disk", "errors"},
    "section": {"rules"},
    "soul": {"disk", "rules", "section"},
    "diff": {"soul", "conversation", "masking"},
    "lint": {"soul", "disk", "masking", "errors", "lint", "section"},
    "tools": {"conversation"},
    "entries": {"masking", "rules"},
    "locking": {"disk"},
    "memory": {"disk", "conversation", "diff", "entries", "errors", "locking", "rules"},
    "providers": {"conversation", "errors", "providers"},
    "transport": {"providers", "conversation", "errors", "masking", "transport"},
    "embedded": {"disk", "errors", "embedded"},
    "spec": {"conversation", "memory", "soul"},
    "planning": {"embedded", "errors", "providers", "spec"},
    "turns": {"conversation", "errors", "planning", "providers", "spec", "tools", "transport"},
    "agent": {"conversation", "errors", "lint", "memory", "planning", "providers", "soul", "spec", "tools", "turns"},
    "saving": {"conversation", "disk", "errors"},
    "session": {"agent", "conversation", "errors", "memory", "providers", "saving", "soul"},
    "render": {"conversation", "diff", "lint", "masked_stream", "masking", "providers", "render", "rules", "session", "soul"},
    "live": {"conversation", "masked_stream", "memory", "render"},
    "magics": {
        "agent",
        "completion",
        "conversation",
        "diff",
        "embedded",
        "errors",
        "lint",
        "live",
        "magics",
        "memory",
        "render",
        "session",
        "soul",
        "spec",
        "tools",
    },
}

#: third party -> the modules that are its door.
DOORS = {
    "IPython": {"magics", "__init__"},
    "traitlets": {"magics"},
    "ipywidgets": {"render/widget"},
    "httpx": {"transport", "embedded", "spec", "planning"},
    "httpx_sse": {"transport"},
    "markdown_it": {"render/markdown"},
    "filelock": {"locking"},
    "xllamacpp": {"embedded"},
}


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def place(path: Path) -> tuple[str, str]:
    """Return (name in the table of arrows, path below the package without suffix)."""
    relative = path.relative_to(PACKAGE).with_suffix("")
    return relative.parts[0], "/".join(relative.parts)


def imports(path: Path):
    """Yield (top-level name of a third party or None, name of ours or None) of every import."""
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")[0], None
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0], None
        elif isinstance(node, ast.ImportFrom):
            above = node.level == depth
            names = [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
            for name in names:
                yield None, name if above else path.relative_to(PACKAGE).parts[0]


@pytest.mark.parametrize("path", modules(), ids=lambda path: "/".join(path.relative_to(PACKAGE).parts))
def test_imports_point_down(path):
    home, _ = place(path)
    ours = {name for _, name in imports(path) if name}
    assert ours - {home} <= ARROWS[home] - {home}


@pytest.mark.parametrize("path", modules(), ids=lambda path: "/".join(path.relative_to(PACKAGE).parts))
def test_each_third_party_has_one_door(path):
    home, whole = place(path)
    for name, _ in imports(path):
        assert name not in DOORS or DOORS[name] & {home, whole}, f"{whole} imports {name}"


def test_only_disk_opens_files():
    openers = {
        place(path)[1]
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id == "open")
            or (isinstance(node.func, ast.Attribute) and node.func.attr in ("read_bytes", "write_bytes", "write_text"))
        )
    }
    assert openers <= {"disk"}


def test_importing_the_package_imports_no_third_party():
    code = f"import sys, toolnexus_nb; print(sorted(set(sys.modules) & {set(DOORS)!r}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
