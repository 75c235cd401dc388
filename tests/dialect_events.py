"""Short ways to feed a dialect and to look at what it said; shared by the tests of both dialects."""

import json
from pathlib import Path

import httpx
from httpx_sse import EventSource

from toolnexus_nb.conversation import Message, Reply, Tool, ToolCall
from toolnexus_nb.providers import provider

DATA = Path(__file__).parent / "data"

#: The replies that the recorded examples under tests/data tell, each in both dialects.
TEXT = Message("assistant", "High water at six, Ünal.")
CALLS = Message(
    "assistant",
    "I look it up.",
    (ToolCall("call_tide", "tide", '{"port": "Brest"}'), ToolCall("call_wind", "wind", '{"port": "Brest", "hours": 3}')),
)
TOOL = Tool("tide", "says the tide", {"type": "object", "properties": {}}, lambda arguments: "high")


def pairs(wire):
    """Decode an event stream into (event name, data) pairs."""
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=wire)
    return [(sse.event, sse.data) for sse in EventSource(response).iter_sse()]


def recorded(name):
    """Return the events of a file: a stream, or a plain JSON answer."""
    style, wire = name.split("_")[0], (DATA / name).read_bytes()
    if name.endswith(".json"):
        return list(provider(style).whole(json.loads(wire)))
    return list(provider(style).events(pairs(wire)))


def data(*values, name="message"):
    """Return each value as the pair of one event; a str is sent as it is."""
    return [(name, value if isinstance(value, str) else json.dumps(value)) for value in values]


def fold(events):
    reply = Reply()
    for event in events:
        reply.add(event)
    return reply


def message_of(events):
    return fold(events).message()
