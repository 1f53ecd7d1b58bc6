"""A run as one TOML file, read into one pydantic model.

Every key has one line of documentation (docs/config.md is rendered from them). Unknown keys are errors with the
near name. Keys that were set and that nothing read are errors too: each section remembers which of its keys were
read, and `Run.unread` is asked once a run is set up.

Left out on purpose: includes, environment variables, and settings of parts that are not chosen by a run's file.
"""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from turnwise.training.errors import ConfigError, near
from turnwise.training.toml import literal, render


class Section(BaseModel):
    """A table of the file: unknown keys are errors, values do not change, reading a key is remembered."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    _read: set[str] = PrivateAttr(default_factory=set)

    @field_validator("*")
    @classmethod
    def _no_nul(cls, value: Any) -> Any:
        """Refuse the one character that no name, path or line can hold."""
        if isinstance(value, str) and "\0" in value:
            raise ValueError("a text without NUL was wanted")
        return value

    def __getattribute__(self, name: str) -> Any:
        """Give the attribute; if it is a key, remember that it was read."""
        value = super().__getattribute__(name)
        if not name.startswith("_") and name in type(self).model_fields:
            private = super().__getattribute__("__pydantic_private__")
            private["_read"].add(name)
        return value

    def switched_off(self) -> None:
        """Count every key as read: the section's own switch says that it does nothing, which is no slip."""
        super().__getattribute__("__pydantic_private__")["_read"].update(type(self).model_fields)

    def __eq__(self, other: object) -> bool:
        """Equal keys and values; what was read does not matter."""
        return type(self) is type(other) and isinstance(other, Section) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]


class Env(Section):
    """The environment that gives tasks."""

    id: str = Field(default="turnwise/Household-v0", description="Gymnasium id of the environment.")
    kwargs: dict[str, Any] = Field(default={}, description="Arguments of the environment while training.")
    eval: dict[str, Any] = Field(default={}, description="Arguments that replace or join them for evaluation.")
    deadline: float = Field(
        default=0.0, ge=0, description="Seconds that one step may take, 0: no limit (and steps in a fixed order)."
    )


class AgentSection(Section):
    """How the policy is asked for an action, and how its answer is read."""

    prompt: Literal["conversation", "window"] = Field(
        default="conversation", description="Whole conversation, or a window of the last turns."
    )
    history: int = Field(default=2, ge=0, description="Earlier turns in a window.")
    template: str = Field(default="plain", description="Template of the prompt, by name.")
    parser: str = Field(
        default="bare",
        description="How an action is read out of the answer: bare, whole, with-thoughts or think-action.",
    )
    max_turns: int = Field(default=50, ge=1, description="Turns after which an episode is stopped.")
    max_tokens: int = Field(default=32, ge=1, description="Most tokens in one answer.")
    temperature: float = Field(
        default=1.0, gt=0, description="Sampling temperature while training; the loss uses the same."
    )
    top_p: float = Field(default=1.0, gt=0, le=1, description="Probability mass that is sampled from while training.")


class Policy(Section):
    """The model: a local Hugging Face folder, or a new small Llama with a tokenizer trained on demonstrations."""

    path: str = Field(default="", description="Local Hugging Face folder; empty: a new model of the sizes below.")
    vocab: int = Field(default=512, ge=260, description="Tokens of the new tokenizer.")
    hidden: int = Field(default=128, ge=8, description="Width of the new model.")
    layers: int = Field(default=4, ge=1, description="Layers of the new model.")
    heads: int = Field(default=4, ge=1, description="Attention heads of the new model.")
    context: int = Field(default=1024, ge=16, description="Most tokens of a prompt and its answer.")
    device: str = Field(default="cpu", description="Where the model runs: cpu, cuda, or auto.")
    slots: int = Field(default=64, ge=1, description="Most episodes that are sampled in one batch.")


