"""How the batches of a run become optimizer steps: one plan for each iteration."""

from dataclasses import dataclass, replace
from functools import partial

from turncredit.training.config.sections import TrainSection
from turncredit.training.config.seeds import Seeds
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.optimizers import learning_rate


@dataclass(frozen=True, slots=True)
class UpdatePlans:
    """The plans of a run.

    Attributes:
        section: the `[train]` section.
        seeds: seeds of the split into mini-batches.
        temperature: sampling temperature of the batches.
        processes: number of processes that compute gradients.
    """

    section: TrainSection
    seeds: Seeds
    temperature: float
    processes: int

    def again(self, iterations: int) -> UpdatePlan:
        """Return the plan of one more optimizer step, for stored episodes, at the end of an iteration."""
        plan = self.after(iterations)
        rates = None if plan.rates is None else plan.rates[-1:]
        return replace(plan, optimizer_steps=1, rates=rates, seed=self.seeds.of("replay", iterations), version=None)

    def after(self, iterations: int) -> UpdatePlan:
        """Return the plan of the iteration that follows a number of finished ones."""
        section = self.section
        first, total = iterations * section.optimizer_steps, section.iterations * section.optimizer_steps
        schedule = section.schedule
        rate = partial(learning_rate, total=total, peak=section.lr, schedule=schedule.name, warmup=schedule.warmup)
        return UpdatePlan(
            optimizer_steps=section.optimizer_steps,
            micro_tokens=section.micro_batch.tokens,
            grad_clip=section.optimizer.grad_clip,
            temperature=self.temperature,
            seed=self.seeds.of("deal", iterations),
            processes=self.processes,
            rates=[rate(first + number) for number in range(section.optimizer_steps)],
            version=iterations,
        )
