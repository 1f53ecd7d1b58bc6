"""Hooks of the documentation site: pages from outside of docs/, links between them, and the pages of the API reference.

The Markdown files link each other as they lie in the repository, so that the links also work wherever the repository is
shown. README.md is the site's first page, docs/index.md its map; the examples become pages with their source.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    *("envs", "agents", "engines", "credit", "curriculum", "training", "evaluation", "ablation", "report"),
    *("phone", "tools", "processes"),
)
LANGUAGES = {".py": "python", ".sh": "bash", ".toml": "toml", ".yaml": "yaml"}
EXAMPLES = sorted(
    path for path in (ROOT / "examples").iterdir() if path.suffix in LANGUAGES and path.stem != "__init__"
)
MOVED = {  # page of the site -> file of the repository
    "index.md": "README.md",
    "map.md": "docs/index.md",
    "recorded_runs.md": "docs/recorded_runs/README.md",  # an index page would be that of a whole section
    **{name: name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")},
    **{f"folders/{folder}.md": f"{folder}/README.md" for folder in FOLDERS if (ROOT / folder / "README.md").exists()},
    **{f"examples/{path.stem}.md": f"examples/{path.name}" for path in EXAMPLES},
}
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
INFO = re.compile(r"^(```\w+) .*$", re.MULTILINE)  # "python openenv": what tests read behind the language
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the parts of the navigation that follow from the folders."""
    filled = {"Examples": example_nav(), "API reference": reference_nav()}
    config.nav = [{title: filled.get(title, pages) for title, pages in entry.items()} for entry in config.nav or ()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/, and those of the API reference."""
    for file in MOVED.values():
        if file.startswith("docs/"):
            files.remove(files.src_uris[file.removeprefix("docs/")])
    for page, file in MOVED.items():
        files.append(File.generated(config, page, content=page_text(ROOT / file)))
    for name in (name for folder in FOLDERS for name in packages(folder)):
        files.append(File.generated(config, reference_page(name), content=reference_text(name)))
    files.append(File.generated(config, "reference/index.md", content=reference_index()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Translate the links of a page from the repository's folders to those of the site."""
    page_uri = page.file.src_uri
    parts = CODE.split(INFO.sub(r"\1", markdown))  # text and code in turn
    parts[::2] = [LINK.sub(lambda match: site_link(page_uri, match[1]), text) for text in parts[::2]]
    return "".join(parts)


def site_link(page: str, link: str) -> str:
    """Return the link from a page of the site that the file of the page writes as `link`."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(MOVED.get(page, f"docs/{page}")), link))
    pages = {file: name for name, file in MOVED.items()}
    folder, _, name = target.removesuffix(".py").rpartition("/")
    if target.endswith(".py") and target.partition("/")[0] in FOLDERS:  # a module: its part of the API reference
        package = f"turncredit.{folder.replace('/', '.')}"
        pages[target] = reference_page(package) + ("" if name == "__init__" else f"#{package}.{name}")
    return posixpath.relpath(pages.get(target, target.removeprefix("docs/")), posixpath.dirname(page) or ".")


def page_text(path: Path) -> str:
    """Return a file as Markdown; a program or configuration becomes one block of code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return f"# {path.relative_to(ROOT)}\n\n```{LANGUAGES[path.suffix]}\n{text}```\n"


def example_nav() -> list[dict[str, str]]:
    """Return the navigation of the examples."""
    return [{path.name: f"examples/{path.stem}.md"} for path in EXAMPLES]


def packages(folder: str) -> list[str]:
    """Return the packages of a folder, as `turncredit.credit.turn`: the folder itself, then those inside it."""
    folders = [path.parent.relative_to(ROOT) for path in sorted((ROOT / folder).rglob("__init__.py"))]
    return [f"turncredit.{'.'.join(path.parts)}" for path in folders]


def reference_page(package: str) -> str:
    """Return the path of a package's page: `turncredit.credit.turn` has reference/credit/turn.md."""
    _, folder, *inner = package.split(".")
    return f"reference/{folder}/{'.'.join(inner) or 'index'}.md"


def reference_nav() -> list[str | dict[str, object]]:
    """Return the navigation of the API reference: a section for each folder, with its packages."""
    sections: list[str | dict[str, object]] = ["reference/index.md"]
    for folder in FOLDERS:
        first, *inner = packages(folder)
        pages = [{name.split(".", 2)[2]: reference_page(name)} for name in inner]
        sections.append({folder: [reference_page(first), *pages]})
    return sections


def init_of(package: str) -> Path:
    """Return the `__init__.py` of a package."""
    return ROOT.joinpath(*package.split(".")[1:], "__init__.py")


def table_of(names: list[str], page: str) -> list[str]:
    """Return a table of packages: a link from `page`, and the first paragraph of its docstring."""
    rows = ["| package | contents |", "|---|---|"]
    for name in names:
        text = ast.get_docstring(ast.parse(init_of(name).read_text(encoding="utf-8"))) or ""
        link = posixpath.relpath(reference_page(name), posixpath.dirname(page))
        rows.append(f"| [`{name}`]({link}) | {' '.join(text.partition(chr(10) * 2)[0].split())} |")
    return [*rows, ""] if names else []


def reference_index() -> str:
    """Return the first page of the API reference: every folder and what it is."""
    folders = [f"turncredit.{folder}" for folder in FOLDERS]
    return "\n".join(["# API reference", "", *table_of(folders, "reference/index.md")])


def reference_text(package: str) -> str:
    """Return the page of a package: its header, its packages, its public names, then all of its modules."""
    init = init_of(package)
    modules = sorted(path.stem for path in init.parent.glob("[!_]*.py"))
    inner = [name for name in packages(package.split(".")[1]) if name.rpartition(".")[0] == package]
    origins = public_names(init, package)
    own = [name for name, origin in origins.items() if origin == f"{package}.{name}"]
    links = [
        f'<autoref optional identifier="{origin}">`{name}`</autoref>'
        for name, origin in origins.items()
        if name not in own
    ]
    lines = ["---", "search: { boost: 0.5 }", "---", f"# `{package}`", ""]  # guides are found before members
    lines += [f"::: {package}", "    options:", "      show_root_heading: false", "      show_root_toc_entry: false"]
    lines += [f"      members: {own or 'false'}", "", *table_of(inner, reference_page(package))]
    lines += [f"`from {package} import` {', '.join(links)}", ""] if links else []
    for module in modules:
        lines += [f"::: {package}.{module}", "    options: { heading_level: 2 }", ""]
    return "\n".join(lines)


def public_names(init: Path, package: str) -> dict[str, str]:
    """Return the names of `__all__`, each with the place of its definition as a dotted path."""
    tree = ast.parse(init.read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = [item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)]
            return {name: imported.get(name, f"{package}.{name}") for name in sorted(names)}
    return {}