class Imitation(Section):
    """Warm start: supervised training on demonstrations, before reinforcement learning."""

    episodes: int = Field(default=0, ge=0, description="Demonstrations; 0: no warm start.")
    demonstrator: str = Field(
        default="expert", description="Who plays them: expert, one of the environment's own, or a file of trajectories."
    )
    noise: float = Field(
        default=0.0, ge=0, le=1, description="Probability that the expert plays a random action instead."
    )
    slips: float = Field(
        default=0.5, ge=0, le=1, description="Share of the random actions that are not admissible, such as a learner's."
    )
    typos: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Probability that one word of an action is wrong, where the environment cannot list it (an edit).",
    )
    won_only: bool = Field(default=True, description="Leave demonstrations out that did not succeed.")
    observations: float = Field(
        default=0.0, ge=0, description="Weight in the loss of what was seen, beside 1 for what was said."
    )
    epochs: int = Field(default=1, ge=0, description="Passes over the demonstrations.")
    lr: float = Field(
        default=1e-3, gt=0, le=1, description="Highest learning rate of the warm start (cosine, 5 % warm-up)."
    )
    batch: int = Field(default=1024, ge=1, description="Tokens in one optimiser step of the warm start.")
    target: float = Field(
        default=0.0,
        ge=0,
        description="Loss, in nats a token that was said, at which the warm start ends early; 0: never.",
    )


class Credit(Section):
    """Which turn deserved what."""

    method: str = Field(default="gigpo", description="Credit rule by name; `turnwise list credit` shows them.")
    anchor: Literal["state", "observation"] = Field(
        default="state", description="What makes two turns comparable: the environment's state key, or the text seen."
    )
    options: dict[str, Any] = Field(default={}, description="Options of the credit rule.")
    reshape: str = Field(
        default="",
        description="Transform of the tokens' advantages, by name; `turnwise list transforms` shows them. Empty: none.",
    )
    reshape_options: dict[str, Any] = Field(
        default={}, description="Options of the transform; for hicra also `planning`, the phrases that make a plan."
    )


class ObjectiveSection(Section):
    """The loss: a method by name, how tokens are weighed, and what joins it."""

    name: str = Field(default="ppo_clip", description="Objective by name; `turnwise list objectives` shows them.")
    options: dict[str, Any] = Field(default={}, description="Options of the objective.")
    clip_low: float = Field(
        default=0.2, gt=0, description="The option clip_low, for methods that have it; unset: the method's own default."
    )
    clip_high: float = Field(
        default=0.28, gt=0, description="The option clip_high, likewise: how far above 1 the ratio may be."
    )
    dual_clip: float = Field(
        default=0.0, ge=0, description="The option dual_clip, likewise: cap for negative advantages, above 1; 0: none."
    )
    sequence: Literal["trajectory", "turn"] = Field(
        default="trajectory", description="What a sequence is, for methods and corrections that look at whole ones."
    )
    aggregation: str = Field(
        default="",
        description="How tokens are weighed; `turnwise list objectives` shows the ways. Empty: the method's own.",
    )
    norm: float = Field(default=1024.0, gt=0, description="Tokens that aggregations with `norm` divide by.")
    kl: float = Field(default=0.0, ge=0, description="Coefficient of the divergence from the policy before training.")
    kl_estimator: str = Field(default="k3", description="Estimator of it: k1, k2, k3, k3+ or k3-unbounded.")
    kl_in: Literal["loss", "reward"] = Field(
        default="loss", description="Add the divergence to the loss, or take it off the reward of each turn."
    )
    kl_corrected: bool = Field(
        default=False, description="Multiply the divergence in the loss by the ratio, as samples are of the old policy."
    )
    kl_target: float = Field(
        default=0.0, ge=0, description="Divergence a token (nats) that the coefficient is steered to; 0: it stays."
    )
    kl_horizon: float = Field(default=10000.0, gt=0, description="Episodes over which it is steered.")
    entropy: float = Field(default=0.0, description="Coefficient of the entropy bonus.")
    entropy_target: float = Field(
        default=0.0, ge=0, description="Mean entropy (nats) above which there is no bonus; 0: always."
    )
    entropy_step: float = Field(
        default=0.0, ge=0, description="Change of the coefficient in an iteration, up below the target, down above."
    )
    correction: str = Field(
        default="",
        description="Correction of the sampler's mismatch, see `turnwise list objectives`; empty: none.",
    )
    correction_options: dict[str, float] = Field(
        default={}, description="Bounds low and high of the correction; unset: its own."
    )
    llds: float = Field(
        default=0.0, ge=0, description="Coefficient of the penalty on good actions that become less likely."
    )
    old: Literal["sampled", "recomputed"] = Field(
        default="sampled",
        description="Old log-probabilities: as they were sampled, or computed anew before the update.",
    )


