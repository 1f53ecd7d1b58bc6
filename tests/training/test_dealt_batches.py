"""What rank 0 sends of a batch to another rank: the contents of its rows, and what cuts the batch as rank 0 does."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys.mixtures import by_prefix, with_experts
from toys.training_helpers import forked, random_advantages

from turncredit.agents.content import ImagePart
from turncredit.training.batch.batch import pack
from turncredit.training.batch.cutting import Cutting
from turncredit.training.batch.prefix_forest import common_prefixes, prefix_order, stand_ins
from turncredit.training.config.sections import ImitationSection
from turncredit.training.imitation.imitation import imitation_steps
from turncredit.training.learner.dealt_batch import DealtBatch
from turncredit.training.learner.gradient import with_gradient
from turncredit.training.learner.learner import split_minibatches
from turncredit.training.objectives import Objective

CUTTINGS = {"padded": Cutting(), "packed": Cutting(packed=True), "shared": Cutting(shared=True)}
ROWS = st.lists(st.lists(st.integers(0, 3), max_size=7), min_size=1, max_size=9)


@given(ROWS, st.data())
def test_stand_ins_begin_alike_and_are_ordered_as_the_rows_wherever_they_end(rows, data):
    lengths = np.array([len(row) for row in rows])
    tokens = np.zeros((len(rows), max(lengths)), dtype=np.int64)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = row
    numbers = stand_ins(tokens, lengths)
    chosen = np.array(data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True, min_size=1)))
    ends = np.array([data.draw(st.integers(0, int(lengths[row]))) for row in chosen])
    order = prefix_order(tokens[chosen], ends)
    assert np.array_equal(prefix_order(numbers[chosen], ends), order)
    ours, theirs = (common_prefixes(table[chosen][order], ends[order]) for table in (numbers, tokens))
    assert np.array_equal(ours, theirs)


def batch_of(*, experts=False, images=False):
    rng = np.random.default_rng(4)
    groups = forked(rng, groups=3)
    if experts:
        groups = with_experts(groups, by_prefix((2, 2, 4)))
    batch = pack(groups, random_advantages(rng, groups, 0.2), merge=False)
    if not images:
        return batch
    parts = tuple((ImagePart(np.full((2, 2, 3), row, np.uint8)),) for row in range(len(batch)))
    return replace(batch, images=parts)


def dealt(batch, objective, cutting, ranks, *, steps=2, seed=3):
    cuts = split_minibatches(batch, steps, seed)
    parts = [(index, with_gradient(batch.rows(index), objective)) for index in cuts]
    return DealtBatch.of(batch, parts, cutting, ranks)


@pytest.mark.parametrize("name", CUTTINGS)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("what", [{}, {"experts": True}, {"images": True}])
@pytest.mark.parametrize("objective", [Objective(), Objective(entropy=0.1), Objective(name="gspo")], ids=str)
def test_a_rank_cuts_its_batch_as_rank_0_does_and_has_all_that_it_computes(name, ranks, what, objective):
    batch, cutting = batch_of(**what), CUTTINGS[name]
    whole = dealt(batch, objective, cutting, ranks)
    cuts = split_minibatches(batch, 2, 3)
    for rank in range(1, ranks):
        received = pickle.loads(pickle.dumps(whole.part(rank)))
        assert [np.array_equal(*pair) for pair in zip(split_minibatches(received, 2, 3), cuts, strict=True)] == [
            True
        ] * 2
        computed = []
        for index in cuts:
            mine, theirs = (with_gradient(part.rows(index), objective) for part in (received, batch))
            assert np.array_equal(mine.weights("token-mean"), theirs.weights("token-mean"))
            for budget in (10, 40):
                pairs = [cutting.cuts(part, budget, ranks) for part in (mine, theirs)]
                assert [[rows.tolist() for rows in one] for one in pairs[0]] == [
                    [rows.tolist() for rows in one] for one in pairs[1]
                ]
                assert [cutting.tokens(mine, rows) for rows in pairs[0][rank]] == [
                    cutting.tokens(theirs, rows) for rows in pairs[1][rank]
                ]
            computed += [int(row) for rows in pairs[0][rank] for row in index[rows]]
        own = whole.rows[rank].tolist()
        assert set(computed) <= set(own)
        for row in range(len(batch)):
            if row in own:
                assert np.array_equal(received.tokens[row], batch.tokens[row])
                assert received.images is None or received.images[row] == batch.images[row]
                assert received.experts is None or np.array_equal(received.experts[row], batch.experts[row])
            else:
                assert not received.tokens[row].any()
                assert received.images is None or received.images[row] == ()
                assert received.experts is None or received.experts[row] is None


def imitated(batch, cutting, ranks, *, epochs=1):
    section = ImitationSection(batch_tokens=60, epochs=epochs)
    steps = [rows for _, rows in imitation_steps(batch.lengths, section, seed=5)]
    return steps, DealtBatch.of(batch, [(index, batch.rows(index)) for index in steps], cutting, ranks)


@pytest.mark.parametrize("name", CUTTINGS)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("what", [{}, {"images": True}])
@pytest.mark.parametrize("epochs", [1, 3])
def test_a_rank_imitates_what_it_would_of_the_whole_batch(name, ranks, what, epochs):
    batch, cutting = batch_of(**what), CUTTINGS[name]
    steps, whole = imitated(batch, cutting, ranks, epochs=epochs)
    for rank in range(1, ranks):
        received = pickle.loads(pickle.dumps(whole.part(rank)))
        computed = set()
        for index in steps:
            mine, theirs = received.rows(index), batch.rows(index)
            assert mine.advantages.sum() == theirs.advantages.sum()
            assert np.array_equal(mine.mask & (mine.turn >= 0), theirs.mask & (theirs.turn >= 0))
            cuts = [[rows.tolist() for rows in cutting.cuts(part, 40, ranks)[rank]] for part in (mine, theirs)]
            assert cuts[0] == cuts[1]
            computed.update(int(index[row]) for rows in cuts[0] for row in rows)
        assert computed == set(whole.rows[rank].tolist())
        for row in computed:
            assert np.array_equal(received.tokens[row], batch.tokens[row])
            assert received.images is None or received.images[row] == batch.images[row]
        assert not received.tokens[[row for row in range(len(batch)) if row not in computed]].any()


def test_in_one_epoch_each_demonstration_goes_to_one_rank():
    batch = batch_of(images=True)
    _, whole = imitated(batch, Cutting(), 4)
    assert sorted(row for rows in whole.rows for row in rows.tolist()) == list(range(len(batch)))


def test_ranks_divide_the_contents():
    """Rows with images have hundreds of bytes here; each goes to one rank."""
    batch = batch_of(images=True)
    batch = replace(
        batch,
        images=tuple(
            (ImagePart(np.random.default_rng(row).integers(0, 255, (40, 40, 3), np.uint8)),)
            for row in range(len(batch))
        ),
    )
    whole = dealt(batch, Objective(entropy=0.1), Cutting(), 4, steps=1)
    sizes = [len(pickle.dumps(whole.part(rank))) for rank in range(4)]
    assert sum(sizes) < 1.3 * len(pickle.dumps(batch))
    assert sorted(row for rows in whole.rows for row in rows.tolist()) == list(range(len(batch)))
