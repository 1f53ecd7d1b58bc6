"""The table of objectives where torch is not installed."""

from __future__ import annotations

import subprocess
import sys

from turncredit.cli.listing import objective_list
from turncredit.installation import installation_command

BLOCKED = """
import importlib.util, sys
sys.modules["torch"] = None
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "torch" else real(name, package)
from turncredit.cli.main import main
sys.argv = ["turncredit", *sys.argv[1:]]
main()
"""


def without_torch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCKED, *words], capture_output=True, text=True, check=False)


def test_the_sources_say_what_the_registries_say() -> None:
    assert objective_list.from_sources() == objective_list.from_modules()


def test_the_list_needs_no_torch() -> None:
    done = without_torch("list", "objectives")
    assert done.returncode == 0, done.stderr
    assert "ppo_clip" in done.stdout
    assert "correction=icepop" in done.stdout


def test_without_torch_the_demo_announces_no_training() -> None:
    done = without_torch("demo")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("turncredit: this command needs torch, which is not installed: ")
    assert installation_command("train") in done.stderr
