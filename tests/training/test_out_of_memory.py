"""When memory runs out: the step is computed again with half the micro-batch, and the result does not change."""

import copy

import numpy as np
import pytest
import torch
from toys.training_helpers import play, random_advantages, tiny_llama

from turncredit.training.batch.batch import pack
from turncredit.training.config.sections import ImitationSection
from turncredit.training.errors import NotEnoughMemory
from turncredit.training.imitation.imitation import demonstration_batch, imitate
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.out_of_memory import out_of_memory
from turncredit.training.objectives import Objective

torch.set_num_threads(1)


def made(seed=0):
    rng = np.random.default_rng(seed)
    groups = play(rng, groups=3, size=4)
    return groups, pack(groups, random_advantages(rng, groups))


def scarce(most, error=torch.OutOfMemoryError, **options):
    """A learner whose memory holds `most` tokens, with the notes that it gives and the sizes that it computed."""
    model, sizes, notes = tiny_llama(), [], []
    learner = Learner(model, None, lr=1e-2, note=notes.append, **options)

    def forward(module, args, kwargs):
        sizes.append(kwargs["input_ids"].numel())
        if sizes[-1] > most:
            raise error("CUDA out of memory. Tried to allocate 2 GiB")

    model.model.register_forward_pre_hook(forward, with_kwargs=True)
    return learner, notes, sizes


def weights(learner):
    return torch.cat([parameter.detach().flatten() for parameter in learner.model.parameters()])


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize("name", ["ppo_clip", "gspo", "kl_cov"])
def test_the_step_is_computed_again_with_the_same_result(name, packing):
    _, batch = made()
    plan = UpdatePlan(optimizer_steps=2, micro_tokens=400)
    plenty = Learner(tiny_llama(), None, lr=1e-2, packing=packing)
    wanted = plenty.update(batch, Objective(name=name), plan)
    learner, notes, sizes = scarce(60, packing=packing)
    found = learner.update(batch, Objective(name=name), plan)
    torch.testing.assert_close(weights(learner), weights(plenty), rtol=0, atol=1e-6)
    for key in ("loss", "grad_norm", "entropy", "gap", "gap_max", "tokens", "updates", "clip_fraction"):
        assert found[key] == pytest.approx(wanted[key], rel=1e-7), key
    assert max(sizes) > 60
    assert learner.limit.tokens <= 60
    assert notes
    assert f"with {learner.limit.tokens:,} (set train.micro_batch = {learner.limit.tokens}" in notes[-1]
    sizes.clear()
    learner.update(batch, Objective(name=name), plan)
    assert max(sizes) <= 60  # the limit is remembered


def test_scores_are_computed_again():
    _, batch = made()
    learner, notes, _ = scarce(60)
    found = learner.score(batch, micro_tokens=1000)
    np.testing.assert_allclose(found.logprobs, Learner(tiny_llama(), None).score(batch).logprobs, atol=1e-9)
    assert notes


def test_imitation_is_computed_again():
    groups, _ = made()
    batch = demonstration_batch(groups, None, context=100)
    plenty = Learner(tiny_llama(), None)
    learner, notes, _ = scarce(60)
    section = ImitationSection(batch_tokens=200)
    wanted, found = (imitate(one, batch, section, micro_tokens=1000) for one in (plenty, learner))
    assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-6)
    torch.testing.assert_close(weights(learner), weights(plenty), rtol=0, atol=1e-6)
    assert notes


def test_one_sequence_that_does_not_fit_ends_the_run_with_a_sentence():
    _, batch = made()
    learner, _, _ = scarce(int(batch.lengths.max()) - 1)
    before = weights(learner).clone()
    with pytest.raises(
        NotEnoughMemory, match=r"memory ran out with a single sequence of \d+ tokens per micro-batch; set"
    ):
        learner.update(batch, Objective(), UpdatePlan())
    assert torch.equal(weights(learner), before)


def test_the_limit_is_part_of_the_state():
    _, batch = made()
    learner, _, _ = scarce(60)
    assert "micro_tokens" not in learner.state()
    learner.update(batch, Objective(), UpdatePlan())
    other = Learner(tiny_llama(), None)
    other.load_state(copy.deepcopy(learner.state()))
    assert other.limit.tokens == learner.limit.tokens


def test_other_errors_are_raised():
    _, batch = made()
    learner, notes, sizes = scarce(60, error=RuntimeError)
    with pytest.raises(RuntimeError, match="Tried to allocate"):
        learner.score(batch, micro_tokens=1000)
    assert not notes
    assert len(sizes) == 1


def test_the_cpus_own_error_is_understood():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**58)
    assert out_of_memory(caught.value)
    assert out_of_memory(MemoryError())
    assert not out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))
