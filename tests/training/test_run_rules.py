"""Every rule across keys is broken by some run; every key of the table of effects matters in some run, in some not."""

import pytest
import toys.corridor

from turncredit.envs import NoExpert, register
from turncredit.envs.info import ADMISSIBLE, NO_FORKS
from turncredit.training import ConfigError, Run
from turncredit.training.parts import prepare
from turncredit.training.preflight import remarks as run_remarks
from turncredit.training.preflight import rules
from turncredit.training.preflight.effects import NEEDS, ineffective
from turncredit.training.preflight.remarks import REMARKS
from turncredit.training.preflight.rules import RULES, check_rules
from turncredit.training.tasks.environments import Environments

TABLE = {"threads": 1, "env": {"id": f"toys.corridor:{toys.corridor.ID}"}, "imitation": {"episodes": 4}}
SERVED = ("sampler.engine=openai", 'sampler.url="http://127.0.0.1:1/v1"', "sampler.options.tokens=true")
UNLISTED = "toys/SilentCorridor-v0"
UNFORKED = "toys/UnforkedCorridor-v0"
UNPLANNED = "toys/UnplannedCorridor-v0"
EXPERTLESS = "toys/ExpertlessCorridor-v0"
FORKED = ("processes=2",)

BROKEN: tuple[tuple[tuple[str, ...], str], ...] = (
    (("agent.top_p=0.9",), "agent.top_p = 0.9 samples from a truncated distribution"),
    (("agent.temperature=ead", "sampler.engine=vllm"), "which sampler.engine 'vllm' cannot"),
    ((*SERVED, "sampler.options.body.top_k=5"), "sampler.options changes top_k of the requests"),
    (("policy.lora.rank=4",), "policy.lora needs policy.model"),
    (("policy.model=base", "policy.lora.bits=4", "train.staleness=1"), "policy.lora.bits = 4: the engine transformers"),
    (("imitation.episodes=0",), "a new policy needs demonstrations"),
    ((*FORKED, "policy.device=cuda"), "but policy.device = 'cuda' is a GPU"),
    ((*FORKED, "threads=2"), "but each process needs threads = 1"),
    ((*FORKED, "sampler.engine=vllm"), "but sampler.engine = 'vllm' samples elsewhere"),
    ((*FORKED, "env.deadline=5"), "but env.deadline > 0 runs environments in threads"),
    ((*FORKED, "env.workers=2"), "but env.workers > 0 runs environments in other processes"),
    ((*FORKED, "train.staleness=1"), "but asynchronous rollouts go on beside the update"),
    ((*FORKED, "cluster.address=local"), "but cluster.address starts its own processes"),
    ((*SERVED, "cluster.address=local"), "is a server of its own"),
    (("cluster.address=local", "cluster.engines=9999"), "need 9999 cores, and this machine has"),
    (("sampler.engine=random",), "'random' is not a model"),
    (("sampler.engine=openai", 'sampler.url="http://127.0.0.1:1/v1"'), "returns no token ids"),
    ((*SERVED, "train.routing_replay=true"), "sampler.engine 'openai' does not record the experts of tokens"),
    (("train.routing_replay=true", "policy.kernels=compile"), 'policy.kernels = "compile" computes layers'),
    (("train.routing_replay=true",), "policy.new makes a model without experts"),
    (("imitation.demonstrator=expret",), "did you mean 'expert'"),
    ((f"env.id={UNLISTED}", "imitation.demonstrator.noise=0.1"), f"admissible actions, and {UNLISTED} does not"),
    (("train.forks.values=2", "train.staleness=1"), "which asynchronous rollouts have left"),
    (("train.forks={where='uniform', roots=8}",), "train.forks.roots = 8 of train.group_size = 8 episodes leave no"),
    (("train.forks=uniform", "credit.method=himac"), "'himac' reads the column `parent` as the episode"),
    (
        ("train.forks=uniform", "credit={method='spo_segment', options={mode='tree'}}"),
        'set train.forks.shared = "each"',
    ),
    (
        ("train.forks={where={name='failed', by='expert'}}", f"env.id={UNPLANNED}"),
        f"asks the expert of the environment, and {UNPLANNED} has none",
    ),
    (("train.forks=uniform", f"env.id={UNFORKED}"), f"{UNFORKED} cannot: it goes on by itself"),
    (("credit.method=tree_grpo",), "which toys.corridor"),
    (
        ("credit.method=psr_nsr", 'sampling.rewards=["cosine"]'),
        "credit.method = 'psr_nsr' takes scores above 0.5 as right and all others as wrong, which does not divide",
    ),
    (("train.forks=uniform", 'sampling.groups=["dapo"]'), "train.forks.where and sampling.groups both decide"),
    (
        (f"env.id={EXPERTLESS}", 'sampling.groups=["toys.sampling_rules:SHOWING"]'),
        f"SHOWING' shows plans of the environment's expert, and {EXPERTLESS} has none",
    ),
    (("train.staleness=1", "objective.name=reinforce"), "which objective.name = 'reinforce' with"),
    (
        ("objective.name=disco", "train.groups=1"),
        "'disco' needs whole groups in an optimizer step, and train.groups = 1",
    ),
    (("objective.name=disco", "train.group_size=1"), "'disco' compares the episodes of a group: set train.group_size"),
    (("objective.kl.target=0.1",), "objective.kl.target has no effect: objective.kl is 0"),
)
"""Overrides of TABLE, and words of the sentence with which the run is refused; in the order of the rules."""


