"""Whole groups, losses and successes of earlier iterations."""

from __future__ import annotations

import math

from numpy.random import Generator

from turncredit.credit.option_checks import check_number
from turncredit.curriculum.replay import ReplayBatch
from turncredit.curriculum.stored_episodes import Index, StoredEpisode


def dots_rr(index: Index, *, iteration: int, rng: Generator, groups: int = 8, first: int = 1) -> ReplayBatch:
    """Return the episodes of whole stored groups, drawn at random, with the advantages that they had.

    Args:
        index: the stored episodes; use experience with keep = "mixed", and per_task of a group's size.
        iteration: number of finished iterations.
        rng: draws.
        groups: number of groups.
        first: iterations before the first replay.

    Source: Sun et al. 2025 (DOTS and rollout replay), arXiv 2506.05316, which replaces a part of the batch; ours is
    one more batch.
    """
    check_number("groups", groups, 1, whole=True)
    check_number("first", first, 0, whole=True)
    stored = _groups(index, before=iteration - 1)
    if not stored or iteration <= first:
        return ReplayBatch()
    names = sorted(stored)
    chosen = [names[position] for position in rng.permutation(len(names))[:groups]]
    return _as_they_were([episode for name in chosen for episode in stored[name]])


def rorecomp(
    index: Index, *, iteration: int, total: int, batch: int = 64, least: int = 2, most: int = 8, state: int = 0
) -> ReplayBatch:
    """Return the oldest stored episodes once every few iterations, at last every `most`.

        K = least + (most - least) (1 - cos(pi iteration / total)) / 2

    Args:
        index: the stored episodes; use experience with keep = "all" and the group rule of the same name.
        iteration: number of finished iterations.
        total: iterations of the run.
        batch: episodes of the batch.
        least: iterations between two batches at the beginning of the run.
        most: at its end.
        state: iteration of the last batch.

    Source: RoRecomp, arXiv 2509.25958; the intervals are our reading.
    """
    check_number("batch", batch, 1, whole=True)
    check_number("least", least, 1, whole=True)
    check_number("most", most, least, whole=True)
    interval = least + (most - least) * (1.0 - math.cos(math.pi * iteration / max(1, total))) / 2.0
    if iteration - state < interval or not len(index):
        return ReplayBatch(state=state)
    replay = _as_they_were([episode for episode in index.episodes if not episode.uses][:batch])
    return ReplayBatch(replay.ids, replay.advantage, state=iteration)


def successes(
    index: Index, *, rng: Generator, count: int = 16, advantage: float = 1.0, weight: float = 0.5
) -> ReplayBatch:
    """Return stored successes, at most one of a task and the shortest of it, with a constant advantage.

    Args:
        index: the stored episodes; use experience with order = "shortest".
        rng: draws the tasks.
        count: number of episodes.
        advantage: of every turn.
        weight: factor of it.

    Source: ours, for agents whose first wins are long.
    """
    check_number("count", count, 1, whole=True)
    check_number("advantage", advantage, 0.0)
    check_number("weight", weight, 0.0)
    best: dict[str, StoredEpisode] = {}
    for episode in index.episodes:
        if episode.won and (episode.task not in best or episode.turns < best[episode.task].turns):
            best[episode.task] = episode
    tasks = sorted(best)
    chosen = [best[tasks[position]].id for position in rng.permutation(len(tasks))[:count]]
    return ReplayBatch(tuple(chosen), (advantage,) * len(chosen), weight)


def _groups(index: Index, before: int) -> dict[tuple[int, str], list[StoredEpisode]]:
    groups: dict[tuple[int, str], list[StoredEpisode]] = {}
    for episode in index.episodes:
        if episode.iteration < before:
            groups.setdefault((episode.iteration, episode.task), []).append(episode)
    return groups


def _as_they_were(episodes: list[StoredEpisode]) -> ReplayBatch:
    return ReplayBatch(tuple(episode.id for episode in episodes), tuple(episode.advantage for episode in episodes))
