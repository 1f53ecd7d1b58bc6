"""Code tasks as Harbor task folders: the files, calls and programs as tests, and the solution as the oracle.

Not included: tests that are scripts (HumanEval's `check`, pytest files), which need the two sandboxes of `CodeGrader`.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from importlib.resources import files as resources

from turncredit.envs.bash.filetree import file, with_folders
from turncredit.envs.bash.harbor.writer import WORKDIR, HarborFolder
from turncredit.envs.code.task import BadTask, CallTest, CodeTask, CodeTest, ScriptTest

__all__ = ["code_folder"]

_SECONDS = 2.0  # of a call or a program, as in the environment
_MARK = "END_OF_FILE"


def code_folder(task: CodeTask, env_id: str) -> HarborFolder:
    """Return the folder of a code task.

    Raises:
        BadTask: it has a test that is a script, or no known solution.
    """
    if not task.solution:
        raise BadTask(f"task {task.id!r} has no known solution, which the oracle would write")
    about = {"main": task.main, "seconds": _SECONDS, "tests": [_test(task, test) for test in task.hidden]}
    judge = resources("turncredit.envs.code").joinpath("harbor_judge.py").read_bytes()
    limit = sum(_SECONDS + 3 for _ in task.hidden)
    return HarborFolder(
        id=task.id,
        env_id=env_id,
        category=task.kind or "code",
        instruction=_instruction(task),
        tree=with_folders({path: file(text) for path, text in task.files.items()}),
        tests={"harbor_judge.py": judge, "task.json": json.dumps(about, indent=1).encode()},
        test=f"python3 /tests/harbor_judge.py {WORKDIR}",
        solve="\n".join([f"cd {WORKDIR}", *(_written(path, text) for path, text in task.solution.items())]),
        verifier_seconds=60.0 + limit,
    )


def _test(task: CodeTask, test: CodeTest) -> dict[str, str]:
    if isinstance(test, ScriptTest):
        raise BadTask(
            f"task {task.id!r} has a test that is a script, and only calls and programs are written for Harbor"
        )
    return {"kind": "call" if isinstance(test, CallTest) else "program", **asdict(test)}


def _instruction(task: CodeTask) -> str:
    lines = [task.statement, "", f"The program is {WORKDIR}/{task.main}."]
    for test in task.visible:
        if isinstance(test, CallTest):
            lines.append(f"- {test.text} == {test.returns}")
        elif not isinstance(test, ScriptTest):
            lines.append(f"- with the input {test.stdin!r} it writes {test.stdout!r}")
    return "\n".join([*lines[:3], *(["", "Tests:", *lines[3:]] if lines[3:] else [])])


def _written(path: str, text: str) -> str:
    """Return a command that writes a file; base64 where a text could end its own quotation."""
    folder = path.rpartition("/")[0]
    begin = f"mkdir -p {shlex.quote(folder)}\n" if folder else ""
    if text.endswith("\n") and _MARK not in text:
        return f"{begin}cat > {shlex.quote(path)} <<'{_MARK}'\n{text}{_MARK}"
    return f"{begin}printf %s {shlex.quote(text)} > {shlex.quote(path)}"
