"""What doctor says about the limits of each back end."""

from dataclasses import fields

import pytest
from toys.sandboxes import ALL, LOCAL, needed
from typer.testing import CliRunner

from turncredit.cli.main import app
from turncredit.tools.sandbox import Limits, probe
from turncredit.tools.sandbox.guarantees import DOCKER, describe, local_guarantees

pytestmark = pytest.mark.waits


@pytest.mark.parametrize("backend", LOCAL)
@pytest.mark.parametrize("strong", [True, False])
def test_every_limit_is_said_to_be_certain_or_why_it_is_not(backend: str, strong: bool) -> None:
    found = local_guarantees(backend=backend, own_filesystem=strong, memory_counted=strong, own_uid=strong)
    names = [field.name for field in fields(Limits)]
    assert [one.limit for one in found] == names == [one.limit for one in DOCKER]
    assert all(one.certain or one.detail for one in found)
    weak = [one.limit for one in found if not one.certain]
    expected = ["memory", "disk", "files"] if backend == "bwrap" else ["memory", "processes", "disk", "files"]
    assert weak == ([] if strong else expected)
    assert all(name not in describe(found).replace("file_size", "") for name in weak if name != "memory")


@pytest.mark.parametrize("backend", ALL)
def test_doctor_shows_them(backend: str) -> None:
    needed(backend)
    shown = " ".join(CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "4000"}).stdout.split())
    guarantees = DOCKER if backend == "docker" else next(one.guarantees for one in probe() if one.name == backend)
    assert describe(guarantees) in shown
