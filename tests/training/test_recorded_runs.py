"""The archives in docs/recorded_runs: complete seeds, paired tasks, nothing of the machine that wrote them."""

from __future__ import annotations

import re
import tarfile
from collections import defaultdict
from pathlib import Path

import pytest

from turncredit.ablation.plan import read_plan
from turncredit.ablation.results import ablation_results

FOLDER = Path(__file__).parents[2] / "docs" / "recorded_runs"
ARCHIVES = sorted(FOLDER.glob("*.tar.xz"))
PLACE = re.compile(rb'["\s]/(home|root|tmp|work|Users)/')


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """The folders in the archives, by the name of the ablation."""
    folders = defaultdict(list)
    for archive in ARCHIVES:
        folder = tmp_path_factory.mktemp(archive.name.partition(".")[0])
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        for name in folder.iterdir():
            folders[name.name].append(name)
    return dict(folders)


def test_the_index_names_every_archive() -> None:
    named = set(re.findall(r"`([\w-]+\.tar\.xz)`", (FOLDER / "README.md").read_text(encoding="utf-8")))
    assert named == {archive.name for archive in ARCHIVES}
    assert ARCHIVES


def test_every_seed_is_complete_and_paired(unpacked: dict[str, list[Path]]) -> None:
    for folders in unpacked.values():
        for folder in folders:
            plan = read_plan(folder)
            results = ablation_results(plan)
            # an adapter that is merged in bfloat16 rounds, so some episodes go on otherwise
            same = plan.base["policy"].get("dtype") != "bfloat16"
            seeds = {seed for seed, entry in results["warm_start"]["seeds"].items() if entry["state"] == "finished"}
            assert seeds
            for name, arm in results["arms"].items():
                finished = {seed for seed, entry in arm["seeds"].items() if entry["state"] == "finished"}
                assert finished == seeds, (folder.name, name)
                for seed in seeds:
                    assert arm["seeds"][seed]["begins_as_the_warm_start"] or not same, (folder.name, name, seed)


def test_no_seed_stands_in_two_archives(unpacked: dict[str, list[Path]]) -> None:
    for name, folders in unpacked.items():
        seeds = [path.name for folder in folders for path in (folder / "warm-start").iterdir()]
        assert len(set(seeds)) == len(seeds), name


def test_nothing_tells_where_they_were_written() -> None:
    for archive in FOLDER.rglob("*.tar.xz"):
        with tarfile.open(archive) as file:
            for member in file:
                content = file.extractfile(member)
                assert content is None or not PLACE.search(content.read()), (archive.name, member.name)
