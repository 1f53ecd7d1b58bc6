"""The configuration of a run: one TOML file, read into one pydantic model.

The sections are in `turncredit.training.config.sections`; docs/config.md is rendered from them. An unknown key is an
error that suggests the nearest one. A key that is set and has no effect in the run is an error too:
`turncredit.training.preflight.effects` declares when each key matters.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, time
from pathlib import Path
from typing import Any, Literal, Self, TypeGuard

from pydantic import BaseModel, Field, ValidationError, model_validator

from turncredit.registry import suggest
from turncredit.tools.bounded_input import InputError, parse_toml, read_toml
from turncredit.training.config.renamed import new_name, put, short_name, with_new_names
from turncredit.training.config.section_tables import AbbreviatedSection, LoggersSection, Section
from turncredit.training.config.sections import (
    AgentSection,
    CheckpointsSection,
    Choice,
    ClusterSection,
    CreditSection,
    EnvSection,
    EvaluationSection,
    ImitationSection,
    ObjectiveSection,
    PolicySection,
    SamplerSection,
    SamplingSection,
    TrainSection,
)
from turncredit.training.config.stages import StageSection
from turncredit.training.config.toml import Table, literal, render, without_dates
from turncredit.training.errors import ConfigError

MAX_PROBLEMS = 5
"""Maximum number of problems that an error message lists."""


class Run(Section):
    """One run: everything that decides what it does."""

    name: str = Field(default="run", description="Name of the run.")
    seed: int = Field(default=0, ge=0, description="Seed of everything random.")
    output: str = Field(default="", description="Output folder; empty: runs/NAME.")
    threads: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="CPU threads of torch; 0: chosen by the model's size; 1: repeatable on the same CPU.",
    )
    processes: int = Field(
        default=1,
        ge=1,
        description="Processes that play episodes and compute gradients at once, each with one thread (CPU only).",
    )
    trajectory_format: Literal["", ".jsonl", ".jsonl.gz", ".jsonl.zst"] = Field(
        default=".jsonl.gz", description="Format in which trajectories are stored; empty: they are not."
    )
    loggers: LoggersSection = Field(
        default_factory=LoggersSection,
        description="Where metrics are sent, beside metrics.jsonl: a list of names, or a table.",
    )
    env: EnvSection = Field(default_factory=EnvSection, description="The environment.")
    agent: AgentSection = Field(default_factory=AgentSection, description="The agent.")
    policy: PolicySection = Field(default_factory=PolicySection, description="The model.")
    sampler: SamplerSection = Field(default_factory=SamplerSection, description="The engine that samples.")
    cluster: ClusterSection = Field(default_factory=ClusterSection, description="Engines on a Ray cluster.")
    imitation: ImitationSection = Field(default_factory=ImitationSection, description="The warm start.")
    credit: CreditSection = Field(default_factory=CreditSection, description="Credit assignment.")
    objective: ObjectiveSection = Field(default_factory=ObjectiveSection, description="The loss.")
    train: TrainSection = Field(default_factory=TrainSection, description="The loop.")
    sampling: SamplingSection = Field(default_factory=SamplingSection, description="What an iteration is made of.")
    stages: list[StageSection] = Field(
        default=[], description="Parts of the run with other settings, as tables `[[stages]]`; see below."
    )
    checkpoints: CheckpointsSection = Field(default_factory=CheckpointsSection, description="What is kept of the run.")
    evaluation: EvaluationSection = Field(default_factory=EvaluationSection, description="The evaluation.")

    @model_validator(mode="before")
    @classmethod
    def _objective_of_stale_turns(cls, table: object) -> object:
        """Use the decoupled objective for asynchronous rollouts, unless the objective is chosen."""
        if not isinstance(table, dict):
            return table
        try:
            train = TrainSection.model_validate(table.get("train", {}))
            objective = ObjectiveSection.model_validate(table.get("objective", {}))
        except ValidationError:  # the sections' own validation says so
            return table
        if not train.asynchronous or objective.model_fields_set & {"name", "old_logprobs"}:
            return table
        values = {**dict(objective), "name": "decoupled", "old_logprobs": "recomputed"}
        # it is a default: still not set, so that an arm of an ablation may choose another one
        section = ObjectiveSection.model_construct(_fields_set=objective.model_fields_set, **values)
        return {**table, "objective": section}

    @property
    def folder(self) -> Path:
        """The output folder."""
        return Path(self.output).expanduser() if self.output else Path("runs") / self.name

    def evaluation_kwargs(self) -> Table:
        """Return the arguments of the environment in evaluation: env.kwargs, updated with evaluation.env."""
        return self.env.arguments(self.evaluation.env, "evaluation")

    def demonstration_kwargs(self) -> Table:
        """Return the arguments of the environment in demonstrations: env.kwargs, updated with imitation.env."""
        return self.env.arguments(self.imitation.env, "imitation")

    @classmethod
    def load(cls, path: str | Path, overrides: Sequence[str] = ()) -> Self:
        """Read a run from a TOML file.

        Args:
            path: the file.
            overrides: "section.key=value" words, with values as in TOML; a bare word is a string.

        Raises:
            ConfigError: the file is not TOML, a key is unknown, or a value is invalid.
            OSError: the file cannot be read.
        """
        try:
            table = read_toml(Path(path).expanduser())
        except InputError as error:
            raise ConfigError(f"{path} is not a TOML file: {error}") from error
        return cls.parse(table, overrides, source=str(path))

    @classmethod
    def parse(cls, table: Table, overrides: Sequence[str] = (), *, source: str = "the run") -> Self:
        """Read a run from nested tables, as `load` does from a file.

        Args:
            table: as returned by tomllib; it is not changed.
            overrides: "section.key=value" words.
            source: name of the table in error messages.

        Raises:
            ConfigError: a key is unknown, or a value is invalid.
        """
        merged, renamed = with_new_names({key: without_dates(value) for key, value in table.items()})
        for override in overrides:
            renamed |= _override(merged, override)
        if renamed:
            pairs = [f"{old} is now {new}" for old, new in renamed.items()]
            more = f", and {len(pairs) - MAX_PROBLEMS} more" if len(pairs) > MAX_PROBLEMS else ""
            # without the name of the file, so that many runs with the same keys give one note
            warnings.warn(f"old names of keys were read: {', '.join(pairs[:MAX_PROBLEMS])}{more}", FutureWarning, 2)
        try:
            return cls.model_validate(merged)
        except ValidationError as error:
            clauses = list(
                dict.fromkeys(_explain(cls, problem) for problem in error.errors())
            )  # a union has one per type
            more = f"; and {len(clauses) - MAX_PROBLEMS} more" if len(clauses) > MAX_PROBLEMS else ""
            raise ConfigError(f"{source}: {'; '.join(clauses[:MAX_PROBLEMS])}{more}") from error

    def to_toml(self) -> str:
        """Return the run, defaults included, as the text of a TOML file that `load` reads back."""
        return "".join(render(self.model_dump()))


def _override(table: Table, override: str) -> dict[str, str]:
    """Set one "a.b=value" in the nested tables; return the old key in it with what it is called now."""
    name, equals, text = override.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(f"an override has the form section.key=value, got {override!r}")
    if "'" in name or '"' in name:
        raise ConfigError(
            f'{override!r}: keys of a word are not quoted; write the table above it, such as env.kwargs={{"a.b" = 1}}'
        )
    path, renamed = new_name(keys)
    value = parse_value(text.strip())
    if isinstance(value, bool | int | float) and _takes_text(path):
        value = text.strip()  # name=2026
    put(table, path, value, f"{override!r} cannot be set: {{value}} is a value, not a table")
    return renamed


def _takes_text(path: Sequence[str]) -> bool:
    """Return whether a key takes any text, and nothing else."""
    kind: object = Run
    for key in path:
        fields = kind.model_fields if _is_section(kind) else {}
        kind = fields[key].annotation if key in fields else None
    return kind is str


def parse_value(text: str) -> object:
    """Return the value of a `key=value` word on the command line: a TOML value, or the text itself.

    `True` and `False` are read as `true` and `false`, also in lists and tables. Dates and times stay texts.

    >>> parse_value("1e-3"), parse_value("[1, 2]"), parse_value("tiny"), parse_value("{tools = True}")
    (0.001, [1, 2], 'tiny', {'tools': True})
    >>> parse_value("2026-01-31")
    '2026-01-31'
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "\n" in text or (
        "#" in text and text[:1] not in ("'", '"', "[", "{")
    ):  # TOML would see a second line or a comment
        return text
    lowered = _BOOLEAN.sub(lambda match: match[1] or match[2].lower(), text) if text[:1] in ("[", "{") else text
    for toml in dict.fromkeys((text, lowered)):
        with suppress(ValueError, RecursionError):  # invalid TOML, or numbers or nesting without end
            value = parse_toml(f"value = {toml}", "it")["value"]
            return text if isinstance(value, date | time) else without_dates(value)
    return text


