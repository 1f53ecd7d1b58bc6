"""Wheels of the turncredit that runs, and the projects that `turncredit package` pins to them."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from toys.sandboxes import needed

from turncredit import __version__, installation
from turncredit.agents.errors import EnvFailure
from turncredit.agents.frameworks import own_wheel
from turncredit.agents.frameworks.openenv_package import OpenEnvPackage
from turncredit.agents.frameworks.own_wheel import WHEEL, write_wheel
from turncredit.installation import PackageOrigin

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wheel(tmp_path_factory.mktemp("wheels"))


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_checkout_becomes_a_wheel_and_stays_as_it_was(wheel: Path) -> None:
    files = contents(wheel)
    assert wheel.name == WHEEL
    assert files["turncredit/__init__.py"] == (ROOT / "package/__init__.py").read_bytes()
    assert files["turncredit/examples/demo.toml"] == (ROOT / "examples/demo.toml").read_bytes()
    assert f"turncredit-{__version__}.dist-info/entry_points.txt" in files


@pytest.fixture
def site(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder into which the wheel is installed as pip does it, and from which the package seems to run."""
    folder = tmp_path / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    facts = folder / f"turncredit-{__version__}.dist-info"
    (facts / "INSTALLER").write_text("pip\n", encoding="utf-8")
    (facts / "direct_url.json").write_text("{}", encoding="utf-8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/turncredit").write_text("#!python\n", encoding="utf-8")
    (folder / "turncredit/__pycache__").mkdir()
    (folder / "turncredit/__pycache__/registry.pyc").write_bytes(b"compiled")
    with (facts / "RECORD").open("a", encoding="utf-8") as record:
        for name in (f"{facts.name}/INSTALLER", f"{facts.name}/direct_url.json", "../bin/turncredit"):
            record.write(f"{name},,\n")
        record.write("turncredit/__pycache__/registry.pyc,,\n")
    monkeypatch.setattr(installation, "_HERE", folder / "turncredit")
    return folder


def test_an_installed_package_is_packed_as_the_wheel_that_it_came_from(wheel: Path, site: Path, tmp_path: Path) -> None:
    assert installation.origin() == PackageOrigin("index")
    packed = contents(write_wheel(tmp_path / "one"))
    original = contents(wheel)
    record = f"turncredit-{__version__}.dist-info/RECORD"
    assert {name: data for name, data in packed.items() if name != record} == {
        name: data for name, data in original.items() if name != record
    }
    rows = {name: (digest, size) for name, digest, size in csv.reader(packed[record].decode().splitlines())}
    assert set(rows) == set(packed)
    for name, data in packed.items():
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert rows[name] == (f"sha256={digest}", str(len(data)))
    assert write_wheel(tmp_path / "two").read_bytes() == (tmp_path / "one" / WHEEL).read_bytes()


def test_a_package_without_a_list_of_files_is_refused(site: Path, tmp_path: Path) -> None:
    (site / f"turncredit-{__version__}.dist-info/RECORD").unlink()
    with pytest.raises(EnvFailure, match="lists no files to make a wheel of; name one with --requirement"):
        write_wheel(tmp_path / "out")


def test_a_checkout_that_cannot_be_built_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no way')"]
    monkeypatch.setattr(own_wheel, "_builder", lambda source, folder: command)
    with pytest.raises(EnvFailure, match=r"could be built \(no way\); name one with --requirement"):
        write_wheel(tmp_path)


