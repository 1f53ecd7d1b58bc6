"""The sections of a run's configuration: every key with its default, its bounds, and one line of documentation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from turncredit.training.config.section_tables import (
    AggregationSection,
    DemonstratorSection,
    EnginesSection,
    EntropySection,
    ForksSection,
    KLSection,
    MicroBatchSection,
    NewModelSection,
    OptimizerSection,
    ScheduleSection,
    Section,
    StalenessSection,
    WorkersSection,
    as_list,
)
from turncredit.training.config.toml import Table
from turncredit.training.errors import ConfigError

if TYPE_CHECKING:
    from turncredit.envs.parts import MixturePart

OWN = ("agent", "evaluation", "imitation")
"""Keys of the tables of `env.mix` that a run reads, and not the environment."""

Choice = str | Table
"""Something by name: "gigpo", or a table with the name and its options: {name = "window", history = 2}."""


def chosen(choice: Choice, key: str) -> tuple[str, Table]:
    """Return the name and the options of a choice.

    >>> chosen({"name": "window", "history": 2}, "agent.prompt")
    ('window', {'history': 2})

    Args:
        choice: a name, or a table with a name and options.
        key: the key that holds it, for the message.

    Raises:
        ConfigError: the table has no name.
    """
    if isinstance(choice, str):
        return choice, {}
    options = dict(choice)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f'{key} must be a name or a table with a name, such as {{name = "..."}}; got {choice!r}')
    return name, options


class EnvSection(Section):
    """The environment that the policy is trained in, or several."""

    id: str = Field(default="turncredit/Household-v0", description="Gymnasium id of the environment.")
    kwargs: Table = Field(
        default={},
        description='Arguments of the environment, or of all. levels = ["tiny", "small"], or a table of weights, plays '
        "several levels of one that has any.",
    )
    mix: list[Table] = Field(
        default=[],
        description="Several environments, in place of id: for each a table [[env.mix]] with id, weight (1: as many "
        "groups as others of weight 1), kwargs, name (before the ids of its tasks; by default from the id), agent "
        "(options of [agent] that are others there), and evaluation and imitation (arguments that differ there).",
    )
    deadline: float = Field(
        default=0.0,
        ge=0,
        description="Time limit of one environment step, in seconds; 0: none (steps then run in a fixed order).",
    )
    workers: WorkersSection = Field(
        default_factory=WorkersSection,
        description="Processes in which environments of rollouts live, on the cluster if there is one: their number, "
        "or a table.",
    )

    @model_validator(mode="before")
    @classmethod
    def _mixture(cls, table: object) -> object:
        """Name the environment that consists of others."""
        if not isinstance(table, dict) or not table.get("mix"):
            return table
        from turncredit.envs.parts import MIXTURE

        if table.get("id", MIXTURE) != MIXTURE:
            raise ConfigError(f"env.id names one environment, and env.mix several: leave out env.id = {table['id']!r}")
        return {**table, "id": MIXTURE}

    @model_validator(mode="after")
    def _read_mix(self) -> Self:
        """Refuse tables that are no parts; environments are looked up when the run is prepared."""
        if not self.mix:
            return self
        from turncredit.envs import EnvError
        from turncredit.envs.parts import read_parts

        try:
            read_parts(self.arguments()["parts"], {})
        except EnvError as error:
            raise ConfigError(f"env.mix: {error}") from error
        for name, table in self.agents().items():
            for key in {"temperature", "top_p"} & table.keys():
                raise ConfigError(f"env.mix: {key} of {name!r} cannot be set: all parts have that of [agent]")
        return self

    def arguments(self, changes: Mapping[str, object] | None = None, purpose: str = "") -> Table:
        """Return the arguments with which the environment is made.

        Args:
            changes: arguments that replace those of the section.
            purpose: key of the tables of `mix` that has further ones: "evaluation" or "imitation".
        """
        if not self.mix:
            return {**self.kwargs, **(changes or {})}
        return {**self.kwargs, "parts": [_part(table, changes or {}, purpose) for table in self.mix]}

    def parts(self) -> "tuple[MixturePart, ...]":
        """Return the parts of a mixture, in training; () for one environment.

        Raises:
            EnvError: an environment, an argument or a level does not exist.
        """
        from turncredit.envs import parts_of

        return parts_of(self.id, **self.arguments())

    def agents(self) -> dict[str, Table]:
        """Return the options of agents that are others in a part of a mixture, by its name."""
        from turncredit.envs.parts import name_of

        return {name_of(table): table["agent"] for table in self.mix if table.get("agent")}


def _part(table: Table, changes: Mapping[str, object], purpose: str) -> Table:
    """Return a table of `mix` as one of a mixture's parts.

    Raises:
        ConfigError: a value is no table.
    """
    for key in ("kwargs", *OWN):
        if not isinstance(table.get(key, {}), dict):
            raise ConfigError(f"env.mix: {key} must be a table, got {table[key]!r}")
    own = {key: value for key, value in table.items() if key not in OWN}
    return {**own, "kwargs": {**table.get("kwargs", {}), **changes, **table.get(purpose, {})}}


class AgentSection(Section):
    """How the policy is prompted, and how its answers are read."""

    prompt: Choice = Field(
        default="conversation",
        description='The prompt builder: "conversation" (the whole episode) or {name = "window", history = 2}.',
    )
    template: Choice = Field(
        default="plain",
        description='The prompt template: a name, or a table of its strings such as {base = "react", ask = "..."}. '
        "With policy.model, and neither template nor parser, the program takes prompt, template, parser and max_tokens "
        "from the environment.",
    )
    example: bool = Field(
        default=False,
        description="Show the template's worked turn in the system message, for models without a chat template.",
    )
    parser: str = Field(
        default="bare", description="How an action is read from an answer; see `turncredit list parsers`."
    )
    max_turns: int = Field(default=50, ge=1, description="Turns after which an episode is stopped.")
    max_tokens: int = Field(default=32, ge=1, description="Maximum number of tokens in one answer.")
    temperature: Annotated[float, Field(gt=0)] | Choice = Field(
        default=1.0,
        description="Sampling temperature in training; the loss uses the same distribution. With the engine "
        'transformers also one that changes within an answer: "ead", or {name = "ead", scale = 300, value = 0.9}.',
    )
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="Nucleus sampling; 1: off, as training needs it (train.iterations > 0)."
    )
    keep_images: int = Field(
        default=0,
        ge=0,
        description="Number of images in a prompt, at least those of its own turn; older ones are left out; 0: all.",
    )
    image_note: str = Field(default="", description="Text in the place of an image that was left out; empty: nothing.")
    stop: list[str] = Field(
        default=[], description='Stop strings; the answer includes the one that ended it. ["\\n"] for base models.'
    )
    chat: bool | Table = Field(
        default=True,
        description="Use the tokenizer's chat template, if it has one; or a table of the template's arguments, such as "
        '{enable_thinking = false, keep_history = true}. date = "2026-01-31" is what a template takes for today; a run '
        "records the day on which it was begun.",
    )


class PolicySection(Section):
    """The model: a Hugging Face model, or a new small Llama with a tokenizer trained on demonstrations."""

    model: str = Field(
        default="",
        description='Folder or Hugging Face id, such as "Qwen/Qwen2.5-1.5B-Instruct@REVISION"; empty: a new model.',
    )
    dtype: Literal["float32", "bfloat16"] = Field(
        default="float32", description="Type of the computation; the trained weights are always float32."
    )
    attention: Literal["", "sdpa", "eager", "flash_attention_2"] = Field(
        default="", description="Attention implementation; empty: chosen by transformers."
    )
    recompute_activations: bool = Field(
        default=False, description="Recompute activations in the backward pass: less memory, a third more time."
    )
    kernels: Literal["plain", "compile", "liger"] = Field(
        default="plain",
        description='Kernels of the learner: those of torch, or fused ones that torch compiles ("compile") or '
        'liger-kernel has ("liger", CUDA).',
    )
    lora: Table = Field(
        default={}, description="Train a LoRA adapter only, such as {rank = 16, alpha = 32}; empty: all weights."
    )
    freeze_vision: bool | Literal["auto"] = Field(
        default="auto",
        description='Leave the image encoder of a model that sees as it is; "auto": with policy.lora.',
    )
    new: NewModelSection = Field(default_factory=NewModelSection, description="Sizes of a new model.")
    context: int = Field(default=1024, ge=16, description="Maximum number of tokens in a prompt and its answer.")
    device: str = Field(default="cpu", description="Device of the model: cpu, cuda, cuda:N, or auto.")
    shards: int = Field(
        default=0,
        ge=0,
        description="Ranks that divide one copy of the weights, where several train the policy; every further group of "
        "as many has a copy. 0: the ranks of a machine.",
    )


class SamplerSection(Section):
    """The engine that samples from the policy."""

    engine: str = Field(default="transformers", description="The sampler; see `turncredit list samplers`.")
    url: str = Field(default="", description="Base URL of a server, for engines that are one.")
    dtype: Literal["", "float32", "bfloat16", "float16"] = Field(
        default="", description="Type of the engine's weights; empty: policy.dtype."
    )
    kv_cache_gib: float = Field(
        default=0.0, ge=0, description="Memory of the KV cache in GiB; 0: chosen by the engine."
    )
    options: Table = Field(default={}, description="Options of the engine.")
    gap_limit: float = Field(
        default=0.1,
        ge=0,
        description="Maximum mean difference (nats) of the log-probabilities of engine and learner after each load of "
        "weights; a run with a larger one stops. 0: no limit.",
    )


class ClusterSection(Section):
    """Engines on a Ray cluster, on this machine or on several; without an address, everything runs in this process."""

    address: str = Field(
        default="",
        description='"local" starts a cluster on this machine and stops it; "auto" or "host:port" joins a running one. '
        "Empty: none.",
    )
    engines: EnginesSection = Field(
        default_factory=EnginesSection, description="The engines: their number, or a table."
    )
    learners: int = Field(
        default=1, ge=1, description="Ranks of the learner: the first is this process, the others are on the cluster."
    )
    cpus: float = Field(
        default=1.0, ge=0, description="CPUs reserved for each engine, environment worker and further rank."
    )


class ImitationSection(Section):
    """Warm start: supervised training on demonstrations before reinforcement learning."""

    episodes: int = Field(default=0, ge=0, description="Number of demonstrations; 0: no warm start.")
    demonstrator: DemonstratorSection = Field(
        default_factory=DemonstratorSection, description="Who demonstrates: a name, or a table."
    )
    env: Table = Field(
        default={},
        description="Arguments of the environment that differ in demonstrations, so that others than their tasks are "
        "practised, such as {catalogue_seed = 1000}.",
    )
    distinct_tasks: int = Field(
        default=0, ge=0, description="Number of distinct tasks demonstrated; 0: as many as train.distinct_tasks."
    )
    won_only: bool = Field(default=True, description="Imitate successful demonstrations only.")
    hinted: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the demonstrations whose prompt shows the beginning of the expert's plan. The expert "
        "plays them, and they are imitated as far as the plan is shown, so that the policy can use hints.",
    )
    loss: Literal["likelihood", "otr"] = Field(
        default="likelihood",
        description='Loss of a token: "likelihood" is -log p, "otr" the One-Token Rollout, -1.1 p log p with p held '
        "still, which spares unlikely tokens.",
    )
    observation_weight: float = Field(
        default=0.0, ge=0, description="Loss weight of observation tokens; tokens of the answers have weight 1."
    )
    epochs: int = Field(default=1, ge=0, description="Passes over the demonstrations.")
    lr: float = Field(default=1e-3, gt=0, le=1, description="Peak learning rate (5 % linear warm-up, then cosine).")
    batch_tokens: int = Field(default=1024, ge=1, description="Tokens per optimizer step.")
    target_loss: float = Field(
        default=0.0, ge=0, description="Loss (nats per answer token) at which the warm start ends early; 0: never."
    )


class CreditSection(Section):
    """Credit assignment: one advantage per turn."""

    method: str = Field(default="gigpo", description="The credit rule; see `turncredit list credit`.")
    anchor: Literal["state", "observation", "history"] = Field(
        default="state",
        description="What makes two turns comparable: the environment's state key, the observation's text, or all the "
        "states of the episode so far.",
    )
    options: Table = Field(default={}, description="Options of the credit rule.")
    token_transform: Choice = Field(
        default="",
        description="A transform of token advantages, with its options; see `turncredit list transforms`. Empty: none.",
    )


class ObjectiveSection(Section):
    """The loss: an objective by name, how its tokens are aggregated, and additional terms."""

    name: str = Field(
        default="ppo_clip",
        description="The objective; see `turncredit list objectives`. With train.staleness, "
        '`decoupled` with old_logprobs = "recomputed" is the default.',
    )
    options: Table = Field(default={}, description="Options of the objective, such as clip_low, clip_high.")
    sequence: Literal["trajectory", "turn"] = Field(
        default="trajectory", description="What counts as a sequence in sequence-level objectives and corrections."
    )
    aggregation: AggregationSection = Field(
        default_factory=AggregationSection, description="How token losses are averaged: a name, or a table."
    )
    kl: KLSection = Field(
        default_factory=KLSection,
        description="The KL divergence from the reference policy: its coefficient, or a table.",
    )
    entropy: EntropySection = Field(
        default_factory=EntropySection, description="The entropy bonus: its coefficient, or a table."
    )
    correction: Choice = Field(
        default="",
        description='Correction of the sampler mismatch, such as {name = "tis_token", high = 2.0}. Empty: none.',
    )
    llds: float = Field(
        default=0.0, ge=0, description="Coefficient of the penalty on good actions that became less likely."
    )
    old_logprobs: Literal["sampled", "recomputed"] = Field(
        default="sampled",
        description="Old log-probabilities: those of the sampler, or recomputed by the learner before the update.",
    )


class TrainSection(Section):
    """The reinforcement-learning loop."""

    iterations: int = Field(default=100, ge=0, description="Iterations: sample tasks, roll out, update.")
    groups: int = Field(default=8, ge=1, description="Groups (task instances) per iteration.")
    distinct_tasks: int = Field(
        default=0, ge=0, description="Number of distinct training tasks; 0: as many as the environment lists."
    )
    group_size: int = Field(default=8, ge=1, description="Episodes per group.")
    concurrency: int = Field(default=64, ge=1, description="Maximum number of episodes in play at once.")
    replacements: int = Field(default=1, ge=0, description="How many failed episodes of a group are played again.")
    forks: ForksSection = Field(
        default_factory=ForksSection,
        description="Episodes that begin in the middle of others: the rule of where, or a table.",
    )
    staleness: StalenessSection = Field(
        default_factory=StalenessSection,
        description="Rollouts beside updates: the maximum age of turns, in updates, or a table.",
    )
    optimizer_steps: int = Field(
        default=2, ge=1, description="Optimizer steps per iteration, however long the episodes were."
    )
    lr: float = Field(default=3e-4, gt=0, le=1, description="Peak learning rate.")
    schedule: ScheduleSection = Field(
        default_factory=ScheduleSection, description="How the learning rate changes: a name, or a table."
    )
    optimizer: OptimizerSection = Field(
        default_factory=OptimizerSection, description="The optimizer: a name, or a table."
    )
    micro_batch: MicroBatchSection = Field(
        default_factory=MicroBatchSection,
        description="What is computed at a time in updates: its tokens, or a table.",
    )
    routing_replay: bool = Field(default=False, description="Update a mixture with the experts that its engine chose.")
    peak_tflops: float = Field(default=0.0, ge=0, description="Peak of the device in TFLOP/s, for mfu; 0: known GPUs'.")

    @property
    def asynchronous(self) -> bool:
        """Whether episodes may be played with several versions of the weights."""
        return bool(self.staleness.updates or self.staleness.spare_groups)

    @property
    def oldest(self) -> int:
        """Largest number of updates between sampling a turn and training on it; older turns carry no loss."""
        return self.staleness.updates + bool(self.staleness.spare_groups)


class SamplingSection(Section):
    """What an iteration is made of: which tasks, how many episodes of each, and which reward."""

    tasks: Choice = Field(
        default="uniform",
        description="Rule of which tasks are drawn, a choice with options; see `turncredit list task-rules`.",
    )
    groups: Annotated[list[Choice], BeforeValidator(as_list)] = Field(
        default=[],
        description="Rules of when a group is complete, what else is played, and which groups are replaced; the first "
        "that wants something decides. See `turncredit list group-rules`.",
    )
    rewards: Annotated[list[Choice], BeforeValidator(as_list)] = Field(
        default=[],
        description="Rules that change the rewards before credit is assigned, from left to right; see "
        "`turncredit list reward-rules`.",
    )
    annotators: Annotated[list[Choice], BeforeValidator(as_list)] = Field(
        default=[],
        description="What fills in columns for rules, and writes lessons, before rewards are changed; see `turncredit "
        "list annotators`.",
    )
    judge: str = Field(
        default="",
        description="The model that annotators ask, ENGINE:MODEL or ENGINE:MODEL@URL, such as "
        '"openai:Qwen/Qwen3-8B@http://127.0.0.1:8000/v1".',
    )
    teachers: Annotated[list[str], BeforeValidator(as_list)] = Field(
        default=[], description="Other models that play for group rules which ask them: ENGINE:MODEL@URL, or `expert`."
    )
    experience: Table = Field(
        default={},
        description='Which episodes are stored: {keep = "success", per_task = 8, total = 2048, age = 0, order = '
        '"newest"} are the defaults of a table that is not empty. keep: success, positive (advantage), mixed (groups '
        "that won and lost) or all; order: newest or shortest.",
    )
    replay: Choice = Field(
        default="",
        description="Rule of which stored episodes are trained on beside a batch; see `turncredit list replay-rules`. "
        "Empty: none.",
    )
    lessons: Table = Field(
        default={},
        description="The library of lessons: {most = 100, alike = 0.85}, most of a kind, and when two are one.",
    )
    max_rounds: int = Field(
        default=16, ge=1, description="Rounds of episodes after which a group is complete, also if a rule wants more."
    )
    max_drops: int = Field(
        default=0,
        ge=0,
        description="Groups that may be dropped in an iteration; later ones are trained on. 0: 10 x train.groups.",
    )
    skip_truncated: Literal["", "answers", "episodes"] = Field(
        default="",
        description="Leave out of the loss: answers that were cut at agent.max_tokens, or all turns of episodes with "
        "such an answer or that ended at a limit (turns, context). Credit sees them all. Empty: nothing.",
    )


class CheckpointsSection(Section):
    """Checkpoints, and what is kept of the run beside them."""

    every: int = Field(default=10, ge=0, description="Iterations between checkpoints; 0: only the first and the last.")
    keep: int = Field(default=2, ge=1, description="Number of checkpoints to keep.")
    keep_trajectories: int = Field(
        default=0,
        ge=0,
        description="Iterations before the oldest kept checkpoint whose trajectories are kept; 0: all iterations.",
    )


class EvaluationSection(Section):
    """Evaluation on a fixed panel of tasks: before, during and after training."""

    every: int = Field(default=0, ge=0, description="Iterations between evaluations; 0: only before and after.")
    episodes: int = Field(default=100, ge=0, description="Tasks in the panel, one episode each; 0: no evaluation.")
    episodes_during_training: int = Field(
        default=0, ge=0, description="Tasks of an evaluation during training; 0: the whole panel."
    )
    env: Table = Field(
        default={}, description='Arguments of the environment that differ in evaluation, such as {split = "held_out"}.'
    )
    temperature: float = Field(default=1.0, ge=0, description="Sampling temperature; 0: greedy.")
