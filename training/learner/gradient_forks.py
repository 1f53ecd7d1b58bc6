"""Forks of this process that compute their shares of the optimizer steps of one update, on a CPU.

They begin with the model and the mini-batches of the update. Before every step but the first they receive the weights,
and afterwards they send gradients and sums, which are added in their order: repeated, it gives the same bits.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray

from turncredit.processes.child_process import ProcessDied, result_of
from turncredit.processes.forks import ForkedProcess, ForkPipe
from turncredit.training.batch.batch import Batch
from turncredit.training.errors import TrainingError
from turncredit.training.learner.gradient import MiniBatch, UpdateMeter, UpdatePlan, mini_batch
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.objectives.run_objective import Objective


@dataclass(frozen=True, slots=True)
class _Step:
    """What a fork is to compute."""

    number: int
    plan: UpdatePlan
    first: bool
    weights: list[NDArray[Any]]


class UpdateForks:
    """The other processes of an update, if there are any; as a context they end with it.

    Args:
        scorer: of the policy.
        parts: the mini-batches of all steps.
        objective: the loss.
        processes: how many there are, this one included.
    """

    def __init__(self, scorer: TokenScorer, parts: Sequence[Batch], objective: Objective, processes: int) -> None:
        self._scorer, self._parts, self._objective, self._processes = scorer, parts, objective, processes
        self._parameters = [parameter for parameter in scorer.model.parameters() if parameter.requires_grad]
        self._forks: list[ForkedProcess[None]] = []
        self._stack = ExitStack()

    def __enter__(self) -> "UpdateForks":
        for share in range(1, self._processes):
            self._forks.append(self._stack.enter_context(ForkedProcess(partial(self._serve, share))))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def accumulate(self, number: int, whole: MiniBatch) -> None:
        """Accumulate the gradient of a mini-batch, each process that of its rows.

        Raises:
            TrainingError: a process has ended.
        """
        if not self._forks or not whole.divisible:
            whole.accumulate()
            return
        weights = [weight.detach().numpy() for weight in self._parameters] if number else []
        step = _Step(number, whole.plan, not whole.meter.norms, weights)
        try:
            for fork in self._forks:
                fork.send(step)
            try:
                whole.share(self._rows(whole, 0)).accumulate()
            finally:  # answers that nobody takes would be those of the next step
                answers = [next(fork.messages()) for fork in self._forks]
        except ProcessDied as error:
            raise TrainingError(
                f"one of the {self._processes} processes of an update ended: {error}; --resume continues from the last "
                "checkpoint"
            ) from error
        for problem, _ in answers:
            if problem is not None:
                raise problem
        for _, (gradients, meter) in answers:
            for parameter, gradient in zip(self._parameters, gradients, strict=True):
                if gradient is not None:
                    more = torch.from_numpy(gradient)
                    parameter.grad = more if parameter.grad is None else parameter.grad + more
            whole.meter.loss[-1] += meter.loss[-1]
            whole.meter.include(meter)

    def _rows(self, whole: MiniBatch, share: int) -> NDArray[Any]:
        return self._scorer.cutting.deal(whole.part, self._processes)[share]

    def _serve(self, share: int, pipe: ForkPipe) -> None:
        """Compute one step after another, in a fork, until it is killed."""
        while True:
            step = pipe.receive()
            pipe.send(result_of(partial(self._compute, share, step)))

    def _compute(self, share: int, step: _Step) -> tuple[list[NDArray[Any] | None], UpdateMeter]:
        with torch.no_grad():
            for parameter, weights in zip(self._parameters if step.weights else (), step.weights, strict=True):
                parameter.copy_(torch.from_numpy(weights))
        self._scorer.model.zero_grad(set_to_none=True)
        meter = UpdateMeter(step.plan.version)
        if not step.first:
            meter.norms.append(0.0)  # the weights are no longer those that sampled
        whole = mini_batch(self._scorer, self._parts[step.number], self._objective, step.plan, meter)
        whole.share(self._rows(whole, share)).accumulate()
        return [None if weight.grad is None else weight.grad.numpy() for weight in self._parameters], meter