def test_a_project_is_pinned_to_the_wheel_or_to_what_was_named() -> None:
    arguments = {"level": "tiny", "split": "held_out"}
    files = OpenEnvPackage("turncredit/Household-v0", arguments, wheel=WHEEL).files()
    project = tomllib.loads(files["pyproject.toml"])
    assert project["project"]["dependencies"][1] == f"turncredit[openenv]=={__version__}"
    assert project["tool"]["uv"]["sources"] == {"turncredit": {"path": f"wheels/{WHEEL}"}}
    assert f'RUN pip install --no-cache-dir "./wheels/{WHEEL}[openenv]" .\n' in files["Dockerfile"]
    address = "turncredit[openenv] @ git+https://example.org/turncredit@c0ffee"
    files = OpenEnvPackage("turncredit/Household-v0", arguments, address).files()
    project = tomllib.loads(files["pyproject.toml"])
    assert project["project"]["dependencies"][1] == address
    assert "uv" not in project.get("tool", {})
    assert "RUN pip install --no-cache-dir .\n" in files["Dockerfile"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project that `turncredit package` writes."""
    words = ["package", "turncredit/Household-v0", "level=tiny", "split=held_out"]
    folder = tmp_path_factory.mktemp("projects")
    command = [sys.executable, "-P", "-m", "turncredit.cli.main", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return folder / "household"


PIP_AND_UV = {"PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_FIND_LINKS": "UV_FIND_LINKS", "PIP_CERT": "SSL_CERT_FILE"}
"""Settings of pip for the index, and what uv calls them."""


@pytest.mark.waits
def test_uv_locks_the_project_with_its_wheel(project: Path) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv is not installed")
    named = {theirs: os.environ[ours] for ours, theirs in PIP_AND_UV.items() if os.environ.get(ours)}
    subprocess.run([uv, "lock"], cwd=project, env={**os.environ, **named}, check=True, capture_output=True, timeout=300)
    locked = tomllib.loads((project / "uv.lock").read_text(encoding="utf-8"))["package"]
    (entry,) = [entry for entry in locked if entry["name"] == "turncredit"]
    assert (entry["version"], entry["source"]) == (__version__, {"path": f"wheels/{WHEEL}"})
    digest = hashlib.sha256((project / "wheels" / WHEEL).read_bytes()).hexdigest()
    assert entry["wheels"] == [{"filename": WHEEL, "hash": f"sha256:{digest}"}]


@pytest.mark.waits
def test_a_container_of_the_project_has_the_wheel(project: Path, tmp_path: Path) -> None:
    """As its Dockerfile says, on an image of this machine's Python; what it depends on is left out."""
    needed("docker")
    from turncredit.tools.sandbox.containers import DockerBackend

    backend = DockerBackend()
    for file in [*(metadata.files("pip") or ()), *(metadata.files("setuptools") or ())]:
        if ".." not in file.parts and "__pycache__" not in file.parts:
            (tmp_path / "tools" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(str(file.locate()), tmp_path / "tools" / file)
    (tmp_path / "tools/pip.sh").write_text('exec python3 -m pip "$@"\n', encoding="utf-8")
    shutil.copytree(project, tmp_path / "project")
    settings = "PYTHONPATH=/tools PIP_NO_INDEX=1 PIP_NO_DEPS=1 PIP_NO_BUILD_ISOLATION=0 PIP_BREAK_SYSTEM_PACKAGES=1"
    words = (project / "Dockerfile").read_text(encoding="utf-8").replace("COPY . /", "COPY project /").splitlines()
    base = [f"FROM {backend.image}", "COPY tools /tools", f"ENV {settings}"]
    base += ["RUN cp /tools/pip.sh /bin/pip && sed -i '1i #!/bin/sh' /bin/pip && chmod 755 /bin/pip"]
    (tmp_path / "Dockerfile").write_text("\n".join([*base, *words[1:]]) + "\n", encoding="utf-8")
    image, _ = backend.client.images.build(path=str(tmp_path), network_mode="none", rm=True, forcerm=True)
    try:
        code = "import turncredit.installation as i; print(i.origin().kind, i.origin().location)"
        said = backend.client.containers.run(image.id, ["python3", "-c", code], network_mode="none", remove=True)
        assert said.decode().split() == ["file", f"/app/env/wheels/{WHEEL}"]
    finally:
        backend.client.images.remove(image.id, force=True)
