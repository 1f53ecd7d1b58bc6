"""turncredit is never visible inside a box, wherever it is installed; control: what lies beside it is."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from toys.sandboxes import LIMITS, LOCAL, needed

from turncredit.tools.sandbox import BadPath, containers, start
from turncredit.tools.sandbox.hidden import FOLDERS, hidden_paths, is_checkout, is_own, own_folder, piecewise

pytestmark = pytest.mark.waits

ROOT = Path(__file__).parents[2]
SITE = "lib/python3.11/site-packages"
# Prints every file below a directory that can be read and is not empty.
SEARCH = """
import os, sys
for here, folders, names in os.walk(sys.argv[1]):
    for name in names:
        try:
            if open(os.path.join(here, name), "rb").read(1):
                print(os.path.relpath(os.path.join(here, name), sys.argv[1]))
        except OSError:
            pass
"""


def install(place: Path, name: str = "turncredit") -> None:
    """Write what an installer leaves in a folder of packages."""
    for path, text in {
        f"{name}/__init__.py": "SECRET = 1\n",
        f"{name}/envs/code/generator/families.toml": "solution = 'secret'\n",
        f"{name}/__pycache__/__init__.cpython-311.pyc": "secret",
        f"{name}-1.0.dist-info/RECORD": f"{name}/__init__.py,,\n",
        f"__editable__.{name}-1.0.pth": "import x\n",
        f"__editable___{name}_1_0_finder.py": "MAPPING = {}\n",
        f"__pycache__/__editable___{name}_1_0_finder.cpython-311.pyc": "secret",
    }.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that every user of this machine can read."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name).resolve()


def readable(backend: str, folder: Path) -> list[str]:
    """Return the files below a directory that a program in a box can read."""
    needed(backend)
    with start(LIMITS, backend=backend, readable=[str(folder)]) as box:
        result = box.run([box.python, "-c", SEARCH, str(folder)])
    assert result.ok, result.stderr
    return sorted(result.stdout.split())


@pytest.mark.parametrize("backend", LOCAL)
@pytest.mark.parametrize(
    "place", [SITE, "local/lib/python3.11/dist-packages", f"opt/venv/{SITE}", f"envs/a/{SITE}", "."]
)
def test_an_installation_is_not_visible(backend: str, place: str, shared: Path) -> None:
    install(shared / place)
    install(shared / place, "other")
    (shared / "data.txt").write_text("x")
    seen = readable(backend, shared)
    assert [name for name in seen if "turncredit" in name] == []
    assert len([name for name in seen if "other" in name]) == 7  # control: without a rule, all of it can be read
    assert "data.txt" in seen


@pytest.mark.parametrize("backend", LOCAL)
def test_the_checkout_of_an_editable_installation_is_not_visible(backend: str, shared: Path) -> None:
    for name in ("turncredit", "other"):
        install(shared / SITE, name)
        (shared / f"src/{name}-checkout").mkdir(parents=True)
        (shared / f"src/{name}-checkout/hidden_tests.py").write_text("secret")
        about = {"url": (shared / f"src/{name}-checkout").as_uri(), "dir_info": {"editable": True}}
        (shared / SITE / f"{name}-1.0.dist-info/direct_url.json").write_text(json.dumps(about))
    seen = readable(backend, shared)
    assert "src/other-checkout/hidden_tests.py" in seen
    assert "src/turncredit-checkout/hidden_tests.py" not in seen


@pytest.mark.parametrize("backend", LOCAL)
def test_links_lead_nowhere(backend: str, shared: Path) -> None:
    install(shared / SITE)
    (shared / "alias").symlink_to(shared / SITE / "turncredit")
    (shared / "outside").symlink_to("/etc/shadow")
    (shared / "seen.txt").write_text("x")
    assert readable(backend, shared) == ["seen.txt"]


@pytest.mark.parametrize("backend", LOCAL)
def test_packages_beside_it_can_be_imported(backend: str, shared: Path) -> None:
    needed(backend)
    install(shared / SITE)
    install(shared / SITE, "other")
    code = (
        f"import sys; sys.path.insert(0, {str(shared / SITE)!r})\nimport other; print(other.SECRET)\n"
        "try:\n    from turncredit import SECRET; print(SECRET)\nexcept (ImportError, OSError):\n    print('no')\n"
    )
    with start(LIMITS, backend=backend, readable=[str(shared)]) as box:
        assert box.run(code).stdout == "1\nno\n"


def test_an_image_of_a_directory_leaves_it_out(shared: Path) -> None:
    install(shared / SITE)
    install(shared / SITE, "other")
    with tarfile.open(fileobj=io.BytesIO(containers._tar(shared))) as archive:
        names = archive.getnames()
    assert len([name for name in names if "other" in name]) > 7
    assert [name for name in names if "turncredit" in name] == []


def test_the_caches_of_the_user_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(
        ("TURNCREDIT_CACHE", "TURNCREDIT_DATA", "XDG_CACHE_HOME", "HF_HOME", "PIP_CACHE_DIR")
    ):
        (tmp_path / f"{number}").mkdir()
        monkeypatch.setenv(name, str(tmp_path / f"{number}"))
    (tmp_path / "home/.cache/huggingface").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "compiled"))
    (tmp_path / "compiled").mkdir()
    names = [str(Path(path).relative_to(tmp_path)) for path in hidden_paths((str(tmp_path),))]
    assert names == ["0", "1", "2", "3", "4", "compiled", "home/.cache"]


def test_the_running_package_is_hidden_below_any_visible_directory() -> None:
    own = own_folder()
    assert own == ROOT
    above = str(own.parent)
    assert any(f"{own}/".startswith(f"{path}/") for path in hidden_paths((above,)))
    inside = hidden_paths((str(own),))
    assert {str(own / name) for name in FOLDERS} <= set(inside)
    for path in (own / "envs", own / "envs/code/generator"):
        with pytest.raises(BadPath, match="own folders"):
            start(readable=[str(path)])


def test_the_folders_are_those_of_the_packages() -> None:
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert sorted(FOLDERS) == sorted(about["tool"]["setuptools"]["package-dir"].values())


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("turncredit", True),
        ("turncredit-0.1.0.dist-info", True),
        ("turncredit.egg-info", True),
        ("turncredit-0.1.0-py3-none-any.whl", True),
        ("__editable__.turncredit-0.1.0.pth", True),
        ("__editable___turncredit_0_1_0_finder.py", True),
        ("turncredit_plugin", False),
        ("not-turncredit", False),
    ],
)
def test_names_of_an_installation(name: str, own: bool) -> None:
    assert is_own(name) is own


def test_an_installation_that_refers_to_where_nobody_can_look_is_no_reason_to_fail() -> None:
    assert not is_checkout(Path("/", "x" * 300))  # any error of the system: Path.is_file would raise this one


def test_rules_that_only_add_cover_everything_else(tmp_path: Path) -> None:
    for path in ("a/b/c/x", "a/b/y", "a/z", "d/x"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "a/link").symlink_to("/etc")
    root = str(tmp_path)
    whole, listed = piecewise([root, f"{root}/d"], [f"{root}/a/b/c"])
    assert sorted(whole) == [f"{root}/a/b/y", f"{root}/a/z", f"{root}/d"]
    assert sorted(listed) == [root, f"{root}/a", f"{root}/a/b"]
    assert piecewise([root], []) == ([root], [])


FIND = f"""
import sys
from turncredit.tools.sandbox import start
from turncredit.tools.sandbox.hidden import own_folder
assert str(own_folder()).startswith(sys.argv[1]), own_folder()
for backend in ("bwrap", "landlock"):
    with start(backend=backend, readable=sys.argv[2:]) as box:
        result = box.run([box.python, "-c", {SEARCH!r}, sys.argv[1]])
        assert result.ok, result.stderr
        print(backend, *[name for name in result.stdout.split() if "turncredit" in name or "other" in name])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    left_out = shutil.ignore_patterns(".*", "build", "*.egg-info", "tests", "docs", "benchmarks")
    shutil.copytree(ROOT, source, ignore=left_out)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source)]
    subprocess.run(command, check=True, cwd=folder)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can install below /usr/local")
