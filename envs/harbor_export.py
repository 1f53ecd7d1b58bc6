"""Writes tasks of the shell and code environments as Harbor task folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from turncredit.envs.bash import BashEnv, BashTask
from turncredit.envs.bash.harbor.writer import IMAGE, HarborFolder, bash_folder, write_folder
from turncredit.envs.code import CodeEnv
from turncredit.envs.code.harbor_folders import code_folder
from turncredit.envs.errors import UnknownOption
from turncredit.envs.registration import make

__all__ = ["write_tasks"]


def write_tasks(
    env_id: str, arguments: Mapping[str, object], target: Path, count: int, image: str = IMAGE
) -> list[Path]:
    """Write the first tasks of an environment as Harbor task folders; return their paths.

    Args:
        env_id: turncredit/Bash-v0 or turncredit/Code-v0.
        arguments: arguments of the environment.
        target: folder to write them into; folders of tasks in it must not exist.
        count: number of tasks.
        image: what the Dockerfiles begin with.

    Raises:
        EnvError: the environment is another one, or has a task that cannot be written.
        OSError: a file cannot be written.
    """
    env = make(env_id, **arguments)
    try:
        folders = _folders(env.unwrapped, env_id, count)
    finally:
        env.close()
    if present := next((folder.name for folder in folders if (target / folder.name).exists()), ""):
        raise UnknownOption(f"{target / present} exists already; name another folder")
    return [write_folder(folder, target, image) for folder in folders]


def _folders(env: object, env_id: str, count: int) -> list[HarborFolder]:
    if isinstance(env, CodeEnv):
        return [code_folder(env.source.get(id), env_id) for id in env.task_ids(count)]
    if not isinstance(env, BashEnv):
        raise UnknownOption(
            f"only tasks of turncredit/Bash-v0 and turncredit/Code-v0 can be written, not those of {env_id}"
        )
    tasks = [env.source.get(id) for id in env.task_ids(count)]
    if written := next((task for task in tasks if not isinstance(task, BashTask)), None):
        raise UnknownOption(f"task {written.id!r} is a Harbor folder already")
    return [bash_folder(task, env_id) for task in tasks if isinstance(task, BashTask)]
