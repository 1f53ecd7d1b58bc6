"""Several Ray nodes on this machine: nodes that join late or leave, other versions, and what `doctor` shows."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from toys.waiting import eventually

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster as Nodes  # noqa: E402

from turncredit.agents.errors import SamplerError  # noqa: E402
from turncredit.agents.prompts.prompt import View  # noqa: E402
from turncredit.cli import doctor  # noqa: E402
from turncredit.engines.base import Completion, Request, SamplerSettings  # noqa: E402
from turncredit.engines.cluster import connection, head  # noqa: E402
from turncredit.engines.cluster.checks import check_address  # noqa: E402
from turncredit.engines.cluster.connection import Cluster, ClusterSettings  # noqa: E402
from turncredit.engines.cluster.sampler import ClusterSampler  # noqa: E402

pytestmark = pytest.mark.waits

NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
TOY = "toys.cluster_engine:Engine"


@pytest.fixture(autouse=True)
def _patient_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process that joins the cluster import Ray on a busy machine."""
    monkeypatch.setattr(doctor, "LIMIT", 300.0)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with connection.patient_start():  # also for the nodes that tests add
        started = Nodes(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        yield started
    ray.shutdown()
    started.shutdown()


def ask(sampler: ClusterSampler, count: int) -> list[Completion]:
    view = View("look", "look", ("go east",), 0)
    asked = [Request(f"task#{number}@0", 0, (), (), number, view) for number in range(count)]

    async def together() -> list[Completion]:
        return await asyncio.gather(*map(sampler.sample, asked))

    return asyncio.run(together())


@pytest.mark.slow
def test_engines_use_nodes_that_join_late_and_outlive_nodes_that_leave(nodes: Nodes) -> None:
    settings = ClusterSettings(address=nodes.address, engines=2, wait=100.0)
    with pytest.raises(SamplerError, match=r"no room for 2 engines .* within 0\.5 s: its 1 node has 1 CPU and 0 GPUs"):
        ClusterSampler(TOY, SamplerSettings(), dataclasses.replace(settings, wait=0.5))
    joined = Cluster(settings)
    with ThreadPoolExecutor(1) as threads:
        opening = threads.submit(ClusterSampler, TOY, SamplerSettings(options={"seconds": 0.2}), settings)
        assert eventually(lambda: any(one.name == "turncredit-cluster" for one in threading.enumerate()))
        added = nodes.add_node(**NODE)
        sampler = opening.result()
    try:
        assert len(joined.nodes) == 2
        first = ask(sampler, 4)
        assert len({one.extras["pid"] for one in first}) == 2  # one engine on each node
        nodes.remove_node(added, allow_graceful=False)

        def left() -> bool:  # an engine may outlive its node for a moment
            assert [one.text for one in ask(sampler, 4)] == [one.text for one in first]
            return sampler.metrics()["engines"] == 1

        assert eventually(left)
        nodes.add_node(**NODE)
        assert eventually(lambda: sampler.metrics()["engines"] == 2, 100.0)
        assert [one.text for one in ask(sampler, 4)] == [one.text for one in first]
        assert sampler.metrics()["engines_lost"] == 1
    finally:
        sampler.close()
        joined.close()


@pytest.mark.slow
def test_a_cluster_is_shown_and_one_with_other_versions_is_refused(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)
    (found,) = doctor.cluster()
    assert found.available
    assert f"Ray {ray.__version__}, 1 node: " in found.detail
    assert "(1 CPUs, 0 GPUs)" in found.detail
    assert not ray.is_initialized()  # it has left the cluster

    from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY
    from ray._private.ray_constants import KV_NAMESPACE_CLUSTER

    store = nodes.head_node.get_gcs_client()
    told = json.loads(store.internal_kv_get(CLUSTER_METADATA_KEY, KV_NAMESPACE_CLUSTER))
    told |= {"ray_version": "2.1.0", "python_version": "3.8.1"}
    store.internal_kv_put(CLUSTER_METADATA_KEY, json.dumps(told).encode(), True, KV_NAMESPACE_CLUSTER)
    with pytest.raises(SamplerError, match=r"runs Ray 2\.1\.0 and Python 3\.8\.1, but this process has Ray 2"):
        Cluster(ClusterSettings(address=nodes.address))
    (found,) = doctor.cluster()
    assert not found.available
    assert "Ray 2.1.0" in found.detail


def remember(monkeypatch: pytest.MonkeyPatch, folder: Path, address: str) -> None:
    """Let Ray remember the address of the cluster that was started last, as after its processes were killed."""
    services = pytest.importorskip("ray._private.services")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    monkeypatch.setattr(services, "find_gcs_addresses", frozenset)  # of other clusters on this machine
    if address:
        (folder / "ray").mkdir()
        (folder / "ray" / "ray_current_cluster").write_text(address)


def test_without_a_cluster_none_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remember(monkeypatch, tmp_path, "")
    doctor.print_cluster()  # in this process: another one would find the clusters of other tests
    result = json.loads(capsys.readouterr().out)
    assert not result["available"]
    assert "no Ray cluster was found" in result["detail"]
    assert result["remedy"] == "ray start --head"


def test_a_cluster_that_has_died_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remember(monkeypatch, tmp_path, "127.0.0.1:9")
    doctor.print_cluster()  # in this process: another one would find the clusters of other tests
    message = "no Ray cluster can be reached at 127.0.0.1:9 (the cluster that was started last on this machine): "
    assert json.loads(capsys.readouterr().out)["detail"].startswith(message)
    with pytest.raises(SamplerError, match=r"no Ray cluster can be reached at 127\.0\.0\.1:9"):
        Cluster(ClusterSettings(address="auto"))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:7")
    with pytest.raises(SamplerError, match=r"at 127\.0\.0\.1:7 \(RAY_ADDRESS\): .*; start one with `ray start"):
        check_address("auto")


def test_a_server_that_accepts_connections_and_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "REACH", 0.5)
    refused = pytest.raises(SamplerError, match="it does not answer as Ray does; see `ray status` there")
    with socket.create_server(("127.0.0.1", 0)) as silent, refused:  # like a head whose process stands still
        check_address(f"127.0.0.1:{silent.getsockname()[1]}")
    assert not ray.is_initialized()


