"""SLEA: clusters by text are GiGPO's, clusters by embedding are those of their directions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turncredit.credit import BadTable, MissingColumn, Steps, gigpo, slea
from turncredit.credit.similarity import similar_vectors


def seen(vectors, tasks=None):
    count = len(vectors)
    return Steps.from_columns(
        task=tasks or ["t"] * count, trajectory=range(count), turn=[0] * count, reward=np.arange(count) * 1.0,
        metric=np.asarray(vectors, dtype=float),
    )  # fmt: skip


@given(rows(), st.sampled_from([0.3, 0.85, 1.0]), st.sampled_from(["none", "std"]))
@settings(max_examples=60, deadline=None)
def test_by_text_it_is_gigpo_with_similarity(table, threshold, scale):
    table = [{**row, "state": row["state"] * 2 + "tail"} for row in table]
    steps = Steps.from_rows(table)
    expected = gigpo(steps, similarity=threshold, scale=scale)
    assert slea(steps, threshold=threshold, scale=scale).values.tolist() == expected.values.tolist()


def test_by_embedding_by_hand():
    """Directions 0, 30 and 60 degrees: cosine 0.87 from each to the next, 0.5 over two. Sorted by their numbers, 60
    degrees (0.5, 0.87) leads, 30 joins it, and 0 leads anew. Rewards 0, 1, 2: only the last two are compared."""
    angles = np.deg2rad([0.0, 30.0, 60.0])
    steps = seen(np.column_stack([np.cos(angles), np.sin(angles)]) * [[1.0], [5.0], [0.1]])
    clusters = similar_vectors(steps, 0.85)
    assert clusters[1] == clusters[2] != clusters[0]
    assert slea(steps, by="embedding", scale="none").parts["step"].tolist() == [0.0, -0.5, 0.5]
    assert not slea(steps, by="embedding", threshold=0.9, scale="none").parts["step"].any()
    assert len(set(similar_vectors(steps, 0.49).tolist())) == 1


def test_embeddings_of_two_tasks_are_never_one_cluster():
    clusters = similar_vectors(seen([[1.0, 0.0], [1.0, 0.0]], ["t", "u"]), 0.5)
    assert clusters[0] != clusters[1]


def test_a_huge_embedding_points_somewhere_and_a_zero_one_nowhere():
    assert len(set(similar_vectors(seen([[1e90, 0.0], [1e-90, 0.0]]), 0.99).tolist())) == 1
    with pytest.raises(BadTable, match="row 1 has an embedding of zeros"):
        slea(seen([[1.0, 0.0], [0.0, 0.0]]), by="embedding")


def test_one_number_is_an_embedding_too():
    assert len(set(similar_vectors(seen([2.0, 3.0, -1.0]), 0.9).tolist())) == 2


def test_it_says_what_is_missing_or_wrong():
    with pytest.raises(MissingColumn, match="slea needs the column 'metric'"):
        slea(Steps.from_rows(episode("t", 0, [1.0], "s")), by="embedding")