class Train(Section):
    """The loop of reinforcement learning."""

    steps: int = Field(default=100, ge=0, description="Iterations: sample tasks, roll out, update.")
    tasks: int = Field(default=8, ge=1, description="Groups (task instances) in an iteration.")
    pool: int = Field(
        default=0,
        ge=0,
        description="Different training tasks; 0: as many as the environment lists (1,000 where it makes them).",
    )
    group: int = Field(default=8, ge=1, description="Episodes of one task instance.")
    concurrency: int = Field(default=64, ge=1, description="Episodes played at a time.")
    updates: int = Field(
        default=2, ge=1, description="Optimiser steps in an iteration, however long the episodes were."
    )
    lr: float = Field(default=3e-4, gt=0, le=1, description="Highest learning rate.")
    schedule: Literal["constant", "cosine"] = Field(default="constant", description="Learning rate after the warm-up.")
    warmup: int = Field(default=0, ge=0, description="Optimiser steps of linear warm-up.")
    weight_decay: float = Field(default=0.0, ge=0, description="Weight decay of AdamW.")
    grad_clip: float = Field(default=1.0, gt=0, description="Highest norm of the gradient.")
    micro_tokens: int = Field(default=4096, ge=1, description="Tokens (padding included) computed at a time.")
    checkpoint_every: int = Field(
        default=10, ge=0, description="Iterations between checkpoints; 0: only the first and last."
    )
    keep: int = Field(default=2, ge=1, description="Checkpoints that are kept.")


class Evaluation(Section):
    """Evaluation on a panel of tasks fixed by id, before and after training and in between."""

    every: int = Field(default=0, ge=0, description="Iterations between evaluations; 0: only before and after.")
    episodes: int = Field(default=100, ge=0, description="Tasks of the panel, one episode each; 0: no evaluation.")
    during: int = Field(default=0, ge=0, description="Tasks of the evaluations in between; 0: the whole panel.")
    split: str = Field(
        default="", description="Split of the panel's tasks; empty: what env.eval or the environment says."
    )
    temperature: float = Field(default=1.0, ge=0, description="Sampling temperature; 0: the most probable token.")


class Run(Section):
    """One run: everything that decides what it does."""

    name: str = Field(default="run", description="Name of the run.")
    seed: int = Field(default=0, ge=0, description="Everything random follows from it.")
    output: str = Field(default="", description="Folder of the results; empty: runs/NAME.")
    threads: int = Field(default=0, ge=0, description="Threads of torch on the CPU; 0: as torch chooses.")
    trajectories: Literal["", ".jsonl", ".jsonl.gz", ".jsonl.zst"] = Field(
        default=".jsonl.gz", description="How the trajectories of each iteration are stored; empty: not at all."
    )
    tensorboard: bool = Field(default=False, description="Write TensorBoard events beside the metrics.")
    env: Env = Field(default_factory=Env, description="The environment.")
    agent: AgentSection = Field(default_factory=AgentSection, description="The agent.")
    policy: Policy = Field(default_factory=Policy, description="The model.")
    imitation: Imitation = Field(default_factory=Imitation, description="The warm start.")
    credit: Credit = Field(default_factory=Credit, description="The credit rule.")
    objective: ObjectiveSection = Field(default_factory=ObjectiveSection, description="The loss.")
    train: Train = Field(default_factory=Train, description="The loop.")
    evaluation: Evaluation = Field(default_factory=Evaluation, description="The evaluation.")

    @property
    def folder(self) -> Path:
        """Folder of the results."""
        output, name = self.output, self.name
        return Path(output) if output else Path("runs") / name

    def evaluation_kwargs(self) -> dict[str, Any]:
        """Give the environment's arguments for evaluation: env.kwargs, then env.eval, then the split on top."""
        split = self.evaluation.split
        return {**self.env.kwargs, **self.env.eval, **({"split": split} if split else {})}

    @classmethod
    def load(cls, path: str | Path, overrides: Sequence[str] = ()) -> Self:
        """Read a run's file.

        Args:
            path: a TOML file.
            overrides: "section.key=value", value as in TOML; a bare word is a string.

        Returns:
            The run; nothing of it counts as read yet.

        Raises:
            ConfigError: the file is no TOML, or a key or value cannot be.
            OSError: the file cannot be read.
        """
        try:
            table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number or a nesting without end
            raise ConfigError(f"{path} is not a TOML file: {error}") from error
        return cls.parse(table, overrides, source=str(path))

    @classmethod
    def parse(cls, table: dict[str, Any], overrides: Sequence[str] = (), *, source: str = "the run") -> Self:
        """Read a run from a table, as `load` does from a file.

        Args:
            table: nested tables as of tomllib; not changed.
            overrides: "section.key=value".
            source: what messages call the table.

        Returns:
            The run; nothing of it counts as read yet.

        Raises:
            ConfigError: a key or value cannot be.
        """
        merged = _copy(table)
        for override in overrides:
            _override(merged, override)
        try:
            return cls.model_validate(merged)
        except ValidationError as error:
            raise ConfigError("; ".join(_explain(cls, problem, source) for problem in error.errors())) from error

    def unread(self) -> list[str]:
        """Give the dotted names of keys that were set and that nothing read so far."""
        return list(_unread(self, ""))

    def check_read(self) -> None:
        """Fail if a key was set and nothing read it; call once everything is set up.

        Raises:
            ConfigError: it names the keys.
        """
        names = self.unread()
        if names:
            verb = "has" if len(names) == 1 else "have"
            raise ConfigError(f"{', '.join(names)} {verb} no effect in this run (nothing read it); remove it")

    def to_toml(self, *, effective: bool = False) -> str:
        """Render the run, defaults included, as the text of a TOML file that `load` reads back.

        Args:
            effective: leave out what nothing has read so far; once a run is set up, that is what has no effect in it.
        """
        return "".join(render(_effective(self) if effective else self.model_dump()))