@pytest.mark.parametrize("address", ["ray://127.0.0.1:10001", "here", ":5", "127.0.0.1:99999999"])
def test_an_address_of_another_form_is_refused_wherever_it_comes_from(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(SamplerError, match="RAY_ADDRESS"):
        check_address("auto")
    with pytest.raises(SamplerError, match=address):
        check_address(address)


def test_a_node_that_starts_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    services = pytest.importorskip("ray._private.services")
    monkeypatch.setattr(connection, "POLL", 0.0)
    head_wait, agents_wait = "RAY_gcs_server_port_wait_time_s", "RAY_agent_register_timeout_ms"
    looks = iter([RuntimeError("not registered"), RuntimeError("not registered"), {"state": "ALIVE"}])

    def look(address: str, node: str) -> object:
        result = next(looks)
        if isinstance(result, RuntimeError):
            raise result
        return result

    monkeypatch.setattr(services, "get_node", look)
    with connection.patient_start():
        assert services.get_node("127.0.0.1:6379", "n") == {"state": "ALIVE"}
        assert float(os.environ[head_wait]) == float(os.environ[agents_wait]) / 1000 == connection.START
    assert services.get_node is look
    assert not {head_wait, agents_wait} & set(os.environ)
    monkeypatch.setattr(connection, "START", 0)
    looks = iter([RuntimeError("not registered")] * 9)
    with connection.patient_start(), pytest.raises(RuntimeError, match="not registered"):
        services.get_node("127.0.0.1:6379", "n")


HEAD = """
from ray.cluster_utils import Cluster
from turncredit.engines.cluster.connection import patient_start

node = {"num_cpus": 1, "object_store_memory": 2**27, "include_dashboard": False}
with patient_start():
    nodes = Cluster(initialize_head=True, head_node_args=node)
print(nodes.address, flush=True)
input()
nodes.shutdown()
"""
JOIN = """
import functools
import sys
from ray._private import services
from turncredit.engines.cluster.connection import Cluster, ClusterSettings
from turncredit.agents.errors import SamplerError

services.find_gcs_addresses = functools.cache(frozenset)  # of other clusters on this machine
try:
    cluster = Cluster(ClusterSettings(sys.argv[1]))
    print("joined", len(cluster.nodes))
    cluster.close()
except SamplerError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_cluster_is_joined_with_its_token_alone(tmp_path: Path) -> None:
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "1" * 64}
    plain = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    plain |= {"RAY_USAGE_STATS_ENABLED": "0", "HOME": str(tmp_path)}

    def join(address: str, **variables: str) -> str:
        words = [sys.executable, "-P", "-c", JOIN, address]
        done = subprocess.run(words, env=plain | variables, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.strip()

    words = [sys.executable, "-P", "-c", HEAD]
    with subprocess.Popen(words, env=plain | token, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nodes:
        assert nodes.stdout is not None
        address = nodes.stdout.readline().strip()
        assert join(address, **token) == "joined 1"
        refused = f"the Ray cluster at {address} does not accept the token of this process; set RAY_AUTH_MODE=token"
        assert join(address).startswith(refused)
        assert join(address, RAY_AUTH_MODE="token").startswith(refused)  # the home has none
        assert join(address, **token | {"RAY_AUTH_TOKEN": "2" * 64}).startswith(refused)
        for name, text in ((".ray/auth_token", token["RAY_AUTH_TOKEN"]), ("ray/ray_current_cluster", address)):
            (tmp_path / name).parent.mkdir()
            (tmp_path / name).write_text(text)
        assert join(address).startswith(refused)  # a token leaves the machine only if the user says so
        assert join("auto", RAY_TMPDIR=str(tmp_path)) == "joined 1"
        nodes.communicate("\n")