@pytest.mark.parametrize("how", ["--prefix", "--user"])
@pytest.mark.parametrize("place", ["/usr/local", "/var/tmp"])
def test_a_real_installation_is_not_visible(how: str, place: str, wheel: Path) -> None:
    for backend in LOCAL:
        needed(backend)
    with tempfile.TemporaryDirectory(dir=place) as name:
        Path(name).chmod(0o755)
        python = getattr(sys, "_base_executable", sys.executable)
        pip = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-warn-script-location"]
        where = ["--prefix", name] if how == "--prefix" else ["--user"]
        environment = {**os.environ, "PYTHONUSERBASE": name, "PIP_BREAK_SYSTEM_PACKAGES": "1"}
        subprocess.run([*pip, *where, str(wheel)], check=True, env=environment)
        site = next(Path(name).glob("**/turncredit")).parent
        (site / "other.py").write_text("SEEN = 1\n")
        readable = [] if place.startswith("/usr") else [name]
        ran = subprocess.run(
            [sys.executable, "-P", "-c", FIND, name, *readable],
            env={**environment, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
        )
        other = (site / "other.py").relative_to(name)
        script = "bin/turncredit"  # it only imports the package
        lines = [[word for word in line.split() if word != script] for line in ran.stdout.splitlines()]
        assert lines == [["bwrap", str(other)], ["landlock", str(other)]]
