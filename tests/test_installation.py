"""How the package was installed, and the commands that add an extra to it."""

from __future__ import annotations

import json
import pickle
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from turncredit import __version__, installation
from turncredit.installation import MissingPackage, PackageOrigin, installation_command, needs, origin

ROOT = Path(__file__).resolve().parent.parent
REQUIRES = ['peft>=0.20; extra == "lora"', 'turncredit[phone]; extra == "android"', "numpy>=1.26"]
REQUIRES += ['pillow>=10; extra == "phone"', 'font-roboto>=0.0.1; extra == "phone"']
Install = Callable[[object], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A function that installs the package from somewhere, as `direct_url.json` says it; None: from an index."""

    def install(address: object) -> None:
        site = tmp_path / "site-packages"
        facts = site / f"turncredit-{__version__}.dist-info"
        facts.mkdir(parents=True)
        head = f"Metadata-Version: 2.4\nName: turncredit\nVersion: {__version__}\n"
        lines = "".join(f"Requires-Dist: {line}\n" for line in REQUIRES)
        (facts / "METADATA").write_text(head + lines, encoding="utf-8")
        if address is not None:
            (facts / "direct_url.json").write_text(json.dumps(address), encoding="utf-8")
        monkeypatch.setattr(installation, "_HERE", site / "turncredit")

    return install


def test_a_checkout_is_installed_in_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert origin() == PackageOrigin("checkout", str(ROOT))
    monkeypatch.chdir(ROOT)
    assert installation_command("lora") == 'pip install -e ".[lora]"'
    assert installation_command("serve", "android") == 'pip install -e ".[serve,android]"'
    monkeypatch.chdir(tmp_path)
    assert installation_command("lora") == f'pip install -e "{ROOT}[lora]"'


def test_a_folder_is_installed_again(install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "the source"
    source.mkdir()
    install({"url": source.as_uri(), "dir_info": {}})
    assert origin() == PackageOrigin("folder", str(source))
    assert installation_command("lora") == f'pip install "{source}[lora]"'
    monkeypatch.chdir(source)
    assert installation_command("lora") == 'pip install ".[lora]"'


def test_a_wheel_names_its_file(install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = tmp_path / "dist" / "turncredit-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    install({"url": wheel.as_uri(), "archive_info": {"hash": "sha256=00"}})
    assert installation_command("lora") == f'pip install "{wheel}[lora]"'
    monkeypatch.chdir(tmp_path)
    assert installation_command("lora") == 'pip install "./dist/turncredit-0.1.0-py3-none-any.whl[lora]"'


@pytest.mark.parametrize("facts", [{"dir_info": {}}, {"archive_info": {}}])
def test_what_is_gone_names_packages(install: Install, tmp_path: Path, facts: dict[str, object]) -> None:
    install({"url": (tmp_path / "gone").as_uri(), **facts})
    assert installation_command("lora") == 'pip install "peft>=0.20"'
    assert installation_command("android", "lora") == 'pip install "peft>=0.20" "pillow>=10" "font-roboto>=0.0.1"'


def test_addresses_and_indexes(install: Install) -> None:
    install({"url": "https://example.org/t.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}})
    assert installation_command("lora") == 'pip install "turncredit[lora] @ git+https://example.org/t.git@c0ffee"'
    (installation._HERE.parent / f"turncredit-{__version__}.dist-info" / "direct_url.json").unlink()
    installation._origin.cache_clear()
    assert origin() == PackageOrigin("index")
    assert installation_command("lora") == f'pip install "turncredit[lora]=={__version__}"'


def test_a_file_behind_an_address(install: Install) -> None:
    install({"url": "https://example.org/turncredit-0.1.0-py3-none-any.whl", "archive_info": {}})
    assert installation_command("lora").endswith(' @ https://example.org/turncredit-0.1.0-py3-none-any.whl"')


@pytest.mark.parametrize("address", ["a text", ["a list"], {}, {"url": 3}, {"url": "git:", "vcs_info": "text"}])
def test_damaged_facts_of_an_installer_are_no_error(install: Install, address: object) -> None:
    install(address)
    assert "lora" in installation_command("lora")


def test_a_path_cannot_run_anything_in_the_shell(install: Install, tmp_path: Path) -> None:
    source = tmp_path / "a $(touch x) `y` \"z\" 'q'"
    source.mkdir()
    install({"url": source.as_uri(), "dir_info": {}})
    assert shlex.split(installation_command("lora")) == ["pip", "install", f"{source}[lora]"]


def test_an_environment_without_pip_is_one_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation.metadata, "distributions", lambda **names: [])
    monkeypatch.chdir(ROOT)
    assert needs("LoRA needs peft", "lora") == 'LoRA needs peft: uv pip install -e ".[lora]"'


def test_a_directory_that_was_removed_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def gone() -> Path:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "cwd", gone)
    assert installation_command("lora") == f'pip install -e "{ROOT}[lora]"'


def test_the_error_survives_another_process() -> None:
    error = pickle.loads(pickle.dumps(MissingPackage(needs("LoRA needs peft", "lora"))))
    assert isinstance(error, ModuleNotFoundError)
    assert str(error).startswith("LoRA needs peft: ")
