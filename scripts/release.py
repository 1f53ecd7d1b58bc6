"""Build a release, check it, and try it where it will be used. Nothing is uploaded.

    scripts/release.py                                   what CI runs
    scripts/release.py --repository https://...          what goes to an index, in dist/
    scripts/release.py --tests tests/credit tests/cli    and these tests, from the source distribution

1. builds the source distribution from the files of the repository alone, and the wheel from the source distribution;
2. checks them: every file is in the first, `twine check --strict`, `check-wheel-contents`, no relative link on the
   page;
3. installs the wheel in a fresh environment, and runs it outside of the repository: `verify`, `list`, episodes of seven
   environments, a shortened demo and its report, and the command that a message about a missing package names.

An index shows links and pictures of README.md at the address of the repository, which `repository` in pyproject.toml
or --repository names. Without one, the page has neither, and what is built is for tests.
"""

from __future__ import annotations

import argparse
import email.parser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETTING = re.compile(r'^repository = "([^"]*)"', re.MULTILINE)
GENERATED = re.compile(r"PKG-INFO|setup\.cfg|turncredit\.egg-info/.*")
RELATIVE = re.compile(r"\]\((?![a-z]+:)[^)]*\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
EXTRA = "openai"
"""An extra of one small package, which the environment lacks at first."""
ENVIRONMENTS = ("Household", "WebShop", "Search", "Code", "Bash", "Desk", "Android")
DEMO = ("imitation.episodes=40", "imitation.epochs=1", "train.iterations=1", "train.groups=2", "train.group_size=2")
DEMO += ("evaluation.episodes=4", "policy.new.hidden=32", "policy.new.layers=1", "policy.new.heads=1", "processes=1")


class Failure(Exception):
    """A step of the release failed; the message says why."""


def main() -> int:
    """Run all steps; return the exit code."""
    parser = argparse.ArgumentParser(description="Build a release, check it and try it. Nothing is uploaded.")
    parser.add_argument("--repository", default="", metavar="URL", help="address of the repository, for an index")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIR", help="default: dist/")
    parser.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="tests of the source distribution")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="turncredit-release-") as name:
            release(Path(name), arguments.output.resolve(), arguments.repository.rstrip("/"), arguments.tests)
    except Failure as failure:
        print(f"release: {failure}", file=sys.stderr)
        return 1
    return 0


