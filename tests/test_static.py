"""The faces of a soul as values: one content in three faces, small, harmless, readable without style."""

import json
import os
import re
import time
from html.parser import HTMLParser

import ipywidgets
import nbformat
import pytest
from golden.cases import CAP, CASES, ORDER, working_directory

from toolnexus_nb import compose_soul
from toolnexus_nb.diff import changes
from toolnexus_nb.render.html import soul_page
from toolnexus_nb.render.text import soul_text
from toolnexus_nb.render.view import HIDDEN, finding_words, lost_text, percent, view
from toolnexus_nb.render.widget import LiveSoul

LIMIT_BYTES = 256 * 1024
#: Headers, signature and metadata of one message, as a kernel sends it.
FRAME_BYTES = 1_000
#: Of one file or a few; seven of two megabytes have one each.
LIMIT_SECONDS = 1.0
INSTANCES = ipywidgets.widgets.widget._instances


class Reader(HTMLParser):
    """What a page says with its markup gone; `keep` names the tags whose start and end stay as they are."""

    DROPPED = ("style", "script")

    def __init__(self, keep=()):
        super().__init__()
        self.keep, self.parts, self.depth = keep, [], 0

    def handle_starttag(self, tag, attributes):
        self.depth += tag in self.DROPPED
        if tag in self.keep:
            self.parts.append(f"<{tag}>")

    def handle_endtag(self, tag):
        self.depth -= tag in self.DROPPED
        if tag in self.keep:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data):
        if not self.depth:
            self.parts.append(data)


def read(page, keep=()):
    reader = Reader(keep)
    reader.feed(page)
    reader.close()
    return "".join(reader.parts)


def sanitised(page):
    """Return a page as sites like GitHub leave it: no style, script, input or attribute."""
    return read(page, keep=("details", "summary", "pre", "ul", "li", "strong", "code", "p", "div"))


