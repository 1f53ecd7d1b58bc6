"""The environments that a run plays in, with the tasks that are played there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import gymnasium

from turncredit.agents.content import has_images
from turncredit.agents.rollouts.env_actors import EnvActors
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.env_processes import EnvProcesses
from turncredit.agents.rollouts.shared_hosts import SharedHosts
from turncredit.curriculum.task_order import TaskSampler
from turncredit.envs import parts_of
from turncredit.evaluation.panels import draw_tasks
from turncredit.training.config.cluster import cluster_settings
from turncredit.training.config.sections import ClusterSection, EnvSection
from turncredit.training.errors import TrainingError

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]
"""Makes an environment."""


@dataclass(frozen=True, slots=True)
class Environments:
    """Environments of one kind, for training, demonstrations or an evaluation.

    Attributes:
        make: makes one.
        tasks: ids of the tasks.
        deadline: time limit of a step, in seconds; None: no limit.
        deterministic: take the answers of other processes in the order of the calls.
        hosts: processes in which they live, shared by all pools that are in use at a time; None: this process.
        weights: how often the parts of a mixture are played, by their names; empty for one environment.
        image_size: width and height of its images; None: it has none.
    """

    make: MakeEnv
    tasks: tuple[str, ...]
    deadline: float | None = None
    deterministic: bool = False
    hosts: SharedHosts | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    image_size: tuple[int, int] | None = None

    def stream(self, seed: int) -> TaskSampler:
        """Return the order of their tasks for a seed."""
        return TaskSampler(self.tasks, seed, self.weights)

    def pool(self) -> EnvPool:
        """Return a pool of them in the processes where they live."""
        hosts = None if self.hosts is None else self.hosts.borrow()
        return EnvPool(self.make, self.deadline, hosts=hosts, deterministic=self.deterministic)

    def local_pool(self) -> EnvPool:
        """Return a pool of them in this process, for a look at a few."""
        return EnvPool(self.make, self.deadline)


def shared_hosts(
    section: EnvSection, cluster: ClusterSection, options: Mapping[str, object], device: str
) -> SharedHosts | None:
    """Return the processes in which environments live; None: this process.

    Args:
        section: the `[env]` section.
        cluster: the `[cluster]` section; with an address, the processes are there.
        options: options of the sampler, which say how many GPUs of the cluster an engine takes.
        device: device of the learner, as torch names it.
    """
    return SharedHosts(partial(_start_hosts, section, cluster, options, device)) if section.workers.count else None


def _start_hosts(
    section: EnvSection, cluster: ClusterSection, options: Mapping[str, object], device: str
) -> EnvProcesses:
    threads, memory_gib = section.deadline > 0, section.workers.memory_gib
    if not cluster.address:
        return EnvProcesses(section.workers.count, threads=threads, memory_gib=memory_gib)
    import torch

    settings = cluster_settings(cluster, options, device, torch.cuda.device_count())
    return EnvActors(section.workers.count, settings, threads=threads, memory_gib=memory_gib)


def list_tasks(make: MakeEnv, count: int | None, seed: int, *, sees: bool = False) -> tuple[str, ...]:
    """Return the ids of an environment's tasks in its own order: a sample of `count`, or all that it lists.

    Args:
        make: makes the environment.
        count: number of tasks; None: all.
        seed: of the sample.
        sees: whether the policy may be able to read images.

    Raises:
        TrainingError: the environment does not list its tasks, or it returns images, which the policy cannot read.
    """
    env = make()
    try:
        if has_images(env.observation_space) and not sees:
            name = env.spec.id if env.spec else env
            raise TrainingError(
                f"{name} returns images, and the new policy reads text only: give it an image encoder with "
                "policy.new.vision, or set screenshot=false"
            )
        listing = getattr(env.unwrapped, "task_ids", None)
        if listing is None:
            raise TrainingError(f"training needs task_ids(), which {env.spec.id if env.spec else env} does not have")
        return tuple(listing()) if count is None else draw_tasks(env, count, seed)
    finally:
        env.close()


def image_size(make: MakeEnv) -> tuple[int, int] | None:
    """Return width and height of an environment's images; None: it has none."""
    env = make()
    try:
        if not has_images(env.observation_space):
            return None
        height, width, _ = cast("gymnasium.spaces.Dict", env.observation_space)["image"].shape or (0, 0, 0)
        return width, height
    finally:
        env.close()


def weights_of(id: str, kwargs: Mapping[str, object]) -> dict[str, float]:
    """Return how often the parts of a mixture are played, by their names; {} for one environment.

    Args:
        id: of the environment.
        kwargs: its arguments.

    Raises:
        EnvError: a part does not exist.
    """
    return {part.name: part.weight for part in parts_of(id, **kwargs)}
