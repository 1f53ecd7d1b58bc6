"""The files of an OpenEnv package that serves an environment: what `openenv validate`, `build` and `push` read.

    openenv.yaml               name, entry point, port, and the declarations for validation
    pyproject.toml             requirements and the command `server`
    server/app.py              the application
    Dockerfile                 the image of the server
    wheels/                    the wheel of turncredit, unless another requirement is named (`own_wheel`)
    validation/runtime.json    an episode that validation plays in a container
    README.md                  the page on the Hub

Not included: uv.lock, which `uv lock` writes, and an oracle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from turncredit.agents.errors import EnvFailure
from turncredit.envs import EnvError, make
from turncredit.installation import version

__all__ = ["OpenEnvPackage"]

_PINNED = f"turncredit[openenv]=={version()}"
_EPISODE_ACTIONS = 100
"""The most that OpenEnv reads of an episode."""


@dataclass(frozen=True)
class OpenEnvPackage:
    """An environment to be packaged.

    Attributes:
        env_id: id of the environment.
        arguments: its arguments.
        requirement: what pip installs to get turncredit, with the extra `openenv`; "" for the wheel.
        wheel: name of the wheel in the folder wheels/, which is the turncredit that the package gets.
        rewards: lowest and highest reward of a step.
        sessions: clients that the server takes at once.
    """

    env_id: str
    arguments: Mapping[str, object]
    requirement: str = ""
    wheel: str = ""
    rewards: tuple[float, float] = (0.0, 1.0)
    sessions: int = 64

    @property
    def name(self) -> str:
        """Name of the package: lower case, without namespace and version."""
        stem = re.sub(r"-v\d+$", "", self.env_id.rpartition("/")[2])
        return re.sub(r"\W+", "_", stem).strip("_").lower() or "environment"

    @property
    def split(self) -> str:
        """Name of the split of the tasks."""
        split = self.arguments.get("split")
        return split if isinstance(split, str) else "train"

    def files(self) -> dict[str, str]:
        """Return the text of each file by its path in the package.

        Raises:
            EnvError: the environment cannot be made or played.
            EnvFailure: it lists no tasks, or knows no action to show.
        """
        count, episode = self._episode()
        return {
            "openenv.yaml": self._manifest(count),
            "pyproject.toml": self._project(),
            "__init__.py": f'"""{self.env_id}, served to clients of OpenEnv."""\n',
            "server/__init__.py": '"""The server."""\n',
            "server/app.py": self._application(),
            "Dockerfile": _DOCKERFILE.format(packages=" ".join([*self._own_wheel(), "."])),
            "validation/runtime.json": json.dumps(episode, indent=2) + "\n",
            "README.md": self._readme(count),
        }

    def _episode(self) -> tuple[int, dict[str, object]]:
        """Return the number of tasks, and an episode for validation: the expert's, or one with the first actions."""
        env = make(self.env_id, **self.arguments)
        try:
            if not env.has_wrapper_attr("task_ids"):
                raise EnvFailure(f"{self.env_id} lists no tasks; a package needs `task_ids`")
            tasks: list[str] = env.get_wrapper_attr("task_ids")()
            _, info = env.reset(seed=0, options={"task": tasks[0]})
            actions = self._plan(env) or info.get("admissible_actions")
            if not actions:
                raise EnvFailure(
                    f"{self.env_id} has neither an expert nor admissible actions, of which validation needs one"
                )
        finally:
            env.close()
        reset = {"episode_id": "validation", "seed": 0, "options": {"task": tasks[0]}}
        played = [{"action": action} for action in actions[:_EPISODE_ACTIONS]]
        return len(tasks), {"plan_schema_version": "1", "reset": reset, "actions": played}

    @staticmethod
    def _plan(env: object) -> list[str]:
        has = getattr(env, "has_wrapper_attr", None)
        if has is None or not has("plan"):
            return []
        try:
            plan: list[str] = env.get_wrapper_attr("plan")()  # type: ignore[attr-defined]
        except EnvError:
            return []
        return plan

    def _manifest(self, count: int) -> str:
        low, high = self.rewards
        capabilities = {
            "verifier": {"kind": "reward_channel"},
            "task_api": True,
            "declared_task_count": {self.split: count},
        }
        validation = {
            "reward": {"range": [low, high], "oracle_tolerance": 0.0, "floor_margin": 0.1},
            "resources": {"cpu": 1.0, "memory_mb": 1024, "disk_mb": 4096, "episode_timeout_s": 600.0},
            "network": {"mode": "no-network"},
            "capabilities": capabilities,
            "types": {"tags": ["multi-turn"]},
            "execution": {"kind": "openenv_ws", "probe_path": "validation/runtime.json", "dockerfile": "Dockerfile"},
        }
        head = {
            "spec_version": 1,
            "name": self.name,
            "version": "0.1.0",
            "type": "space",
            "runtime": "fastapi",
            "app": "server.app:app",
            "port": 8000,
        }
        return _yaml({**head, "validation": validation})

    def _project(self) -> str:
        name = self.name
        return (
            '[build-system]\nrequires = ["setuptools>=64"]\nbuild-backend = "setuptools.build_meta"\n\n'
            f'[project]\nname = "openenv-{name.replace("_", "-")}"\nversion = "0.1.0"\n'
            f'description = "{self.env_id}, served to clients of OpenEnv"\nrequires-python = ">=3.11"\n'
            f"dependencies = {json.dumps(['openenv>=0.4.1', self.requirement or _PINNED])}\n\n"
            f'[project.scripts]\nserver = "{name}.server.app:main"\n\n'
            f'[tool.setuptools]\npackages = ["{name}", "{name}.server"]\n'
            f'package-dir = {{ "{name}" = ".", "{name}.server" = "server" }}\n'
        ) + (f'\n[tool.uv.sources]\nturncredit = {{ path = "wheels/{self.wheel}" }}\n' if self.wheel else "")

    def _own_wheel(self) -> list[str]:
        """Return what pip installs beside the package: the wheel, which no index can replace."""
        return [f'"./wheels/{self.wheel}[openenv]"'] if self.wheel else []

    def _application(self) -> str:
        return _APPLICATION.format(
            env_id=self.env_id, arguments=dict(self.arguments), sessions=self.sessions, split=self.split
        )

    def _readme(self, count: int) -> str:
        arguments = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        head = {"title": self.name, "sdk": "docker", "app_port": 8000, "tags": ["openenv"]}
        return (
            f"---\n{_yaml(head)}---\n\n# {self.name}\n\n`{' '.join([self.env_id, arguments]).strip()}` of turncredit: "
            f'{count:,} tasks. `reset` takes `task` (an id) and `seed`; an action is `{{"action": "..."}}`.\n'
        )


