"""Tables within the sections of a run's configuration, most of which a plain value abbreviates.

`train.optimizer = "adamw"` and `train.optimizer = {name = "adamw", weight_decay = 0.1}` are both read; `abbreviated`
names the key that a plain value stands for.
"""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from turncredit.training.config.toml import Table


def as_list(value: object) -> object:
    """Return a single name, or table with a name, as a list of one."""
    return [value] if isinstance(value, str | dict) else value


class Section(BaseModel):
    """A table of the file. Unknown keys are errors, and values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _no_nul(cls, value: object) -> object:
        """Refuse NUL, which no path and no line of text can hold."""
        if isinstance(value, str) and "\0" in value:
            raise ValueError("the text must not contain NUL")
        return value


class AbbreviatedSection(Section):
    """A table that a plain value abbreviates: the value of one of its keys."""

    abbreviated: ClassVar[str]
    """The key."""

    @model_validator(mode="before")
    @classmethod
    def _read_value(cls, value: object) -> object:
        """Read a name, a number or a list as the table with that key."""
        plain = isinstance(value, str | int | float | list) and not isinstance(value, bool)
        return {cls.abbreviated: value} if plain else value

    def __str__(self) -> str:
        """Return the value that abbreviates the table, as messages name it."""
        return str(getattr(self, self.abbreviated))


class LoggersSection(AbbreviatedSection):
    """Where metrics are sent, beside metrics.jsonl."""

    abbreviated = "names"

    names: list[Literal["tensorboard", "trackio", "wandb", "otel"]] = Field(
        default=[], description="Names of loggers: tensorboard, trackio, wandb, otel."
    )
    project: str = Field(
        default="", description="Project of trackio and wandb; empty: WANDB_PROJECT for wandb, else turncredit."
    )
    samples: int = Field(
        default=4, ge=0, le=100, description="Number of episodes of each iteration that are sent as texts; 0: none."
    )


class WorkersSection(AbbreviatedSection):
    """Processes in which environments of rollouts live."""

    abbreviated = "count"

    count: int = Field(default=0, ge=0, description="Number of processes; 0: environments live in this one.")
    deterministic: bool = Field(
        default=False, description="Take their answers in the order of the calls; repeatable, but slower."
    )
    memory_gib: float = Field(
        default=0.0,
        ge=0,
        description="GiB that a worker may use; one that has grown beyond it is replaced. 0: no limit.",
    )


class VisionSection(Section):
    """Sizes of the image encoder of a new model that sees."""

    size: tuple[int, int] = Field(
        default=(0, 0),
        description="Width and height of the images that it reads, in pixels; others are scaled to it. [0, 0]: the "
        "model reads text only.",
    )
    patch: int = Field(
        default=12, ge=4, multiple_of=4, description="Width and height of a patch in pixels; a patch takes a token."
    )
    hidden: int = Field(default=96, ge=8, multiple_of=2, description="Hidden size of the image encoder.")
    layers: int = Field(default=2, ge=0, description="Blocks of the image encoder that look at the patches around.")

    @property
    def sees(self) -> bool:
        """Whether there is an image encoder."""
        return self.size != (0, 0)


class NewModelSection(Section):
    """Sizes of a new model."""

    vocab: int = Field(default=512, ge=260, description="Vocabulary size of the new tokenizer.")
    hidden: int = Field(default=128, ge=8, description="Hidden size of the new model.")
    layers: int = Field(default=4, ge=1, description="Number of layers of the new model.")
    heads: int = Field(default=4, ge=1, description="Number of attention heads of the new model.")
    vision: VisionSection = Field(
        default_factory=VisionSection, description="An image encoder, for a new model that sees."
    )


class EnginesSection(AbbreviatedSection):
    """Engines on a cluster."""

    abbreviated = "count"

    count: int = Field(default=1, ge=1, description="Number of engines, each in a process of its own.")
    gpus: float = Field(
        default=0.0,
        ge=0,
        description="GPUs reserved for each engine; 0: tensor_parallel_size of sampler.options if the policy is on a "
        "GPU, else none. Below 1, engines share GPUs, with the policy as well.",
    )
    timeout: float = Field(
        default=600.0,
        gt=0,
        description="Seconds in which an engine must answer a request or load weights; it is started again after that.",
    )


class DemonstratorSection(AbbreviatedSection):
    """Who demonstrates, and with which mistakes."""

    abbreviated = "name"

    name: str = Field(
        default="expert",
        description='"expert", a demonstrator of the environment, a sampler such as "openai:MODEL@URL", or a file of '
        "trajectories or conversations.",
    )
    noise: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Probability that an action is replaced by a random one; half are inadmissible.",
    )
    typos: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Probability of one wrong word in an action that the environment cannot list (an edit, a query).",
    )


class AggregationSection(AbbreviatedSection):
    """How token losses become one number."""

    abbreviated = "name"

    name: str = Field(
        default="", description="The aggregation; see `turncredit list objectives`. Empty: the objective's own."
    )
    norm: float = Field(
        default=1024.0, gt=0, description="Divisor of aggregations whose name contains `norm`, in tokens."
    )


class KLSection(AbbreviatedSection):
    """The KL divergence from the reference policy, which is the policy before training."""

    abbreviated = "coefficient"

    coefficient: float = Field(default=0.0, ge=0, description="Coefficient of the KL term; 0: none.")
    estimator: str = Field(default="k3", description="KL estimator: k1, k2, k3, k3+ or k3-unbounded.")
    where: Literal["loss", "reward"] = Field(
        default="loss",
        description='Add the KL term to the loss, or subtract it from the reward of each turn (estimator = "k1").',
    )
    corrected: bool = Field(
        default=False,
        description="Weight the KL term in the loss by the importance ratio to the policy that sampled the tokens.",
    )
    target: float = Field(
        default=0.0, ge=0, description="Adapt the coefficient towards this divergence (nats per token); 0: keep it."
    )
    horizon: float = Field(default=10000.0, gt=0, description="Episodes over which the coefficient adapts.")


class EntropySection(AbbreviatedSection):
    """The entropy bonus."""

    abbreviated = "coefficient"

    coefficient: float = Field(default=0.0, description="Coefficient of the entropy bonus.")
    target: float = Field(
        default=0.0, ge=0, description="Mean entropy (nats) above which there is no bonus; 0: always a bonus."
    )
    step: float = Field(default=0.0, ge=0, description="Change of the coefficient per iteration towards the target.")


class StalenessSection(AbbreviatedSection):
    """How old the turns of an update may be, and which rollouts go on beside it."""

    abbreviated = "updates"

    updates: int = Field(
        default=0,
        ge=0,
        description="Maximum age of turns, in updates. Above 0, rollouts go on during updates; at 0, they alternate.",
    )
    spare_groups: int = Field(
        default=0,
        ge=0,
        description="Groups in play beyond those that the iterations need; unfinished ones continue in the next one.",
    )
    deterministic: bool = Field(
        default=False,
        description="Take groups in order, and let new weights wait for all groups in play; repeatable, but slower.",
    )


class ForksSection(AbbreviatedSection):
    """Episodes that begin in the middle of others."""

    abbreviated = "where"

    where: str | Table = Field(
        default="",
        description="Rule of where episodes of a group are forked, with its options; see `turncredit list forks`. "
        "Empty: nowhere.",
    )
    roots: int = Field(
        default=0, ge=0, description="Episodes of a group that begin with a reset; the others are forks. 0: half of it."
    )
    shared: Literal["first", "each"] = Field(
        default="first",
        description="Loss of the turns that forks took over: once, in the episode that sampled them, or in each path.",
    )
    values: int = Field(
        default=0,
        ge=0,
        description="Forks of every turn, not trained on, whose mean return is its `value` for credit rules; 0: none.",
    )


class ScheduleSection(AbbreviatedSection):
    """How the learning rate changes."""

    abbreviated = "name"

    name: Literal["constant", "cosine"] = Field(default="constant", description="Learning rate after the warm-up.")
    warmup: int = Field(default=0, ge=0, description="Optimizer steps of linear warm-up.")


class OptimizerSection(AbbreviatedSection):
    """The optimizer."""

    abbreviated = "name"

    name: Literal["adamw", "adamw_fused", "adamw_8bit"] = Field(
        default="adamw", description="AdamW, with fused kernels or with 8-bit moments (CUDA)."
    )
    weight_decay: float = Field(default=0.0, ge=0, description="Weight decay of AdamW.")
    grad_clip: float = Field(default=1.0, gt=0, description="Maximum norm of the gradient.")
    offload: Literal["all"] | bool = Field(
        default=False,
        description="Keep the optimizer's states in main memory while vLLM's engine works on the learner's GPU. "
        '"all": the weights as well.',
    )


class MicroBatchSection(AbbreviatedSection):
    """The sequences that are computed at a time."""

    abbreviated = "tokens"

    tokens: int = Field(default=4096, ge=1, description="Tokens per micro-batch, padding included.")
    packing: bool = Field(default=False, description="Compute the sequences as one row, without padding.")
    share_prefixes: Literal["auto", "flex"] | bool = Field(
        default="auto",
        description="Compute what the sequences begin with in common once. "
        '"auto": for models of 20 million parameters and more, unless their attention is FlashAttention. '
        '"flex": with the kernels of flex attention (CUDA).',
    )

    def may_share_prefixes(self, attention: str) -> bool:
        """Whether a large model shares prefixes.

        Args:
            attention: policy.attention. FlashAttention cannot share prefixes, and who chose it should not lose it
                without asking.
        """
        return not attention.startswith("flash") if self.share_prefixes == "auto" else bool(self.share_prefixes)
