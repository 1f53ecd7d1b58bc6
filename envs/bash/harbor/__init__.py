"""Task folders in the format of the Harbor framework and of Terminal-Bench 2: read, prepared, played and graded.

A task folder has task.toml, instruction.md, environment/ with a Dockerfile, tests/test.sh and, for the oracle,
solution/solve.sh. Not included: tasks with several steps or services, and verifiers in an environment of their own.
"""

from turncredit.envs.bash.harbor.source import HarborTasks
from turncredit.envs.bash.harbor.task import HarborTask
from turncredit.envs.bash.harbor.verifier import HarborGrade, verify

__all__ = ["HarborGrade", "HarborTask", "HarborTasks", "verify"]
