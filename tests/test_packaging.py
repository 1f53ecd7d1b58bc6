"""What a release says of itself: the page on an index, made from README.md, addresses, classifiers and files."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from turncredit import __version__

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = "https://example.org/turncredit"
BUILD = runpy.run_path(str(ROOT / "setup.py"))
PAGE: Any = BUILD["index_page"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

TEXT = """A [page](docs/a.md#b), ([how](docs/c.md)), [docs/d.md](docs/d.md), [`code`](e.py) and [elsewhere](https://x.org).

![a picture](docs/p.png)
Both start from a clone<!-- in a clone -->: not on an index<!-- end -->.
<!-- on an index
`pip install`
-->
`[no](link.md)`

```sh
a [b](c)  # <!-- kept -->
```
"""


def test_links_and_pictures_lead_to_the_files_of_the_version() -> None:
    assert PAGE(TEXT, ADDRESS, "1.2") == (
        f"A [page]({ADDRESS}/blob/v1.2/docs/a.md#b), ([how]({ADDRESS}/blob/v1.2/docs/c.md)), "
        f"[docs/d.md]({ADDRESS}/blob/v1.2/docs/d.md), [`code`]({ADDRESS}/blob/v1.2/e.py) and [elsewhere](https://x.org).\n\n"
        f"![a picture]({ADDRESS}/raw/v1.2/docs/p.png)\n"
        "Both start from a clone.\n`pip install`\n`[no](link.md)`\n\n```sh\na [b](c)  # <!-- kept -->\n```\n"
    )


def test_without_an_address_links_are_text() -> None:
    assert PAGE(TEXT, "", "1.2") == (
        "A page (docs/a.md#b), (how: docs/c.md), docs/d.md, `code` (e.py) and [elsewhere](https://x.org).\n\n\n"
        "Both start from a clone: not on an index.\n\n`[no](link.md)`\n\n```sh\na [b](c)  # <!-- kept -->\n```\n"
    )


@pytest.mark.parametrize("address", ["", ADDRESS])
def test_the_page_of_the_readme_has_whole_addresses(address: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = PAGE(readme, address, __version__)
    text = BUILD["CODE"].sub("", page)
    assert re.findall(r"\]\((?!https://)[^)]*\)", text) == []
    assert ("not on PyPI" in page, "a release from the index" in page) == (not address, bool(address))
    assert "<!--" not in page
    code = BUILD["CODE"].findall
    assert [piece for piece in code(page) if piece.startswith("```")] == [
        piece for piece in code(readme) if piece.startswith("```")
    ]
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if link.startswith(ADDRESS)]
    assert (len(links) > 40) == bool(address)
    for link in links:
        target = re.sub(rf"^{ADDRESS}/(blob|raw)/v{re.escape(__version__)}/|#.*$", "", link)
        assert (ROOT / target).is_file(), link


def test_the_addresses_of_the_project() -> None:
    assert BUILD["version"]() == __version__
    assert BUILD["addresses"]("", "1.2") == {}
    assert BUILD["addresses"](ADDRESS, "1.2") == {
        "Repository": ADDRESS,
        "Issues": f"{ADDRESS}/issues",
        "Documentation": f"{ADDRESS}/blob/v1.2/docs/index.md",
        "Changelog": f"{ADDRESS}/blob/v1.2/CHANGELOG.md",
    }
    address = PROJECT["tool"]["turncredit"]["repository"]
    assert address == "" or re.fullmatch(r"https://[\w./~-]+[^/]", address)


def test_the_metadata_say_where_it_runs() -> None:
    project = PROJECT["project"]
    assert "Operating System :: POSIX :: Linux" in project["classifiers"]
    assert set(project["dynamic"]) == {"readme", "urls", "version"}
    lowest = project["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {lowest}" in project["classifiers"]


def test_the_source_distribution_takes_every_folder() -> None:
    """`make release-check` compares it with the files of the repository, one by one."""
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    grafted = {line.partition(" ")[2] for line in lines if line.startswith("graft ")}
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()} | {".git"}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and (path.name[0] != "." or path.name == ".ci")}
    folders = {name for name in folders if name not in ignored and not name.endswith(".egg-info")}
    assert grafted == folders
