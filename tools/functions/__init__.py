"""Functions as tools: a Python function with type hints and a docstring becomes something that an agent can call.

box = Toolbox([find, change])
reading = form("tags").read("<find>Ada</find>", list(box))
answers = [box.call(call) for call in reading.calls]
"""

from turnwise.tools.functions.calls import PROBLEMS, Answer, Call, Problem, Reading
from turnwise.tools.functions.errors import (
    BadArguments,
    BadCall,
    BadTool,
    ServerFailed,
    ToolError,
    UnknownForm,
)
from turnwise.tools.functions.forms import FORMS, Form, form
from turnwise.tools.functions.mcp_client import McpServer
from turnwise.tools.functions.render import cut
from turnwise.tools.functions.tool import BUDGET, SECONDS, Tool
from turnwise.tools.functions.toolbox import Toolbox

__all__ = [
    "BUDGET",
    "FORMS",
    "PROBLEMS",
    "SECONDS",
    "Answer",
    "BadArguments",
    "BadCall",
    "BadTool",
    "Call",
    "Form",
    "McpServer",
    "Problem",
    "Reading",
    "ServerFailed",
    "Tool",
    "ToolError",
    "Toolbox",
    "UnknownForm",
    "cut",
    "form",
]
