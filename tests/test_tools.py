"""A Python function as a tool: schema from the signature, words from the docstring, errors as answers."""

from enum import Enum
from typing import Annotated, Literal, Optional

import pytest

from toolnexus_nb.conversation import ToolResult
from toolnexus_nb.tools import as_tool, json_type


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def tide(port: str, days: int = 1, exact: bool = False) -> str:
    """Look up the tides of a port.

    Args:
        port: the harbour's name
        days (int): how many days ahead
    """
    return f"{port} {days} {exact}"


def test_the_schema_follows_the_signature_and_the_docstring():
    tool = as_tool(tide)
    assert (tool.name, tool.description) == ("tide", "Look up the tides of a port.")
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "port": {"type": "string", "description": "the harbour's name"},
            "days": {"type": "integer", "description": "how many days ahead"},
            "exact": {"type": "boolean"},
        },
        "required": ["port"],
    }


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (float, {"type": "number"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (list, {"type": "array"}),
        (dict[str, int], {"type": "object"}),
        (Optional[int], {"type": "integer"}),  # noqa: UP045  both spellings are in use
        (int | None, {"type": "integer"}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (Colour, {"enum": ["red", "blue"]}),
        (Annotated[int, "metres"], {"type": "integer"}),
        (object, {}),
    ],
)
def test_annotations_become_json_schema(hint, schema):
    assert json_type(hint) == schema


def test_a_call_passes_arguments_by_name_and_returns_text():
    assert as_tool(tide).call({"port": "Gull Point", "days": 2}) == ToolResult("Gull Point 2 False")


def test_what_is_not_text_is_shown_by_its_repr():
    def count() -> dict:
        return {"a": 1}

    assert as_tool(count).call({}) == ToolResult("{'a': 1}")


@pytest.mark.parametrize("arguments", [{}, {"port": "x", "knots": 3}])
def test_wrong_arguments_are_an_answer_for_the_model(arguments):
    result = as_tool(tide).call(arguments)
    assert result.is_error
    assert result.text.startswith("wrong arguments: ")


def test_numpy_and_sphinx_docstrings_are_read_too():
    def numpy_style(speed):
        """Sail.

        Parameters
        ----------
        speed : float
            in knots
        """

    def sphinx_style(speed):
        """Sail.

        :param speed: in knots
        """

    for function in (numpy_style, sphinx_style):
        tool = as_tool(function)
        assert (tool.description, tool.parameters["properties"]) == ("Sail.", {"speed": {"description": "in knots"}})


def test_a_positional_only_parameter_cannot_be_a_tool():
    def fixed(port, /):
        return port

    with pytest.raises(ValueError, match="positional-only"):
        as_tool(fixed)


def test_a_lambda_has_no_name_a_model_could_call():
    with pytest.raises(ValueError, match="its name must be"):
        as_tool(lambda: 1)