def _copy(table: dict[str, Any]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in table.items()}


def _override(table: dict[str, Any], override: str) -> None:
    """Set one "a.b=value" in the nested table."""
    name, equals, text = override.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(f"an override is written section.key=value, not {override!r}")
    for depth, key in enumerate(keys[:-1]):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{'.'.join(keys[: depth + 1])} is not a table, so {override!r} cannot be set")
    table[keys[-1]] = parse_value(text.strip())


def parse_value(text: str) -> Any:
    """Read what stands after the `=` on a command line: a TOML value; what is none is the text, without quotes.

    Args:
        text: the word after the equals sign.
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "\n" in text or ("#" in text and text[:1] not in ("'", '"', "[")):  # TOML would read on, or see a comment
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # no TOML, or a number or a nesting without end
        return text


def _explain(model: type[BaseModel], problem: Any, source: str) -> str:
    """Turn one problem of pydantic into a clause that names the key, and the near one if it is unknown."""
    path = [str(part) for part in problem["loc"]]
    name = ".".join(path)
    if problem["type"] != "extra_forbidden":
        given = "" if isinstance(problem["input"], dict) else f" (it is {problem['input']!r})"
        return f"{source}: {name}: {problem['msg'][:1].lower()}{problem['msg'][1:]}{given}"
    section: type[BaseModel] = model
    for part in path[:-1]:
        inner = section.model_fields[part].annotation
        assert isinstance(inner, type)
        section = inner
    return f"{source}: unknown key {name!r}{near(path[-1], section.model_fields)}"


def _unread(section: Section, prefix: str) -> Iterator[str]:
    values = object.__getattribute__(section, "__dict__")
    for name in type(section).model_fields:
        if name not in section.__pydantic_fields_set__:
            continue
        if isinstance(values[name], Section):
            yield from _unread(values[name], f"{prefix}{name}.")
        elif name not in section._read:
            yield f"{prefix}{name}"


def _effective(section: Section) -> dict[str, Any]:
    values = object.__getattribute__(section, "__dict__")
    return {
        name: _effective(value) if isinstance(value, Section) else value
        for name, value in values.items()
        if isinstance(value, Section) or name in section._read
    }


def reference() -> str:
    """Render the reference of every key as the text of docs/config.md."""
    lines = [
        "# Configuration of a run",
        "",
        "Rendered from `training/config.py`; change it there, and write this file anew with",
        "`python -c \"from turnwise.training.config import reference as r; print(r(), end='')\" > docs/config.md`.",
        "",
        "A run is one TOML file. On the command line, `section.key=value` replaces a value. A key that is unknown, or",
        "that nothing reads in this run (such as `policy.hidden` beside `policy.path`), is an error that names it.",
    ]
    tables = [("", Run)] + [
        (name, field.annotation)
        for name, field in Run.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
    ]
    for name, section in tables:
        assert section is not None
        title = f"`[{name}]`" if name else "Top level"
        lines += [
            "",
            f"## {title}",
            "",
            (section.__doc__ or "").strip(),
            "",
            "| key | default | meaning |",
            "|---|---|---|",
        ]
        for key, field in section.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
                continue
            lines.append(f"| `{key}` | `{literal(field.default)}` | {field.description} |")
    return "\n".join(lines) + "\n"