def _explain(model: type[BaseModel], problem: Any) -> str:
    """Return one validation problem as a clause that names the key."""
    section, path = model, []
    for part in map(str, problem["loc"]):
        path.append(part)
        if part not in section.model_fields:
            break
        inner = section.model_fields[part].annotation
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        section = inner
    name = short_name(".".join(path))
    if problem["type"] == "extra_forbidden":
        if name in _RENAMED:
            return f"the key {name!r} is now {_RENAMED[name]}"
        prefix = name.removesuffix(path[-1])
        return f"unknown key {name!r}{suggest(name, [prefix + key for key in section.model_fields])}"
    expected = _EXPECTED.get(problem["type"], "").format(**problem.get("ctx", {}))
    if path[-1] in section.model_fields and section.model_fields[path[-1]].annotation == Choice:
        expected = "a name or a table with a name"
    if expected:
        return f"{name} must be {expected}, got {_short(problem['input'])}"
    got = "" if isinstance(problem["input"], dict) else f", got {_short(problem['input'])}"
    return f"{name}: {problem['msg'][:1].lower()}{problem['msg'][1:]}{got}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_BOOLEAN = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*')|\b(True|False)\b""")
"""A quoted string, or a truth value as Python writes it."""

_RENAMED = {"tensorboard": 'loggers = ["tensorboard"]'}
"""Old keys, and how to say the same now."""

