"""The live view of %soul: clicked, typed at, narrow, dark. One notebook serves all tests of this file."""

import pytest

pytestmark = pytest.mark.browser

BUTTON = ".tnx-live button:has-text('{}')"
TITLE = ".tnx-live .jupyter-widget-Collapse-header:has-text('{}')"
ROWS = ".tnx-live .jupyter-widget-Collapse-contents .tnx-row:visible"

#: Pages of 400 rows; four megabytes, so that it is cut as well.
LONG = "".join(f"line {number}\n" for number in range(1, 240_001))


@pytest.fixture(scope="module")
def notebook(front_end, persona):
    """A notebook that shows Kip, with a TOOLS.md that is too long."""
    kip = persona("kip")
    (kip / "TOOLS.md").write_text(LONG)
    return front_end.run("live.ipynb", "%load_ext toolnexus_nb", "%soul kip", "%soul kip --view html")


@pytest.fixture(autouse=True)
def closed(notebook):
    """Close what a test has opened. Each test sees what it opened before it ends, so nothing opens later."""
    yield
    if notebook.find(BUTTON.format("close all")).count():
        notebook.find(BUTTON.format("close all")).click()
    else:
        # The last first: a click takes its button out of the list.
        for button in reversed(notebook.find(".tnx-live button.mod-active").all()):
            button.click()
    notebook.find(ROWS).first.wait_for(state="hidden")


def rows(notebook):
    """Return (line number, text) of every row that is seen, when there is one."""
    notebook.find(ROWS).first.wait_for()
    return notebook.find(ROWS).evaluate_all("rows => rows.map(row => [row.dataset.n, row.textContent.replace(/\\n$/, '')])")


def test_a_click_on_a_title_shows_that_file_with_line_numbers(notebook):
    notebook.find(TITLE.format("AGENTS.md")).click()
    assert rows(notebook) == [["1", "# Rules"], ["2", ""], ["3", "Answer in one line."]]
    assert notebook.find(ROWS).first.evaluate("row => getComputedStyle(row, '::before').content") in ("attr(data-n)", '"1"')


def test_a_second_section_leaves_the_first_one_open(notebook):
    notebook.find(TITLE.format("SOUL.md")).click()
    notebook.find(TITLE.format("MEMORY.md")).click()
    notebook.find(ROWS).nth(1).wait_for()
    assert rows(notebook) == [["1", "You are Kip, a terse assistant."], ["1", "- prefers metric units"]]


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_a_section_is_opened_and_closed_by_keyboard(notebook, key):
    keyboard = notebook.page.keyboard
    notebook.find(BUTTON.format("open all")).focus()
    keyboard.press("Tab")
    keyboard.press("Tab")
    keyboard.press(key)
    assert rows(notebook) == [["1", "You are Kip, a terse assistant."]]
    keyboard.press(key)
    notebook.find(ROWS).first.wait_for(state="hidden")


def test_the_live_view_hides_its_static_twin(notebook):
    assert notebook.outputs(1).locator(".tnx-section:visible").count() == 0
    assert notebook.text(1).count("operating instructions") == 1


def test_a_long_file_is_turned_page_by_page_down_to_the_cut(notebook):
    notebook.find(TITLE.format("TOOLS.md")).click()
    assert (rows(notebook)[0], rows(notebook)[-1]) == (["1", "line 1"], ["400", "line 400"])
    notebook.find(BUTTON.format("next")).click()
    notebook.find(f"{ROWS}[data-n='401']").wait_for()
    assert rows(notebook)[0] == ["401", "line 401"]
    notebook.find(BUTTON.format("last")).click()
    notebook.find(".tnx-lost:visible").wait_for()
    assert rows(notebook)[-1] == ["✂", "[truncated: exceeds 2 MB bootstrap cap]"]


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_all_text_stands_out_from_its_background(notebook, theme):
    notebook.lab.execute("apputils:change-theme", theme=theme)
    notebook.find(BUTTON.format("open all")).click()
    notebook.find(".tnx-live button.mod-active").nth(6).wait_for()
    notebook.find(".tnx-live .tnx-row:has-text('metric'):visible").wait_for()
    notebook.find(".tnx-view .tnx-section > summary:visible").first.click()
    faint = notebook.faint(".tnx-live, .tnx-view", least=4.5)
    notebook.lab.execute("apputils:change-theme", theme="JupyterLab Light")
    assert faint == []


def test_nothing_is_wider_than_a_narrow_window(notebook):
    notebook.find(TITLE.format("AGENTS.md")).click()
    rows(notebook)
    notebook.lab.execute("application:toggle-left-area")
    notebook.page.set_viewport_size({"width": 500, "height": 800})
    too_wide = notebook.too_wide(".tnx, .tnx-live *:not(.tnx-seg, .tnx-seg *)")
    notebook.page.set_viewport_size({"width": 1280, "height": 720})
    notebook.lab.execute("application:toggle-left-area")
    assert too_wide == []


def test_nothing_was_asked_of_another_host(notebook):
    assert notebook.lab.foreign == []