def release(work: Path, output: Path, repository: str, tests: list[str]) -> None:
    """Run all steps in an empty folder.

    Raises:
        Failure: a step failed.
    """
    files = tracked()
    source = work / "source"
    copy(files, source, repository)
    address = setting(source)
    tools = work / "tools"
    step("tools", ["scripts/install", tools, "build", "twine", "check-wheel-contents"])
    built = work / "dist"
    step("build", [tools / "bin/python", "-m", "build", "--outdir", built, source], cwd=work)
    (archive,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    check_archive(archive, files)
    check_page(wheel, address)
    step("twine", [tools / "bin/twine", "check", "--strict", archive, wheel])
    step("wheel", [tools / "bin/check-wheel-contents", "--config", ROOT / "pyproject.toml", wheel])
    output.mkdir(parents=True, exist_ok=True)
    for path in (archive, wheel):
        shutil.copy2(path, output / path.name)
    try_wheel(output / wheel.name, work)
    if tests:
        run_tests(archive, work, tests)
    for path in (archive, wheel):
        say(f"{output / path.name}: {path.stat().st_size / 1e6:.1f} MB")
    if not address:
        say("for an index, name the address of the repository: --repository https://..., or in pyproject.toml")


def tracked() -> list[str]:
    """Return the files of the repository as paths in it: those that git has, or would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        raise Failure("a release is built from a clone, since git lists its files")
    return sorted(name for name in result.stdout.split("\0") if name and (ROOT / name).is_file())


def copy(files: list[str], folder: Path, repository: str) -> None:
    """Copy the files of the repository, with its address in pyproject.toml if there is one."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    if repository:
        project = folder / "pyproject.toml"
        text, count = SETTING.subn(f'repository = "{repository}"', project.read_text(encoding="utf-8"))
        if count != 1 or not re.fullmatch(r"https://[\w./~-]+", repository):
            raise Failure(f"expected an address such as https://github.com/OWNER/turncredit, got {repository!r}")
        project.write_text(text, encoding="utf-8")


def setting(folder: Path) -> str:
    """Return the address of the repository that a pyproject.toml names."""
    return SETTING.findall((folder / "pyproject.toml").read_text(encoding="utf-8"))[0]


def check_archive(archive: Path, files: list[str]) -> None:
    """Check that the source distribution holds the files of the repository and nothing else."""
    with tarfile.open(archive) as content:
        names = {member.name.partition("/")[2] for member in content.getmembers() if member.isfile()}
    missing = sorted(set(files) - names)
    more = sorted(name for name in names - set(files) if not GENERATED.fullmatch(name))
    if missing or more:
        raise Failure(f"the source distribution lacks {missing[:5]} (MANIFEST.in), and has {more[:5]} beside the files")
    say(f"the source distribution has all {len(files):,} files")


def check_page(wheel: Path, address: str) -> None:
    """Check the page that an index shows: whole addresses, and links of the project if there is one."""
    with zipfile.ZipFile(wheel) as content:
        (name,) = [name for name in content.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.parser.Parser().parsestr(content.read(name).decode("utf-8"))
    page = CODE.sub("", str(metadata.get_payload()))
    if relative := RELATIVE.findall(page):
        raise Failure(f"the page on an index has relative links: {relative[:5]}")
    if "<!--" in page or metadata["Description-Content-Type"] != "text/markdown":
        raise Failure("the page on an index is not Markdown, or holds a comment")
    links = re.findall(r"\]\(([^)]+)\)", page)
    own = [link for link in links if address and link.startswith(address)]
    for link in own:
        target = re.sub(r"^.*/(?:blob|raw)/v[^/]+/|#.*$", "", link)
        if not (ROOT / target).exists():
            raise Failure(f"the page on an index links to {link}, and there is no {target}")
    if bool(address) != bool(metadata.get_all("Project-URL")):
        raise Failure("the addresses of the project are missing, or lead nowhere")
    say(f"the page on an index has {len(links)} links and pictures, {len(own)} of them to the repository")


def try_wheel(wheel: Path, work: Path) -> None:
    """Install the wheel in a fresh environment, and use it where nothing else of the repository is."""
    env, here = work / "env", work / "here"
    here.mkdir()
    step("install", ["scripts/install", env, f"{wheel}[train]"])
    program = env / "bin/turncredit"
    origin = output_of([env / "bin/python", "-c", "import turncredit; print(turncredit.__file__)"], here).strip()
    if not Path(origin).is_relative_to(env):
        raise Failure(f"the fresh environment imports {origin}")
    step("verify", [program, "verify"], cwd=here)
    for kind in ("", "envs", "credit", "examples", "keys"):
        step(f"list {kind}".rstrip(), [program, "list", *kind.split()], cwd=here)
    for name in ENVIRONMENTS:
        step(name, [program, "eval", "expert", f"turncredit/{name}-v0", "--episodes", "2"], cwd=here)
    step("demo", [program, "train", "demo", *DEMO, "output=runs/demo"], cwd=here)
    step("report", [program, "report", "runs/demo"], cwd=here)
    try_remedy(env, here)


def try_remedy(env: Path, here: Path) -> None:
    """Run the command that a message about a missing package names, and see that the package is there then."""
    say_it = f"from turncredit.installation import installation_command as c; print(c({EXTRA!r}))"
    command = output_of([env / "bin/python", "-c", say_it], here).strip()
    path = {"PATH": f"{env / 'bin'}:{os.environ['PATH']}", "VIRTUAL_ENV": str(env)}
    step(
        command,
        ["sh", "-c", f"! python -c 'import httpx' 2>/dev/null && {command} && python -c 'import httpx'"],
        here,
        path,
    )


def run_tests(archive: Path, work: Path, tests: list[str]) -> None:
    """Run tests in the unpacked source distribution, which has no git and an environment of its own."""
    with tarfile.open(archive) as content:
        content.extractall(work / "unpacked", filter="data")
    (folder,) = (work / "unpacked").iterdir()
    step("install for tests", ["scripts/install", folder / ".venv", "-e", f"{folder}[dev]"])
    command = [folder / ".venv/bin/python", "-m", "pytest", "-q", "-m", "not slow and not waits", *tests]
    step("tests", command, cwd=folder, shown=True)


def step(
    name: str, command: list[object], cwd: Path = ROOT, variables: dict[str, str] | None = None, shown: bool = False
) -> None:
    """Run a command and print how long it took; its output appears if it fails.

    Raises:
        Failure: its exit code is not 0.
    """
    start = time.monotonic()
    env = {**os.environ, **(variables or {})}
    env.pop("PYTHONPATH", None)
    result = subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=not shown, text=True, check=False)
    if result.returncode:
        raise Failure(f"{name} failed\n{result.stdout or ''}{result.stderr or ''}")
    say(f"{name}: {time.monotonic() - start:.1f} s")


def output_of(command: list[object], cwd: Path) -> str:
    """Return what a command prints."""
    return subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=True).stdout


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
