"""Containers that are started in advance: each is used once, by the process that started it."""

import os
from collections.abc import Iterator

import pytest
from toys.sandboxes import LIMITS, needed
from toys.waiting import eventually

from turncredit.tools.sandbox import Limits, containers

pytestmark = pytest.mark.waits

WARM = LIMITS.but(wall=90)


@pytest.fixture
def docker() -> Iterator[containers.DockerBackend]:
    needed("docker")
    made = containers.DockerBackend()
    yield made
    made.pool.close()


def running(docker: containers.DockerBackend, box: containers.DockerBox) -> bool:
    return box.id in {one["Id"] for one in docker.client.api.containers(all=True)}


def test_each_container_is_used_once(docker: containers.DockerBackend) -> None:
    seen = set()
    for number in range(4):
        with docker.start(WARM, warm=1) as box:
            assert box.run(["sh", "-c", "ls -A /work /tmp /dev/shm | grep -v :"]).stdout.split() == []
            box.run(["sh", "-c", f"echo {number} | tee /work/a /tmp/a /dev/shm/a"])
            seen.add(box.id)
        docker.pool.wait()
        (ready,) = docker.pool._ready[WARM]  # the control: there is one to take
        assert ready.id not in seen
    assert len(seen) == 4


def test_without_the_option_none_is_started(docker: containers.DockerBackend) -> None:
    docker.start(WARM).close()
    docker.pool.wait()
    assert docker.pool._ready == {}


def test_a_container_that_has_died_is_not_given_out(docker: containers.DockerBackend) -> None:
    docker.start(WARM, warm=2).close()
    docker.pool.wait()
    one, two = docker.pool._ready[WARM]
    docker.client.api.remove_container(two.id, force=True)
    with docker.start(WARM) as box:
        assert box.id == one.id
        assert box.run(["echo", "on"]).stdout == "on\n"


def test_few_sets_of_limits_have_containers(docker: containers.DockerBackend) -> None:
    sets = [Limits(wall=100 + number, disk=1 << 20) for number in range(6)]
    for limits in sets:
        docker.start(limits, warm=1).close()
    docker.pool.wait()
    assert eventually(lambda: set(docker.pool._ready) <= set(sets[-4:]))
    kept = [box for ready in docker.pool._ready.values() for box in ready]
    assert len(kept) == 4
    docker.pool.close()
    assert eventually(lambda: not any(running(docker, box) for box in kept))


def test_after_a_fork_the_containers_are_the_parents(docker: containers.DockerBackend) -> None:
    docker.start(WARM, warm=1).close()
    docker.pool.wait()
    (ready,) = docker.pool._ready[WARM]
    child = os.fork()
    if child == 0:
        taken = docker.pool.take(WARM)
        docker.pool.close()
        os._exit(0 if taken is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ready.alive()
    with docker.start(WARM) as box:
        assert box.id == ready.id