_APPLICATION = '''"""The server of {env_id}.

    python -m server.app --port 8000
"""

from __future__ import annotations

import argparse
from functools import partial

from turncredit.agents.frameworks.openenv import create_app
from turncredit.envs import make

app = create_app(partial(make, {env_id!r}, **{arguments!r}), name={env_id!r}, sessions={sessions}, split={split!r})


def main() -> None:
    """Serve until Ctrl-C."""
    import uvicorn

    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    uvicorn.run(app, host=arguments.host, port=arguments.port)


if __name__ == "__main__":
    main()
'''

_DOCKERFILE = """FROM python:3.11-slim
WORKDIR /app/env
COPY . /app/env
RUN pip install --no-cache-dir {packages}
EXPOSE 8000
CMD ["uvicorn", "server.app:app", "--host", "0.0.0.0", "--port", "8000"]
"""


def _yaml(table: Mapping[str, object], indent: str = "") -> str:
    """Return a table as YAML: tables as blocks, other values as JSON, which is YAML."""
    lines = []
    for name, value in table.items():
        nested = f"\n{_yaml(value, indent + '  ')}" if isinstance(value, Mapping) and value else ""
        lines.append(f"{indent}{name}:{nested}" if nested else f"{indent}{name}: {json.dumps(value)}\n")
    return "".join(lines)
