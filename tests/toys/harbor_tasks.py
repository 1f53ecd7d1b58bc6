"""Harbor task folders for tests, with the parts that a test changes."""

from pathlib import Path

TOML = """schema_version = "1.1"
[task]
name = "tests/{name}"
[metadata]
category = "{category}"
[agent]
timeout_sec = {agent}
[verifier]
timeout_sec = {verifier}
[environment]
{environment}
"""
DOCKERFILE = "FROM ubuntu:24.04\nWORKDIR /app\nCOPY files/ ./\nENV COLOUR=red\n"
TEST = """#!/bin/sh
# Graded: a third for the file, the rest for what it says.
if [ ! -f /app/count.txt ]; then echo 0; elif [ "$(cat /app/count.txt)" = 2 ]; then echo 1; else echo 0.25; fi \\
  > /logs/verifier/reward.txt
[ -f /logs/verifier/reward.txt ] || echo 0 > /logs/verifier/reward.txt
"""
SOLVE = '#!/bin/sh\nset -e\ngrep -c "$COLOUR" notes.txt > count.txt\n'


def harbor_task(
    folder: Path,
    *,
    name: str = "",
    dockerfile: str = DOCKERFILE,
    test: str = TEST,
    solution: dict[str, str] | None = None,
    agent: float = 60.0,
    verifier: float = 60.0,
    environment: str = "",
    category: str = "files",
    instruction: str = "Write the number of lines of /app/notes.txt that contain red into /app/count.txt.\n",
) -> Path:
    """Write a task folder; return its path."""
    files = {
        "task.toml": TOML.format(
            name=name or folder.name, category=category, agent=agent, verifier=verifier, environment=environment
        ),
        "instruction.md": instruction,
        "environment/Dockerfile": dockerfile,
        "environment/files/notes.txt": "red\nblue\nred fox\n",
        "tests/test.sh": test,
        **{f"solution/{path}": text for path, text in ({"solve.sh": SOLVE} if solution is None else solution).items()},
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
