"""Functions as tools: a Python function with type hints and a docstring becomes a tool that an agent can call.

toolbox = Toolbox([find, change])
parsed = call_format("tags").parse("<find>Ada</find>", list(toolbox))
results = [toolbox.call(call) for call in parsed.calls]
"""

from turncredit.tools.functions.calls import PROBLEMS, Call, ParsedCalls, Problem, ToolResult
from turncredit.tools.functions.errors import (
    BadArguments,
    BadCall,
    BadTool,
    ServerFailed,
    ToolError,
    UnknownFormat,
)
from turncredit.tools.functions.formats import CALL_FORMATS, CallFormat, call_format
from turncredit.tools.functions.mcp_client import McpServer
from turncredit.tools.functions.mcp_servers import McpServers
from turncredit.tools.functions.render import truncate
from turncredit.tools.functions.tool import BUDGET, SECONDS, Tool
from turncredit.tools.functions.toolbox import Toolbox

__all__ = [
    "BUDGET",
    "CALL_FORMATS",
    "PROBLEMS",
    "SECONDS",
    "BadArguments",
    "BadCall",
    "BadTool",
    "Call",
    "CallFormat",
    "McpServer",
    "McpServers",
    "ParsedCalls",
    "Problem",
    "ServerFailed",
    "Tool",
    "ToolError",
    "ToolResult",
    "Toolbox",
    "UnknownFormat",
    "call_format",
    "truncate",
]