_EXPECTED = {
    "greater_than": "> {gt:g}",
    "greater_than_equal": ">= {ge:g}",
    "less_than_equal": "<= {le:g}",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "finite",
    "string_type": "a string",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a table",
    "model_type": "a table",
    "literal_error": "{expected}",
}
"""What a value must be, by the type of pydantic's problem and with the values of its context."""


def reference() -> str:
    """Render the reference of every key as the text of docs/config.md."""
    lines = [
        "# Configuration of a run",
        "",
        "A run is one TOML file. On the command line, `section.key=value` replaces a value: by a value of TOML, or by",
        "the text where it is none, as in `policy.device=cuda:0`. Quotes that TOML is to see stand in quotes of the",
        "shell, `'env.kwargs.note=\"2026\"'`. A key that is unknown, or that has no effect in the run (such as",
        "`policy.new.hidden` beside `policy.model`), is an error that names it. Old names of keys are read as today's,",
        "with a note.",
        "",
        'Where a value is described as a choice with options, it is a name or a table: `"window"` or',
        '`{name = "window", history = 2}`. Names are those of turncredit, of the entry points of installed packages,',
        "or `module:function`.",
    ]
    tables = [("", Run)] + [
        (name, field.annotation)
        for name, field in Run.model_fields.items()
        if _is_section(field.annotation) and not issubclass(field.annotation, AbbreviatedSection)
    ]
    tables.append(("[stages]", StageSection))
    for name, section in tables:
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
        lines += _rows(section, nested=bool(name))
    return "\n".join(lines) + "\n"


def _is_section(annotation: object) -> TypeGuard[type[Section]]:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _rows(section: type[BaseModel], *, nested: bool, prefix: str = "") -> Iterator[str]:
    """Yield the rows of a section's table; `nested`: with those of all tables in it, not of the abbreviated only."""
    for key, field in section.model_fields.items():
        inner = field.annotation
        if not _is_section(inner):
            yield f"| `{prefix}{key}` | `{literal(field.default)}` | {field.description} |"
        elif nested or issubclass(inner, AbbreviatedSection):
            yield f"| `{prefix}{key}` | | {field.description} |"
            yield from _rows(inner, nested=True, prefix=f"{key}.")
