"""An MCP server of the standard library alone, over stdio, that does what a test asks for: python FILE TOOLS_AS_JSON.

`tools` are entries of tools/list. A call of `echo` answers with a variable of the environment, `data` with structured
content alone, `parts` with a link, a part of an unknown kind and half a surrogate pair, `flood` with a line without an
end, `noise` fills the standard error before it answers.
"""

import json
import os
import sys
from typing import Any


def result(request: dict[str, Any]) -> dict[str, Any]:
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if request["method"] == "tools/list":
        return {"tools": json.loads(sys.argv[1])}
    name, arguments = request["params"]["name"], request["params"].get("arguments") or {}
    if name == "flood":
        while True:
            sys.stdout.write("x" * (1 << 20))
    if name == "noise":
        sys.stderr.write("y" * (8 << 20) + "\n")
    if name == "data":
        return {"content": [], "structuredContent": {"free": [1, 2], "town": "Zürich"}}
    if name == "parts":
        link = {"type": "resource_link", "uri": "file:///notes.md", "name": "notes", "description": "of today"}
        return {"content": [link, {"type": "video", "url": "x"}, {"type": "text", "text": "a \ud83d b"}]}
    if name == "echo":
        return {"content": [{"type": "text", "text": f"KEY is {os.environ.get('TOY_API_KEY')}"}]}
    return {"content": [{"type": "text", "text": json.dumps(arguments)}]}


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received:
        print(json.dumps({"jsonrpc": "2.0", "id": received["id"], "result": result(received)}), flush=True)