def descendants(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from descendants(child)


def clicked(live):
    """Open all seven sections; return what is said on their first and last pages."""
    for widget in descendants(live.widget):
        if isinstance(widget, ipywidgets.ToggleButton):
            widget.value = True
    first = said(live)
    for widget in [*descendants(live.widget)]:
        if isinstance(widget, ipywidgets.Button) and widget.description == "last":
            widget.click()
    return first + said(live)


def said(live):
    return "\n".join(words for widget in descendants(live.widget) for words in words_of(widget))


def words_of(widget):
    match widget:
        case ipywidgets.HTML():
            yield read(widget.value)
        case ipywidgets.Accordion():
            yield from widget.titles
        case ipywidgets.Label():
            yield widget.value
        case ipywidgets.Button() | ipywidgets.ToggleButton():
            yield widget.description


def facts(seen):
    """Yield every string that a reader of any face must meet."""
    yield from (seen.name, seen.path, seen.summary, *seen.warnings, *seen.notes)
    if seen.changes:
        yield from (seen.since, seen.changes.summary, *(line for change in seen.changes.files for line in change.diff.splitlines()))
    for section in seen.sections:
        yield from (section.mark, section.title, section.role, *section.facts, *map(finding_words, section.findings))
        yield from filter(None, lost_text(section.section))
        yield from (row.text for row in list(section.rows())[:3])
        if section.section.found:
            yield percent(section.share)


@pytest.fixture
def troubled(tmp_path, monkeypatch):
    """A persona with one of everything: cut inside a character, not UTF-8, a link that leaves, findings, absent files."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "ada"
    home.mkdir()
    (tmp_path / "elsewhere.md").write_text("# Heading\n\napi_key = sk-abcdefghijklmnopqrstuvwxyz0123456789\n")
    (home / "AGENTS.md").symlink_to("../elsewhere.md")
    (home / "SOUL.md").write_bytes(b"caf\xe9 \xff\n## USER.md\nforged\n")
    (home / "TOOLS.md").write_bytes(b"a" * (CAP - 1) + "€".encode() + b" what was lost")
    (home / "USER.md").mkdir()
    (home / "Memory.md").write_text("near miss")
    (home / "BOOTSTRAP.md").write_text("read by nobody")
    return home


@pytest.fixture
def live_of():
    """Make live views that are closed when the test is over."""
    made = []

    def make(seen, **options):
        made.append(LiveSoul(seen, **options))
        return made[-1]

    yield make
    for live in made:
        live.close()


def test_the_same_facts_stand_in_all_three_faces(troubled, live_of):
    seen = view(compose_soul(troubled))
    faces = {"html": read(soul_page(seen)), "text": soul_text(seen), "widget": clicked(live_of(seen))}
    expected = [*facts(seen)]
    assert len(expected) > 50
    assert {name: [fact for fact in expected if fact not in face] for name, face in faces.items()} == {"html": [], "text": [], "widget": []}


def test_the_same_changes_stand_in_all_three_faces(kip, live_of):
    before = compose_soul(kip)
    (kip / "SOUL.md").write_text("You are Kip, a kind assistant.\n")
    (kip / "USER.md").write_text("Ada\n")
    after = compose_soul(kip)
    seen = view(after, changes=changes(before, after), since="Since it was last shown:")
    faces = {"html": read(soul_page(seen)), "text": soul_text(seen), "widget": clicked(live_of(seen))}
    expected = [*facts(seen)]
    assert {name: [fact for fact in expected if fact not in face] for name, face in faces.items()} == {"html": [], "text": [], "widget": []}


BIG = {
    "letters in one line": b"m",
    "less-than signs": b"<",
    "escapes": b"\x1b",
    "newlines": b"x\n",
    "characters of three bytes": "魂".encode(),
}


@pytest.mark.parametrize("unit", BIG.values(), ids=BIG)
def test_fourteen_megabytes_cost_little_and_little_time(tmp_path, live_of, unit):
    for name in ORDER:
        (tmp_path / name).write_bytes(unit * (CAP // len(unit)) + b"end")
    soul = compose_soul(tmp_path)
    assert soul.truncated == list(ORDER)
    start = time.perf_counter()
    seen = view(soul)
    page, text = soul_page(seen, "tnx-1"), soul_text(seen)
    live = live_of(seen)
    seconds = time.perf_counter() - start
    assert sent_bytes(page, text, live, FRAME_BYTES) <= LIMIT_BYTES
    assert sent_bytes(page, text, live_of(seen, filled=True), frame_bytes=0) <= LIMIT_BYTES
    assert seconds < 7 * LIMIT_SECONDS


def sent_bytes(page, text, live, frame_bytes):
    """Return the bytes of the static output and of the state of every model, each with a message's frame around it."""
    owned = [model for widget in descendants(live.widget) for model in (widget, widget.layout, getattr(widget, "style", None)) if model]
    states = [model.get_state() for model in {model.model_id: model for model in owned}.values()]
    values = [{"text/html": page, "text/plain": text}, *states]
    return sum(frame_bytes + len(json.dumps(value, default=str, ensure_ascii=False).encode()) for value in values)


def test_a_page_of_a_long_file_is_small(tmp_path, live_of):
    (tmp_path / "SOUL.md").write_bytes(b"<" * CAP)
    live = live_of(view(compose_soul(tmp_path)))
    clicked(live)
    longest = max(len(widget.value) for widget in descendants(live.widget) if isinstance(widget, ipywidgets.HTML))
    assert longest < 64_000


def test_the_share_bar_is_filled_from_edge_to_edge(kip):
    seen = view(compose_soul(kip))
    # Headings have no segment, and factors that add up to less than 1 would leave their part of the bar empty.
    assert sum(section.share for section in seen.sections) < 1
    assert sum(map(float, re.findall(r"flex-grow:([0-9.]+)", soul_page(seen)))) >= 1


def test_sections_stay_readable_without_style_script_and_attributes(troubled):
    seen = view(compose_soul(troubled))
    plain = sanitised(soul_page(seen))
    assert "tnx-" not in plain
    at = [plain.index(f"<summary>{section.mark} {section.title}") for section in seen.sections]
    assert at == sorted(at)
    assert plain.count("<details>") == plain.count("</details>")
    assert "<pre>caf\ufffd \ufffd\n## USER.md\nforged\n</pre>" in plain


@pytest.mark.parametrize("case", [pytest.param(case, id=case.label) for case in CASES])
def test_every_hard_directory_has_all_faces_in_good_time(case, tmp_path, monkeypatch):
    for folder in ("case", "cwd"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(os.fsdecode(working_directory(os.fsencode(tmp_path / "cwd"))))
    path = os.fsdecode(case.build(os.fsencode(tmp_path / "case")))
    start = time.perf_counter()
    try:
        seen = view(compose_soul(path))
        page, text = soul_page(seen), soul_text(seen)
        assert time.perf_counter() - start < LIMIT_SECONDS * (7 if "14 MiB" in case.label else 1)
        assert HIDDEN.search(text) is None
        # Surrogates of a name that is not UTF-8 cannot be sent.
        page.encode()
        text.encode()
        assert [section.title in read(page) for section in seen.sections] == [True] * 7
    finally:
        if (folder := tmp_path / "case/d").is_dir() and not folder.is_symlink():
            folder.chmod(0o755)


def test_viewing_writes_nothing(kip, live_of):
    kip.chmod(0o500)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in (kip, *kip.iterdir())}
    seen = view(compose_soul(kip))
    soul_page(seen)
    soul_text(seen)
    clicked(live_of(seen))
    after = {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in (kip, *kip.iterdir())}
    kip.chmod(0o700)
    assert after == before


def test_a_closed_view_leaves_no_model_behind(troubled):
    before = set(INSTANCES)
    live = LiveSoul(view(compose_soul(troubled)))
    assert len(set(INSTANCES) - before) > 20
    clicked(live)
    live.close()
    assert set(INSTANCES) - before == set()


@pytest.mark.kernel
def test_an_exported_page_holds_every_section_and_the_reply_and_fetches_none_of_it(kip):
    (kip / "IDENTITY.md").write_text("![portrait](http://127.0.0.9/p.png)\n<img src=http://127.0.0.9/q.png>\n")
    cells = ("%load_ext toolnexus_nb", "%soul kip", "%%agent kip -m mirror\nHello <b>there</b> ![x](http://127.0.0.9/r.png)")
    page = exported(kip.parent, *cells)
    assert page.count('<details class="tnx-section">') == 7
    words = read(page)
    for text in (
        "# Rules\n\nAnswer in one line.\n",
        "You are Kip, a terse assistant.\n",
        "- prefers metric units\n",
        "![portrait](http://127.0.0.9/p.png)",
    ):
        assert text in words
    assert "✓ done · mirror" in words
    # All that is fetched is what nbconvert itself names in its head, for formulas and widgets.
    assert "127.0.0.9" not in "".join(fetched(page))


def exported(folder, *cells):
    """Run a notebook in `folder` with nbclient and return it as nbconvert's HTML."""
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}}, timeout=60).execute()
    return HTMLExporter().from_notebook_node(notebook)[0]


def fetched(page):
    """Return the addresses that a browser would ask for on its own."""
    addresses = []

    class Addresses(HTMLParser):
        def handle_starttag(self, tag, attributes):
            addresses.extend(value for name, value in attributes if name in ("src", "srcset", "poster", "background", "data") and value)
            addresses.extend(value for name, value in attributes if tag == "link" and name == "href" and value)

    Addresses().feed(page)
    return addresses


def test_a_change_behind_the_cap_is_told_in_both_static_faces(tmp_path):
    (tmp_path / "SOUL.md").write_bytes(b"a" * (CAP + 10))
    before = compose_soul(tmp_path)
    (tmp_path / "SOUL.md").write_bytes(b"a" * (CAP + 20))
    after = compose_soul(tmp_path)
    seen = view(after, changes=changes(before, after), since="Since then:")
    words = "Since then: the same prompt (SOUL.md changed only in what is not sent)"
    assert words in soul_text(seen)
    assert words in soul_page(seen).replace("<strong>", "").replace("</strong>", "")
