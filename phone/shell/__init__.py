"""A shell on a phone: what `adb shell` runs, with the commands that automation of real devices uses.

    result = run(phone, "settings put global wifi_on 0 && settings get global wifi_on")
    result.stdout, result.stderr, result.code

    syntax        text -> lists of pipelines of commands
    interpreter   expands words, redirects, and runs the commands of the table
    table         the names of all commands; one module per family holds them

Sh's variables, quotes, pipes, `;`, `&&`, `||`, `( )`, `$( )`, redirections and patterns are there; its loops,
conditions, functions and jobs are not, and say so.
"""

from turncredit.phone.shell.command import InputNeeded
from turncredit.phone.shell.interpreter import Result, Session, run, run_text

__all__ = ["InputNeeded", "Result", "Session", "run", "run_text"]
