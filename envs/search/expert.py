"""The expert: looks up every passage that the answer needs, through the search that the agent has, and answers.

It knows which passages are needed and what the answer is; how to find them it does not: a query that does not bring
the passage is given up for another one, and a passage that none brings is left out.
"""

from __future__ import annotations

from collections.abc import Collection

from turnwise.envs.errors import EnvError
from turnwise.envs.search.search_engine import SearchEngine
from turnwise.envs.search.task_sources import SearchTask

__all__ = ["plan_queries"]


def plan_queries(
    task: SearchTask, engine: SearchEngine, topk: int, seen: Collection[str], searches: int | None = None
) -> list[str]:
    """Return queries that bring the gold passages which were not seen yet, in the order in which they are needed.

    Args:
        task: the question, with what is known of the way to its answer.
        engine: the search.
        topk: passages that a search shows.
        seen: ids of passages that were shown before.
        searches: how many searches are left; None for any number.
    """
    queries: list[str] = []
    shown = set(seen)
    for hint in task.hints:
        if hint.id in shown or (searches is not None and len(queries) >= searches):
            continue
        for query in hint.queries:
            try:
                found = {passage.id for passage in engine.find(query, topk)}
            except EnvError:  # nothing can be found now: the answer alone remains
                return queries
            if hint.id in found:
                queries.append(query)
                shown |= found
                break
    return queries
