"""Tools from JSON schemas, and the servers of an mcpServers file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs.toolenv import ToolEnv
from turncredit.tools.functions import BadTool, Call, McpServers, ServerFailed, Tool, Toolbox

TOY = str(Path(__file__).resolve().parent.parent / "toys" / "mcp_server.py")
ORDER = {
    "type": "object",
    "properties": {
        "seats": {"type": "integer"},
        "kind": {"enum": ["window", "aisle"]},
        "notes": {"type": ["string", "null"]},
        "who": {"type": "array", "items": {"type": "object", "properties": {"age": {"type": "number"}}}},
    },
    "required": ["seats"],
    "additionalProperties": False,
}


def book(**arguments):
    return arguments


@pytest.mark.parametrize(
    "schema",
    [
        {"name": "book", "description": "Book seats.", "parameters": ORDER},
        {"name": "book", "description": "Book seats.", "input_schema": ORDER},
        {"name": "book", "description": "Book seats.", "inputSchema": ORDER},
        {"type": "function", "function": {"name": "book", "description": "Book seats.", "parameters": ORDER}},
    ],
)
def test_a_tool_is_a_schema_and_a_function(schema: dict[str, object]) -> None:
    tool = Tool.from_schema(schema, book)
    assert (tool.name, tool.description, tool.parameters["required"]) == ("book", "Book seats.", ["seats"])
    arguments = {"seats": 2.0, "kind": "aisle", "notes": None, "who": [{"age": 3.5}]}
    assert json.loads(tool.call(Call("book", arguments)).text) == {**arguments, "seats": 2}
    assert tool.schema["function"]["parameters"] == ORDER


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "'seats' is missing"),
        ({"seats": 1, "colour": 2}, "unknown argument 'colour'"),
        ({"seats": "two"}, "'seats' should be integer, got 'two'"),
        ({"seats": True}, "'seats' should be integer, got True"),
        ({"seats": 1.5}, "'seats' should be integer, got 1.5"),
        ({"seats": 1, "kind": "roof"}, "'kind' should be one of 'window', 'aisle', got 'roof'"),
        ({"seats": 1, "notes": 4}, "'notes' should be string or null, got 4"),
        ({"seats": 1, "who": [{"age": "old"}]}, "'who.0.age' should be number, got 'old'"),
    ],
)
def test_arguments_that_the_schema_refuses_are_told(arguments: dict[str, object], sentence: str) -> None:
    result = Tool.from_schema({"name": "book", "parameters": ORDER}, book).call(Call("book", arguments))
    assert result.refused
    assert sentence in result.text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_any_json_is_answered(value: object) -> None:
    arguments = value if isinstance(value, dict) else {"seats": value, "who": value}
    result = Tool.from_schema({"name": "book", "parameters": ORDER}, book, seconds=None).call(Call("book", arguments))
    assert result.refused or result.ok


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({}, "needs a name"),
        ({"name": "a b"}, "1 to 64 letters"),
        ({"name": "book", "parameters": {"type": "array"}}, "of the type object"),
        ({"name": "book", "parameters": [1]}, "of the type object"),
    ],
)
def test_schemas_that_are_none_are_refused(schema: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadTool, match=sentence):
        Tool.from_schema(schema, book)


@pytest.mark.waits
def test_all_servers_of_a_desktop_file_are_tools_of_an_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    monkeypatch.setenv("TOY_SERVER", TOY)
    config = tmp_path / "claude_desktop_config.json"
    entry = {"command": sys.executable, "args": ["${TOY_SERVER}"], "env": {"MARK": "${UNSET_MARK:-plain}"}}
    servers = {"first": entry, "my second": entry, "off": {"command": "no-such-program", "disabled": True}}
    config.write_text(json.dumps({"globalShortcut": "", "mcpServers": servers}))
    with McpServers(config, seconds=120, start_seconds=120) as tools:
        names = Toolbox(tools).names
        assert names[:2] == ["first_add", "first_people_find"]
        assert names[len(names) // 2] == "my_second_add"
        env = ToolEnv("Add 2 and 3.", start=str, tools=tools, check=lambda world, answer: answer == "5")
        env.reset()
        assert env.step("<my_second_add><first>2</first><second>3</second></my_second_add>")[0] == "5"
        assert env.step("<answer>5</answer>")[1] == 1.0
    with McpServers({"servers": {"first": entry, "other": entry}}, only=["other"], start_seconds=120) as tools:
        assert Toolbox(tools).names[0] == "add"


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({}, "no table mcpServers"),
        ({"mcpServers": {}}, "no table mcpServers"),
        ({"mcpServers": {"a": 3}}, "'a' in this mcpServers table must be a table"),
        ({"mcpServers": {"a": {"command": "x", "disabled": True}}}, "are disabled"),
        ({"mcpServers": {"a": {"command": "no-such-program-here"}}}, "the server 'a': the MCP server"),
        ({"mcpServers": {"a": {"command": "x", "env": {"K": "${NO_SUCH_VARIABLE}"}}}}, "NO_SUCH_VARIABLE.*is not set"),
        ({"servers": {"a": {"command": "x", "args": ["${input:key}"]}}}, "asks people for 'key'"),
    ],
)
def test_files_that_cannot_be_used_say_why(config: dict[str, object], sentence: str) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    with pytest.raises(ServerFailed, match=sentence):
        McpServers(config)


def test_a_file_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="cannot be read"):
        McpServers(tmp_path / "none.json")
    (tmp_path / "half.json").write_text('{"mcpServers": {')
    with pytest.raises(ServerFailed, match=r"half\.json"):
        McpServers(tmp_path / "half.json")
    with pytest.raises(ServerFailed, match="unknown server 'b'"):
        McpServers({"mcpServers": {"a": {"command": "x"}}}, only=["b"])
