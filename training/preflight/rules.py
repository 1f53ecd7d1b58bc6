"""The rules across keys: each is a condition under which a run is refused, and the sentence that says why.

Bounds of one key are in `turncredit.training.config.sections`, and names and options are checked by what they name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from turncredit.engines.base import MODEL_FREE
from turncredit.engines.cluster.checks import check_address, own_cores, require_ray
from turncredit.envs import demonstrators
from turncredit.envs.info import ADMISSIBLE
from turncredit.registry import suggest
from turncredit.training.config.demonstrators import plays
from turncredit.training.config.run import Run
from turncredit.training.config.stage_runs import check_stages, stage_runs
from turncredit.training.errors import ConfigError
from turncredit.training.learner.policy import device_of
from turncredit.training.objectives import Objective, objectives
from turncredit.training.preflight.effects import set_without_effect, without_effect
from turncredit.training.preflight.needs_of_rules import (
    cannot_fork,
    credit_rule,
    has_expert,
    lacks_expert,
    lacks_forks,
    opened,
    replaying,
    showing_plans,
    unfilled,
)
from turncredit.training.preflight.right_or_wrong import thresholds_behind_grades, why_not

FIELDS = {
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("logit_bias", "logits_processors", "allowed_token_ids", "bad_words", "min_tokens", "response_format"),
    *("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
}
"""Fields of a request to a server that decide which distribution it samples from."""


RECORDING = ("transformers", "vllm")
"""Engines that can record the experts of each token."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule across keys.

    Attributes:
        broken: whether a run breaks it.
        sentence: what is wrong, and what to do. In a text, {run} stands for the run.
    """

    broken: Callable[[Run], bool]
    sentence: str | Callable[[Run], str]

    def text(self, run: Run) -> str:
        """Return the sentence for a run that breaks it."""
        return self.sentence.format(run=run) if isinstance(self.sentence, str) else self.sentence(run)


def check_rules(run: Run) -> None:
    """Refuse a run that breaks a rule; the first one is named.

    Raises:
        ConfigError: it has the sentence of the rule.
        TrainingError, EnvError, CreditError, AgentError: a name or an option that a rule looks at is wrong.
    """
    check_stages(run)
    for changed in stage_runs(run) or [run]:
        for rule in RULES:
            if rule.broken(changed):
                raise ConfigError(rule.text(changed))


# -- what the rules look at --


def _changed_fields(run: Run) -> list[str]:
    """Return which fields of requests to a server the run changes that decide what it samples from."""
    options = run.sampler.options
    return sorted(FIELDS & {*options.get("body", {}), *options.get("omit", ())})


def _copies_4_bits(run: Run) -> bool:
    """Whether an engine in this process samples from a copy of weights that are in 4 bits."""
    copied = bool(run.train.asynchronous) or run.sampler.dtype not in ("", run.policy.dtype)
    return run.policy.lora.get("bits") == 4 and run.sampler.engine == "transformers" and copied


def _lacks_cores(run: Run) -> bool:
    """Whether a cluster on this machine needs more cores than it has; the address of another one is tried."""
    if not run.cluster.address or require_ray().is_initialized():  # by a program of the user's own, as it likes
        return False
    check_address(run.cluster.address)
    return run.cluster.address == "local" and run.cluster.engines.count * run.cluster.cpus > own_cores()


def _missing_cores(run: Run) -> str:
    section = run.cluster
    engines = section.engines.count
    return (
        f"cluster.engines = {engines} with cluster.cpus = {section.cpus:g} need "
        f"{engines * section.cpus:g} cores, and this machine has {own_cores()}; lower one of them, or join a "
        "larger cluster with cluster.address"
    )


def _is_unknown_demonstrator(run: Run) -> bool:
    section = run.imitation
    read = bool(section.episodes) and not plays(section, run.env.id)
    path = Path(section.demonstrator.name).expanduser()
    return read and not path.is_file() and not (path / "trajectories").is_dir()


def _unknown_demonstrator(run: Run) -> str:
    name = run.imitation.demonstrator.name
    return (
        f"imitation.demonstrator {name!r} is neither a file or folder of trajectories, nor a sampler such as "
        f"openai:MODEL@URL, nor a known demonstrator{suggest(name, {'expert', *demonstrators(run.env.id)})}"
    )


def _cannot_list_actions(run: Run) -> bool:
    """Whether demonstrations have noise, and no environment, which is opened then, lists its actions."""
    if not run.imitation.demonstrator.noise or not plays(run.imitation, run.env.id):
        return False
    return all(ADMISSIBLE not in env.reset(seed=0)[1] for env in opened(run, run.demonstration_kwargs()))


def _replaying(broken: Callable[[Run], bool], reason: str) -> Rule:
    """Return a rule for runs that replay the experts of tokens."""
    return Rule(lambda run: run.train.routing_replay and broken(run), f"train.routing_replay: {reason}")


def _forking(holds: Callable[[Run], bool], sentence: str | Callable[[Run], str]) -> Rule:
    """Return a rule of runs in which episodes are forked, to train on them or for their values."""
    return Rule(lambda run: bool(run.train.forks.where or run.train.forks.values) and holds(run), sentence)


def _treats_stale_as_fresh(run: Run) -> bool:
    objective = Objective.from_section(run.objective)
    return bool(_older(run)) and not objective.corrects_stale(run.objective.old_logprobs == "recomputed")


def _older(run: Run) -> str:
    """Return what makes the run train on samples of older weights; empty if nothing does."""
    if run.train.asynchronous:
        return f"train.staleness{'' if run.train.staleness.updates else '.spare_groups'} > 0"
    return replaying(run)


def _anneals(run: Run) -> bool:
    from turncredit.agents.annealing import annealed

    return annealed(run.agent.temperature)[1] is not None


def _compares_groups(run: Run) -> bool:
    return Objective.from_section(run.objective).whole_groups


def _stale(run: Run) -> str:
    able = ", ".join(name for name, info in objectives().items() if info.older != "not")
    advice = (
        'set objective.correction, such as "tis_token", or objective.name to "decoupled"'
        if run.objective.old_logprobs == "recomputed"
        else f"choose one of {able}"
    )
    return (
        f"{_older(run)} trains on samples of older weights, which objective.name = {run.objective.name!r} with "
        f"objective.old_logprobs = {run.objective.old_logprobs!r} does not correct: {advice}"
    )


def _forked(reason: str, holds: Callable[[Run], bool]) -> Rule:
    """Return the rule that several processes, which are forked, are refused for a reason."""
    return Rule(
        lambda run: run.processes > 1 and holds(run),
        f"processes = {{run.processes}} works on a CPU and in one thread each, but {reason}",
    )


RULES: tuple[Rule, ...] = (
    Rule(
        lambda run: bool(run.train.iterations) and run.agent.top_p < 1,
        "agent.top_p = {run.agent.top_p} samples from a truncated distribution, while the loss, its corrections "
        "and its KL term use the whole one: set agent.top_p to 1 for training; `turncredit eval` may use it",
    ),
    # Truncation removes tokens from the samples but not from the policy. Importance ratios then have a mean below 1, so
    # that corrections shrink or drop everything, and E[grad log p] is not 0: the gradient moves mass into what was
    # sampled or out of it, whatever was earned. A field of a request does the same on a server.
    Rule(
        lambda run: _anneals(run) and run.sampler.engine != "transformers",
        "agent.temperature = {run.agent.temperature!r} changes within an answer, which sampler.engine "
        '{run.sampler.engine!r} cannot: set sampler.engine to "transformers"',
    ),
    Rule(
        lambda run: bool(run.train.iterations) and run.sampler.engine == "openai" and bool(_changed_fields(run)),
        lambda run: (
            f"sampler.options changes {', '.join(_changed_fields(run))} of the requests, so that the server samples "
            "from another distribution than the loss computes: leave it out"
        ),
    ),
    Rule(
        lambda run: bool(run.policy.lora) and not run.policy.model,
        "policy.lora needs policy.model: a new model has no weights yet that are worth freezing",
    ),
    Rule(
        _copies_4_bits,
        "policy.lora.bits = 4: the engine transformers would sample from a whole copy of the weights; leave "
        "train.staleness and sampler.dtype out, so that it samples from those in 4 bits, or use the engine vllm",
    ),
    Rule(
        lambda run: not run.policy.model and not run.imitation.episodes,
        "a new policy needs demonstrations to train its tokenizer: set imitation.episodes (imitation.epochs may be "
        "0), or policy.model",
    ),
    _forked("policy.device = {run.policy.device!r} is a GPU", lambda run: device_of(run.policy.device) != "cpu"),
    _forked("each process needs threads = 1", lambda run: run.threads != 1),
    _forked(
        "sampler.engine = {run.sampler.engine!r} samples elsewhere", lambda run: run.sampler.engine != "transformers"
    ),
    _forked("env.deadline > 0 runs environments in threads", lambda run: run.env.deadline > 0),
    _forked("env.workers > 0 runs environments in other processes already", lambda run: run.env.workers.count > 0),
    _forked("asynchronous rollouts go on beside the update already", lambda run: run.train.asynchronous),
    _forked("cluster.address starts its own processes", lambda run: bool(run.cluster.address)),
    Rule(
        lambda run: bool(run.cluster.address) and run.sampler.engine == "openai",
        'sampler.engine "openai" is a server of its own, so it cannot run on cluster.address',
    ),
    Rule(_lacks_cores, _missing_cores),
    Rule(
        lambda run: run.sampler.engine in MODEL_FREE,
        "sampler.engine {run.sampler.engine!r} is not a model, so it cannot sample from the policy",
    ),
    Rule(
        lambda run: run.sampler.engine == "openai" and not run.sampler.options.get("tokens"),
        'sampler.engine "openai" returns no token ids, which training needs; for a server that does, such as '
        "vLLM, set sampler.options.tokens = true",
    ),
    _replaying(
        lambda run: run.sampler.engine not in RECORDING,
        "sampler.engine {run.sampler.engine!r} does not record the experts of tokens; use transformers or vllm",
    ),
    _replaying(
        lambda run: run.policy.kernels != "plain",
        'policy.kernels = "{run.policy.kernels}" computes layers in which experts cannot be prescribed; use "plain"',
    ),
    _replaying(
        lambda run: not run.policy.model,
        "policy.new makes a model without experts; name a mixture of experts in policy.model",
    ),
    Rule(_is_unknown_demonstrator, _unknown_demonstrator),
    Rule(
        _cannot_list_actions,
        "imitation.demonstrator.noise needs an environment that lists its admissible actions, and {run.env.id} does "
        "not; set imitation.demonstrator.noise = 0 (imitation.demonstrator.typos works without a list)",
    ),
    _forking(
        lambda run: bool(run.train.forks.values) and run.train.asynchronous,
        "train.forks.values plays forks with the weights of an iteration, which asynchronous rollouts have left: set "
        "train.staleness = 0 and train.staleness.spare_groups = 0",
    ),
    _forking(
        lacks_forks,
        "train.forks.roots = {run.train.forks.roots} of train.group_size = {run.train.group_size} episodes leave no "
        "fork; there must be at least one root and one fork",
    ),
    _forking(
        lambda run: bool(run.train.forks.where) and credit_rule(run).callers,
        "credit.method {run.credit.method!r} reads the column `parent` as the episode that asked for another one, and "
        "not as the turn before a fork; it cannot be combined with train.forks.where",
    ),
    _forking(
        lambda run: run.train.forks.shared == "first" and credit_rule(run).splits_shared,
        "credit.method {run.credit.method!r} divides the weight of a shared turn by its paths; "
        'set train.forks.shared = "each"',
    ),
    _forking(
        lacks_expert,
        'train.forks.where with by = "expert" asks the expert of the environment, and {run.env.id} has none',
    ),
    _forking(
        lambda run: bool(cannot_fork(run)),
        lambda run: f"train.forks needs an environment that can be forked, and {run.env.id} cannot: {cannot_fork(run)}",
    ),
    Rule(lambda run: bool(unfilled(run)), unfilled),
    Rule(lambda run: bool(thresholds_behind_grades(run)), why_not),
    Rule(
        lambda run: bool(run.train.forks.where) and bool(run.sampling.groups),
        "train.forks.where and sampling.groups both decide what else is played for a group: choose one of them",
    ),
    Rule(
        lambda run: bool(showing_plans(run)) and not has_expert(run),
        lambda run: (
            f"sampling.groups: {', '.join(showing_plans(run))} shows plans of the environment's expert, and "
            f"{run.env.id} has none (plan())"
        ),
    ),
    Rule(_treats_stale_as_fresh, _stale),
    Rule(
        lambda run: _compares_groups(run) and run.train.groups < run.train.optimizer_steps,
        "objective.name = {run.objective.name!r} needs whole groups in an optimizer step, and train.groups = "
        "{run.train.groups} groups cannot be divided among train.optimizer_steps = {run.train.optimizer_steps}",
    ),
    Rule(
        lambda run: _compares_groups(run) and run.train.group_size < 2,
        "objective.name = {run.objective.name!r} compares the episodes of a group: set train.group_size to 2 or more",
    ),
    Rule(lambda run: bool(set_without_effect(run)), without_effect),
)
"""The rules in the order in which they are checked; keys without an effect come last, since they depend on the rest."""
