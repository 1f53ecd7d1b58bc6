"""The archives in docs/recorded_runs: complete seeds, paired tasks, nothing of the machine that wrote them."""

from __future__ import annotations

import re
import tarfile
from collections import defaultdict
from pathlib import Path

import pytest

from turncredit.ablation.plan import read_plan
from turncredit.ablation.results import ablation_results
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.trajectory import grouped
from turncredit.credit.truth import density, reliability
from turncredit.training.run_folder.paths import trajectory_file
from turncredit.training.truth.fork_records import ForkFile, truth_file
from turncredit.training.truth.measuring import TruthTable

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


def test_the_page_about_the_truth_has_the_numbers_of_the_stored_forks(tmp_path: Path) -> None:
    with tarfile.open(FOLDER / "truth" / "household.tar.xz") as file:
        file.extractall(tmp_path, filter="data")
    run = tmp_path / "truth-household"
    assert not [path for path in run.rglob("*") if path.is_file() and PLACE.search(path.read_bytes())]
    measured = []
    for iteration in (21, 30):
        trajectories = trajectory_file(run, iteration)
        forks = ForkFile.read(truth_file(trajectories))
        table = TruthTable.of(grouped(read_trajectories(trajectories)), forks, chance=False)
        truth = table.estimate(0.95, 0.1)
        assert set(table.counts().tolist()) == {16}
        measured.append((truth, table, reliability(truth), density(truth)))
    (first, one, *of_first), (second, two, *of_second) = measured
    shares = [100 * spread.significant for spread in (of_first[1], of_second[1])]
    tops = [100 * spread.top_tenth for spread in (of_first[1], of_second[1])]
    page = " ".join((FOLDER.parent / "truth.md").read_text(encoding="utf-8").split())
    for sentence in (
        f"16 forks of {len(one.histories)} and {len(two.histories)} different histories "
        f"(of {len(first):,} and {len(second):,} turns) gave reliabilities of "
        f"{of_first[0]:.2f} and {of_second[0]:.2f}.",
        f"{shares[0]:.1f} and {shares[1]:.1f} % of the turns have an advantage beyond two standard errors, and the top "
        f"tenth of the turns holds {tops[0]:.0f} and {tops[1]:.0f} % of all",
        f"where {second.significant.sum()} turns are beyond two standard errors and not {first.significant.sum()}",
    ):
        assert sentence in page
