"""Parsers for the action formats of models that act on screens.

    ui_tars        Thought: ... Action: click(start_box='(512,305)')
    qwen           <tool_call>{"name": "mobile_use", "arguments": {"action": "click", ...}}</tool_call>
    android_world  Reason: ... Action: {"action_type": "click", "index": 5}

Each of them reads an answer into an action of the phone (`turncredit.envs.android.actions`) or of the browser
(`turncredit.tools.browser`), whose points stay on the model's scale: the environment knows the screen. Each writes the
environment's actions in its format, so that experts can be imitated in it. `turncredit.envs.action_formats` has the
prompts. A new format is one module here, its prompt there, and a line in `turncredit.agents.prompts.parsing`.
"""
