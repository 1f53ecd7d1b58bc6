"""What a build adds to pyproject.toml: the page on an index, made from README.md, and the addresses of the project.

Links and pictures of README.md are relative, so that they work in a clone. A page on an index needs whole addresses:
with `repository` in [tool.turncredit] of pyproject.toml, they lead to the files of the released version there. Without
it, links become plain text with the path in the source distribution, and pictures are left out. Two comments of
README.md tell a clone from an index:

    <!-- in a clone -->TEXT<!-- end -->     left out on an index
    <!-- on an index TEXT -->               shown there alone
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s]+)\)")
IN_A_CLONE = re.compile(r"<!-- in a clone -->(.*?)<!-- end -->", re.DOTALL)
ON_AN_INDEX = re.compile(r"<!-- on an index\s(.*?)\s-->", re.DOTALL)


def index_page(text: str, repository: str, version: str) -> str:
    """Return README.md as it reads on an index.

    Args:
        text: content of README.md.
        repository: address of the repository, laid out as GitHub does; "" if there is none.
        version: version of the package; the tag in the repository is v and the version.
    """
    text = IN_A_CLONE.sub("" if repository else r"\1", text)
    text = ON_AN_INDEX.sub(r"\1" if repository else "", text)
    text = re.sub(r"^<!-- [^\n]+ -->\n\n?", "", text, flags=re.MULTILINE)  # marks of tables that are rendered

    def link(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        if re.match(r"[a-z]+:", target):
            return match[0]
        if not repository:
            if mark or label == target:
                return "" if mark else label
            return f"{label}: {target}" if match.string[: match.start()].endswith("(") else f"{label} ({target})"
        return f"{mark}[{label}]({repository}/{'raw' if mark else 'blob'}/v{version}/{target})"

    pieces = CODE.split(text)  # text and code in turn
    code = dict(enumerate(pieces[1::2]))
    linked = LINK.sub(link, "".join(f"{piece}\0{number}\0" for number, piece in enumerate(pieces[::2])))
    return re.sub(r"\0(\d+)\0", lambda match: code.get(int(match[1]), ""), linked)


def addresses(repository: str, version: str) -> dict[str, str]:
    """Return the addresses of the project by their names; empty without a repository."""
    pages = {"Documentation": "docs/index.md", "Changelog": "CHANGELOG.md"}
    links = {name: f"{repository}/blob/v{version}/{page}" for name, page in pages.items()}
    return {"Repository": repository, "Issues": f"{repository}/issues", **links} if repository else {}


def repository() -> str:
    """Return the address of the repository that pyproject.toml names, without a slash at its end."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["tool"]["turncredit"]["repository"]).rstrip("/")


def version() -> str:
    """Return the version of the package, which is not imported."""
    source = (ROOT / "package/__init__.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)[0]


if __name__ == "__main__":
    setup(
        long_description=index_page((ROOT / "README.md").read_text(encoding="utf-8"), repository(), version()),
        long_description_content_type="text/markdown",
        project_urls=addresses(repository(), version()),
    )
