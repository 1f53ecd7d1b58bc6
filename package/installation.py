"""How this turncredit was installed, and the command that adds one of its extras.

The command depends on where the package came from, so that it works there:

    a checkout               pip install -e ".[lora]"
    a folder                 pip install "/path/to/turncredit[lora]"
    a file (wheel or sdist)  pip install "/path/to/turncredit-0.1.0-py3-none-any.whl[lora]"
    an address               pip install "turncredit[lora] @ git+https://example.org/turncredit@COMMIT"
    an index                 pip install "turncredit[lora]==0.1.0"

A folder or a file that is gone since cannot be installed again: then the command names the packages of the extra. Where
pip is missing, as in an environment of uv, it is `uv pip install`.

    ImportError
     └─ ModuleNotFoundError
         └─ MissingPackage      an optional package is not installed; the message says how to install it

It needs the standard library only, as `turncredit.registry` does.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

__all__ = ["MissingPackage", "PackageOrigin", "distribution", "installation_command", "needs", "origin", "version"]

NAME: Final = "turncredit"
_HERE: Final = Path(__file__).resolve().parent
_EXTRA: Final = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")
_OWN: Final = re.compile(rf"{NAME}\[([\w,\s-]+)\]")
_PLAIN: Final = re.compile(r"[\w./@:+=,<>\[\]#&?~ -]+")
"""What a shell leaves as it is between double quotes; `!` and `%` are no part of it."""


class MissingPackage(ModuleNotFoundError):
    """An optional package is not installed; the message is one sentence that says how to install it."""


@dataclass(frozen=True)
class PackageOrigin:
    """Where the package came from.

    Args:
        kind: "checkout", "folder", "file", "address" or "index".
        location: the path of a checkout, a folder or a file; the address; "" for an index.
    """

    kind: str
    location: str = ""

    @property
    def exists(self) -> bool:
        """Whether the package can be installed from there again, as far as this machine can tell."""
        return self.kind in ("address", "index") or Path(self.location).exists()


def needs(sentence: str, *extras: str) -> str:
    """Return "SENTENCE: COMMAND", where the command installs what is missing.

    Args:
        sentence: what needs which package, without a full stop.
        extras: extras of turncredit that contain the package.
    """
    return f"{sentence}: {installation_command(*extras)}"


def installation_command(*extras: str) -> str:
    """Return the command that installs turncredit with extras from where it came from.

    >>> installation_command("lora").endswith('[lora]"')
    True

    Args:
        extras: names such as "lora"; at least one.
    """
    source, names = origin(), f"[{','.join(extras)}]"
    if source.exists:
        return f"{_pip()} {_words(source, names)}"
    return " ".join([_pip(), *map(_quoted, _packages(extras))])


def origin() -> PackageOrigin:
    """Return where the package that runs came from."""
    return _origin(_HERE)


@lru_cache(maxsize=8)
def _origin(package: Path) -> PackageOrigin:
    """Return the origin of the package whose modules lie in a folder."""
    if package.name == "package" and (package.parent / "pyproject.toml").is_file():
        return PackageOrigin("checkout", str(package.parent))
    address = _direct_address(_distribution(package.parent))
    url = str((address or {}).get("url") or "")
    if address is None or not url:
        return PackageOrigin("index")
    if "vcs_info" in address:
        facts = address["vcs_info"]
        commit = facts.get("commit_id") if isinstance(facts, dict) else None
        system = facts.get("vcs") if isinstance(facts, dict) else None
        return PackageOrigin("address", f"{system or 'git'}+{url}{f'@{commit}' if commit else ''}")
    if not url.startswith("file:"):
        return PackageOrigin("address", url)
    return PackageOrigin("folder" if "dir_info" in address else "file", url2pathname(urlsplit(url).path))


def distribution() -> metadata.Distribution | None:
    """Return the installed distribution of the package that runs; None for a checkout."""
    return _distribution(_HERE.parent)


def _distribution(site: Path) -> metadata.Distribution | None:
    """Return the distribution in the folder in which the package lies; one elsewhere is another one."""
    return next(iter(metadata.distributions(name=NAME, path=[str(site)])), None)


def _direct_address(installed: metadata.Distribution | None) -> dict[str, object] | None:
    """Return what installers note of a package that came from no index (PEP 610), or None."""
    try:
        table = json.loads((installed.read_text("direct_url.json") if installed else None) or "null")
    except ValueError:
        return None
    return table if isinstance(table, dict) else None


def _pip() -> str:
    return "pip install" if any(metadata.distributions(name="pip")) else "uv pip install"


def _words(source: PackageOrigin, extras: str) -> str:
    """Return what the installer is told to install."""
    if source.kind == "index":
        return _quoted(f"{NAME}{extras}=={version()}")
    if source.kind == "address":
        return _quoted(f"{NAME}{extras} @ {source.location}")
    path = _shown(Path(source.location))
    return f"-e {_quoted(path + extras)}" if source.kind == "checkout" else _quoted(path + extras)


def _shown(path: Path) -> str:
    """Return a path as the installer takes it in this directory: "." for the directory itself."""
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        return str(path)
    if path.resolve() == here.resolve():
        return "."
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)


def version() -> str:
    """Return the version of the package that runs."""
    from turncredit import __version__

    return __version__


def _packages(extras: tuple[str, ...]) -> list[str]:
    """Return the packages of extras, as the metadata of the installed package lists them."""
    installed = distribution()
    lines = (installed.requires if installed else None) or []
    listed: list[str] = []
    pending = list(extras)
    for extra in pending:  # which grows by the extras that an extra names
        for line in lines:
            requirement, _, marker = line.partition(";")
            if (match := _EXTRA.search(marker)) is None or match[1] != extra:
                continue
            if own := _OWN.match(requirement):
                pending += [name.strip() for name in own[1].split(",") if name.strip() not in pending]
            elif requirement.strip() not in listed:
                listed.append(requirement.strip())
    return listed or [f"{NAME}[{','.join(extras)}]=={version()}"]


def _quoted(text: str) -> str:
    return f'"{text}"' if _PLAIN.fullmatch(text) else shlex.quote(text)
