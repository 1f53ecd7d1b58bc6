"""The expert: retrieves every passage that the answer depends on by its own searches, then answers.

It knows the gold passages and the answer. A query that does not retrieve the passage is replaced by another one, and a
passage that no query retrieves is skipped.
"""

from __future__ import annotations

from collections.abc import Collection

from turncredit.envs.errors import EnvError
from turncredit.envs.search.search_engine import SearchEngine
from turncredit.envs.search.task_sources import SearchTask

__all__ = ["plan_queries"]


def plan_queries(
    task: SearchTask, engine: SearchEngine, topk: int, seen: Collection[str], searches: int | None = None
) -> list[str]:
    """Return queries that retrieve the gold passages not seen yet, in the order in which they are needed.

    Args:
        task: the question and the hints for its gold passages.
        engine: the search engine.
        topk: passages per search.
        seen: ids of passages seen before.
        searches: remaining number of searches; None for no limit.
    """
    queries: list[str] = []
    shown = set(seen)
    for hint in task.hints:
        if hint.id in shown or (searches is not None and len(queries) >= searches):
            continue
        for query in hint.queries:
            try:
                ids = {passage.id for passage in engine.find(query, topk)}
            except EnvError:  # the search is down, so only the answer remains
                return queries
            if hint.id in ids:
                queries.append(query)
                shown |= ids
                break
    return queries