class Unforked(toys.corridor.Corridor):
    """The corridor, which says that it cannot begin in the middle of an episode."""

    metadata = toys.corridor.Corridor.metadata | {NO_FORKS: "it goes on by itself"}


class Unplanned(toys.corridor.Corridor):
    """The corridor, for which nobody can plan."""

    def plan(self):
        raise NoExpert("nobody has been here before")


class Expertless(toys.corridor.Corridor):
    """The corridor, for which nobody plans."""

    plan = None


class Unlisted(toys.corridor.Corridor):
    """The corridor, which does not say what is possible."""

    def reset(self, **options):
        observation, info = super().reset(**options)
        return observation, {key: value for key, value in info.items() if key != ADMISSIBLE}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A machine that may have a GPU, and an environment without a list of actions."""
    register(UNLISTED, f"{__name__}:Unlisted")
    register(UNFORKED, f"{__name__}:Unforked")
    register(UNPLANNED, f"{__name__}:Unplanned")
    register(EXPERTLESS, f"{__name__}:Expertless")
    monkeypatch.setattr(rules, "device_of", lambda name: name)


def make_run(*overrides):
    return Run.parse(TABLE, overrides)


def test_there_is_a_run_for_every_rule():
    assert len(BROKEN) == len(RULES)


@pytest.mark.parametrize("number", range(len(RULES)))
def test_every_rule_is_broken_by_some_run(number):
    overrides, words = BROKEN[number]
    if any(word.startswith("cluster.engines") for word in overrides):
        pytest.importorskip("ray")
    run = make_run(*overrides)
    assert words in RULES[number].text(run)
    assert RULES[number].broken(run)
    assert not any(rule.broken(run) for rule in RULES[:number])
    with pytest.raises(ConfigError) as refused:
        check_rules(run)
    assert str(refused.value) == RULES[number].text(run)


def test_a_reward_rule_whose_column_nothing_fills_is_refused():
    with pytest.raises(ConfigError, match="'judge'"):
        check_rules(make_run('sampling.rewards=["toys.sampling_rules:JUDGED"]'))


def test_an_ordinary_run_breaks_no_rule():
    run = make_run()
    assert not any(rule.broken(run) for rule in RULES)
    check_rules(run)


RUNS = tuple(
    make_run(*overrides)
    for overrides in (
        (),
        (
            "policy.model=somewhere",
            "trajectory_format=''",
            'imitation.demonstrator="played.jsonl"',
            "agent.template=react",
        ),
        ("objective.kl.coefficient=0.1", "objective.kl.target=0.1", "objective.name=gspo", "evaluation.every=1"),
        ("objective.entropy.coefficient=0.1", "objective.entropy.target=0.1", "objective.aggregation=token-sum-norm"),
        ("cluster.address=local", "env.workers=1", "train.staleness=1", "sampler.engine=vllm"),
        ("policy.device=cuda", "sampler.engine=vllm"),
        ("agent.template=react",),
        ("train.forks=uniform",),
        ('sampling.groups=["dapo"]',),
    )
)


@pytest.mark.parametrize("key", NEEDS)
def test_every_key_of_the_table_matters_in_some_run_and_in_some_not(key):
    without = [key in ineffective(run) for run in RUNS]
    assert any(without)
    assert not all(without)


REMARKED: tuple[tuple[dict[str, object], tuple[str, ...]], ...] = (
    ({"env": {"kwargs": {"level": "tiny"}}}, ("train.distinct_tasks=2",)),
    (TABLE, ("imitation.episodes=6000", "env.kwargs.lengths=[9]")),
    (TABLE, ("policy.dtype=bfloat16",)),
    (TABLE, ("train.staleness=1",)),
    (TABLE, ("env.workers=1",)),
)
"""Runs that a remark is made on, in the order of the remarks."""


@pytest.mark.parametrize("number", range(len(REMARKS)))
def test_every_remark_is_made_on_some_run(number, monkeypatch):
    monkeypatch.setattr(run_remarks, "multiplies_bfloat16", lambda: False)
    table, overrides = REMARKED[number]
    run = Run.parse(table, overrides)
    environments = Environments(lambda: toys.corridor.Corridor(lengths=(9,)), ("open-9-1",))
    assert REMARKS[number].holds(run, environments)
    assert "{" not in REMARKS[number].sentence.format(run=run, tasks=1).replace("{split", "")


def test_all_remarks_of_a_run_are_made(tmp_path):
    parts = prepare(make_run(f"output={tmp_path}", "env.workers=1", "evaluation.episodes=0"))
    assert len(parts.remarks()) == 1
