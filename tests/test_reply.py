"""How a run is cut into segments, rendered, and ended in words."""

from hypothesis import given
from hypothesis import strategies as st

from toolnexus_nb.conversation import Notice, Run, TextDelta, ToolCall, ToolFinished, ToolResult, TurnStarted, Usage, Waiting
from toolnexus_nb.render import bundle
from toolnexus_nb.render.markdown import markdown_html
from toolnexus_nb.render.reply import SEGMENT_MOST, Transcript, ending_words, segment_html, segment_text


def transcript(*texts):
    seen = Transcript()
    for text in texts:
        seen.add(TextDelta(text))
    seen.end()
    return seen


def texts(seen):
    return [segment.text for segment in seen.segments]


@given(st.lists(st.text(alphabet="ab \n`~#", max_size=700), max_size=30))
def test_segments_hold_the_whole_text_in_order(pieces):
    assert "".join(texts(transcript(*pieces))) == "".join(pieces)


@given(st.text(alphabet="ab \n`", max_size=6000), st.integers(1, 900))
def test_cuts_do_not_depend_on_how_the_text_arrived(text, size):
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    by_character = transcript(*text)
    assert texts(transcript(*pieces)) == texts(by_character)


def test_no_segment_grows_without_end():
    assert max(map(len, texts(transcript("x" * 50_000)))) <= SEGMENT_MOST + 1_000


def test_a_code_block_is_not_cut_at_its_blank_lines():
    code = "```python\n" + "x = 1\n\n" * 200 + "```\n\n"
    assert texts(transcript(code + "after")) == [code, "after"]


def test_a_code_block_cut_by_force_is_opened_again():
    seen = transcript("```python\n" + "x = 1\n" * 2_000)
    pages = [segment_html(seen, index) for index in range(len(seen.segments))]
    assert len(pages) > 2
    assert all('<pre><code class="language-python">' in page for page in pages)


def test_a_model_s_markdown_fetches_and_runs_nothing():
    html = markdown_html(
        "![p](http://127.0.0.1:9/p.png) <img src=x onerror=alert(1)> <script>alert(1)</script> "
        "[c](javascript:alert(1)) [d](data:text/html,x)"
    )
    assert "<img" not in html
    assert "<script" not in html
    assert 'href="javascript' not in html
    assert 'href="data:' not in html


def test_dollars_stay_dollars_and_links_open_elsewhere():
    html = markdown_html("It costs $5 and $10. [a](https://example.org)")
    assert "$5 and $10" in html
    assert 'href="https://example.org" target="_blank" rel="noopener noreferrer nofollow"' in html


def test_control_characters_are_pictures_in_every_face():
    seen = transcript("a\x1b[31mred\u202e")
    assert "\x1b" not in segment_html(seen, 0)
    assert segment_text(seen, 0) == "a␛[31mred⟨U+202E⟩"


def test_a_tool_row_is_folded_unless_it_wrote_memory():
    seen = Transcript()
    seen.add(ToolFinished(ToolCall("1", "tide", '{"port": "<b>"}', ToolResult("high"), 0.2)))
    seen.add(ToolFinished(ToolCall("2", "memory", "{}", ToolResult("ok", diff="+- tea\n"), 0.1)))
    html = segment_html(seen, 0)
    assert '<details class="tnx-tool"><summary>⚙ tide: high · 0.2 s' in html
    assert '<details class="tnx-tool" open><summary>⚙ memory: ok · 0.1 s' in html
    assert "&lt;b&gt;" in html


def test_the_status_says_what_is_waited_for():
    seen = Transcript()
    seen.add(TurnStarted(1, 3_100, "SmolLM2"))
    assert "reading the soul (≈ 3 100 tokens) · SmolLM2" in segment_html(seen, 0)
    seen.add(Waiting(4.2, 1, "429: slow down"))
    assert "429: slow down: attempt 2 in 4 s" in segment_html(seen, 0)


def test_notices_stand_where_they_came():
    seen = transcript("before")
    seen.add(Notice("usage is not reported"))
    seen.add(TextDelta("after"))
    seen.end()
    assert segment_text(seen, 0) == "before\nℹ usage is not reported\nafter"


def test_each_ending_is_said_in_words():
    def run(**facts):
        return Run(text="x", model="m", seconds=2.0, soul_digest="ab" * 32, **facts)

    usage = Usage(prompt=1_200, completion=54, cached=200)
    assert ending_words(run(status="done", usage=usage, first_token_seconds=0.3)) == (
        "✓ done · m · 1 200 tokens in (200 cached), 54 out · 2.0 s (first token 0.3 s) · soul abababababab"
    )
    assert ending_words(run(status="error", error="503: busy")).startswith("✕ error: 503: busy · m · tokens not reported")
    assert ending_words(run(status="timeout", error="silent for 5 s")).startswith("⏱ timeout: silent for 5 s")
    assert ending_words(run(status="interrupted")).startswith("■ interrupted: what had arrived is kept")
    assert ending_words(run(status="incomplete", limit="length")).startswith("◐ incomplete: length: the reply was cut")


def test_a_run_has_a_face_of_its_own():
    faces = bundle(Run(text="**hi**", status="done", model="m"))
    assert "<strong>hi</strong>" in faces["text/html"]
    assert faces["text/plain"].splitlines()[0] == "**hi**"
