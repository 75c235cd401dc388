"""A Python function turned into a Tool: the schema from its signature, the words from its docstring.

Border: none. Annotations that have no JSON type are passed over, never guessed.
"""

from __future__ import annotations

import collections.abc
import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Union

from .conversation import Tool, ToolCall, ToolResult

_JSON_TYPES: Final[dict[Any, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_ARRAYS: Final = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable)
_OBJECTS: Final = (dict, collections.abc.Mapping)
#: What both dialects accept as the name of a tool.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def as_tool(function: Callable[..., Any] | Tool) -> Tool:
    """Return a Tool that calls `function` with the model's arguments by name.

    The description is the docstring up to its parameter section, parameter descriptions
    come from Google, NumPy or Sphinx style. A Tool is returned as it is. Raises ValueError
    for a function whose name or signature no model could call.
    """
    if isinstance(function, Tool):
        return function
    name = getattr(function, "__name__", type(function).__name__)
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name} cannot be a tool: its name must be 1 to 64 letters, digits, _ or -: define it with def")
    doc = inspect.getdoc(function) or ""
    return Tool(name, _description(doc) or f"Calls {name}.", _schema(function, name, doc), lambda arguments: _call(function, arguments))


def _call(function: Callable[..., Any], arguments: dict[str, Any]) -> ToolResult:
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        return ToolResult(f"wrong arguments: {error}", is_error=True)
    value = function(**arguments)
    return value if isinstance(value, ToolResult) else ToolResult(value if isinstance(value, str) else repr(value))


def run_tool(tools: Mapping[str, Tool], call: ToolCall) -> ToolResult:
    """Run one call. A tool's failure is an answer for the model, never an exception."""
    tool = tools.get(call.name)
    if tool is None:
        return ToolResult(f"unknown tool: {call.name}: there is {', '.join(tools) or 'none'}", is_error=True)
    if call.problem:
        return ToolResult(call.problem, is_error=True)
    try:
        result = tool.call(call.arguments)
    except (Exception, SystemExit) as error:  # whatever a user's function raises is the model's to read
        return ToolResult(f"{type(error).__name__}: {error}", is_error=True)
    return result if isinstance(result, ToolResult) else ToolResult(str(result))


def _schema(function: Callable[..., Any], name: str, doc: str) -> dict[str, Any]:
    hints = _hints(function)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ValueError(f"{name} cannot be a tool: {parameter.name} is positional-only: let it be passed by name")
        described = _parameter_description(doc, parameter.name)
        properties[parameter.name] = json_type(hints.get(parameter.name, Any)) | ({"description": described} if described else {})
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return {"type": "object", "properties": properties, "required": required}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:  # a forward reference to a name that is not there: the tool still works, untyped
        return {}


def json_type(hint: Any) -> dict[str, Any]:
    """Return the JSON Schema of a Python annotation, {} (anything) where there is none."""
    if hint in _JSON_TYPES:
        return {"type": _JSON_TYPES[hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return json_type(arguments[0])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return _union([json_type(argument) for argument in arguments if argument is not type(None)])
    if (origin or hint) in _ARRAYS:
        return {"type": "array"} | ({"items": items} if arguments and (items := json_type(arguments[0])) else {})
    if (origin or hint) in _OBJECTS:
        return {"type": "object"}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    return {}


def _union(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    return schemas[0] if len(schemas) == 1 else ({"anyOf": schemas} if all(schemas) else {})


def _description(doc: str) -> str:
    """Return the docstring up to its first section."""
    return re.split(r"^(?:Args:|Arguments:|Parameters\s*$|Returns?:?\s*$|Raises:|:param )", doc, maxsplit=1, flags=re.MULTILINE)[0].strip()


def _parameter_description(doc: str, name: str) -> str:
    """Return what the docstring says of one parameter, in any of the three usual styles."""
    word = re.escape(name)
    styles = (
        rf"^:param (?:\w+ )?{word}:[ \t]*(.+)$",
        rf"^[ \t]+{word}[ \t]*(?:\([^)]*\))?:[ \t]*(.+)$",
        rf"^{word}[ \t]*:[^\n]*\n[ \t]+(.+)$",
    )
    for style in styles:
        if match := re.search(style, doc, re.MULTILINE):
            return match.group(1).strip()
    return ""
