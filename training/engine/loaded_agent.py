"""A trained agent from its folder: the agent with its sampler, ready to play.

A checkpoint is a Hugging Face folder; of a run folder the newest checkpoint is used. The `run.toml` of its run supplies
the prompt, the parser, the limits and the environment. A model without a run gets what the caller says.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from turncredit.agents.errors import SamplerError
from turncredit.registry import choose
from turncredit.training.errors import ConfigError

if TYPE_CHECKING:
    from turncredit.agents.agent import Agent
    from turncredit.engines import Sampler, SamplerSettings
    from turncredit.evaluation.panels import Environment
    from turncredit.training.config.run import Run


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How the model of a checkpoint is run; None or 0 leaves the choice to the checkpoint's run.

    Attributes:
        device: "cpu", "cuda", "cuda:N" or "auto".
        threads: CPU threads; without one in the run, 1 for small models and torch's own choice for large ones.
        dtype: of the weights, float32 (the default), bfloat16 or float16.
        batch_size: maximum number of episodes that are sampled together.
        options: of the sampler: context, kv_cache_gib, and options of its engine.
    """

    device: str | None = None
    threads: int = 0
    dtype: str | None = None
    batch_size: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoadedAgent:
    """An agent with its sampler. Close it with `close`, or use it in a `with` block.

    Attributes:
        name: for tables.
        agent: prompt, parser and limits.
        sampler: answers the prompts.
        folder: its checkpoint; None for a sampler without a model.
        run: the run that trained it; None if it belongs to none.
    """

    name: str
    agent: Agent
    sampler: Sampler
    folder: Path | None = None
    run: Run | None = None

    @property
    def deadline(self) -> float | None:
        """Time limit of an environment step in its run, in seconds; None for no limit."""
        return (self.run.env.deadline or None) if self.run else None

    @property
    def workers(self) -> int:
        """Processes for environments in its run; 0 for none."""
        return self.run.env.workers.count if self.run else 0

    def make(self) -> Environment:
        """Return a new environment, as its run is evaluated on.

        Raises:
            ConfigError: the agent belongs to no run.
            Untrusted: the run names code, or sets an option, that needs --trust.
            EnvError: the environment cannot be made.
        """
        from turncredit.envs import make
        from turncredit.training.config.file_options import require_safe_env

        if self.run is None:
            raise ConfigError(f"{self.name} belongs to no run, which would name its environment; make one yourself")
        kwargs = self.run.evaluation_kwargs()
        require_safe_env(self.run.env.id, kwargs)
        return make(self.run.env.id, **kwargs)

    def close(self) -> None:
        """Release the model."""
        self.sampler.close()

    def __enter__(self) -> Self:
        """Return the agent."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the model."""
        self.close()


def load_agent(
    folder: str | os.PathLike[str],
    *,
    device: str | None = None,
    dtype: str | None = None,
    threads: int = 0,
    **options: object,
) -> LoadedAgent:
    """Return a trained agent with its sampler, ready for `rollout` and `evaluate`.

    Args:
        folder: a run folder, whose newest intact checkpoint is used, or a checkpoint.
        device: "cpu", "cuda", "cuda:N" or "auto"; None: the run's, or the CPU where this machine lacks it.
        dtype: type of the weights, "float32", "bfloat16" or "float16"; None: float32.
        threads: CPU threads; 0: the run's, else 1 for a small model.
        options: fields of the agent that replace those of the run, such as `temperature=0.0`.

    Raises:
        CheckpointError: the folder does not exist, holds no checkpoint, or a damaged one.
        ConfigError: the file of the run cannot be read, or the device does not exist.
        AgentError: an option that agents do not have, or a model that cannot be loaded.
        UnknownName: there is no such type of weights.
    """
    from turncredit.training.run_folder.paths import find_checkpoint

    checkpoint = find_checkpoint(Path(folder).expanduser())
    model = ModelOptions(device, threads, dtype)
    return load_with_engine("transformers", str(checkpoint), options=options, model_options=model)


def load_with_engine(
    engine: str,
    model: str = "",
    *,
    url: str = "",
    defaults: Mapping[str, object] | None = None,
    options: Mapping[str, object] | None = None,
    model_options: ModelOptions | None = None,
    seed: int = 0,
    sampler: Sampler | None = None,
    env_id: str = "",
    env_kwargs: Mapping[str, Any] | None = None,
) -> LoadedAgent:
    """Return an agent whose sampler is made by an engine; a checkpoint keeps the agent of its run.

    Args:
        engine: name of a sampler.
        model: a folder, a Hugging Face id, or the model's name on a server.
        url: base URL of a server.
        defaults: fields of the agent that those of the run replace (see `turncredit.agents.instructions`).
        options: fields of the agent that replace those of the run.
        model_options: how the model is run.
        seed: seed of samplers without a model.
        sampler: a sampler of this model, which is used again instead of loading the model.
        env_id: the environment whose tools a chat template describes, if there is no run.
        env_kwargs: its arguments.

    Raises:
        TrainingError: the checkpoint or its run cannot be read.
        AgentError: an option that agents do not have, or a sampler that cannot be made.
        UnknownName: there is no such type of weights.
    """
    from turncredit.agents.instructions import PARTS, agent_from, merged, of_parts, tool_format, wants_tools
    from turncredit.engines import make_sampler
    from turncredit.training.run_folder.paths import find_checkpoint, run_of

    choice = model_options or ModelOptions()
    path = Path(model).expanduser()
    folder = find_checkpoint(path) if model and not url and path.exists() else None
    run = run_of(folder) if folder is not None else None
    if run is None:
        fields = merged(defaults or {}, options or {})
    else:
        env_id, env_kwargs = run.env.id, run.evaluation_kwargs()
        evaluated = {**run.agent.model_dump(), PARTS: run.env.agents(), "temperature": run.evaluation.temperature}
        fields = of_parts(evaluated, options or {})
    parser = agent_from({**fields, "chat": False}).parser  # fails on a wrong option before a model is loaded
    settings = replace(_settings(engine, str(folder or model), url, choice, run), seed=seed, parser=parser)
    if engine == "openai" and run is None and wants_tools(fields):  # of a server, instead of a chat template
        settings = replace(settings, options={**_native_calls(tool_format(fields), env_id), **settings.options})
    if sampler is None:
        if engine == "transformers":
            settings = _with_module(settings, choice.threads or (run.threads if run else 0))
        sampler = make_sampler(engine, settings)
    agent = agent_from(fields, sampler.tokenizer, env_id, env_kwargs)
    name = run.name if run else folder.name if folder else model or engine
    return LoadedAgent(name, agent, sampler, folder, run)


def _native_calls(form: str, env_id: str) -> dict[str, object]:
    """Return the options of a server that calls the tools of an environment natively.

    Args:
        form: format in which the environment reads calls; "" if it does not say.
        env_id: the environment.

    Raises:
        SamplerError: the calls of a server are not written in that format.
    """
    if form not in ("", "hermes", "openai"):
        raise SamplerError(
            f"{env_id} reads calls in the format {form!r}, and native calls of a server are written as hermes or "
            "openai; make it with form=hermes"
        )
    return {"tools": True, **({"tool_format": form} if form else {})}


def _settings(engine: str, model: str, url: str, choice: ModelOptions, run: Run | None) -> SamplerSettings:
    """Return how the sampler is made: what is chosen, else what the run says."""
    from turncredit.agents.models.model_folder import DTYPES
    from turncredit.engines import SamplerSettings

    if engine == "vllm" and ":" in (choice.device or ""):
        raise SamplerError(
            f"vLLM chooses its GPUs by CUDA_VISIBLE_DEVICES; set that instead of the device {choice.device}"
        )
    options = {} if run is None else {"context": run.policy.context}
    options |= choice.options
    return SamplerSettings(
        model=model or str(options.pop("model", "")),
        url=url or str(options.pop("url", "")),
        device=_device(choice, run),
        dtype="" if choice.dtype is None else choose("dtype", choice.dtype, DTYPES),
        kv_cache_gib=float(options.pop("kv_cache_gib", options.pop("memory", 0.0))),  # "memory" is its old name
        context=options.pop("context", None),
        concurrency=choice.batch_size or (run.train.concurrency if run else 64),
        options=options,
    )


def _device(choice: ModelOptions, run: Run | None) -> str:
    """Return the device; that of a run is replaced by the CPU where this machine lacks it, one that is named is not."""
    if choice.device is None and run is None:
        return "auto"
    from turncredit.training.learner.policy import device_of

    return device_of(choice.device or str(run and run.policy.device), elsewhere=choice.device is None)


def _with_module(settings: SamplerSettings, threads: int) -> SamplerSettings:
    """Return the settings with the loaded model."""
    from turncredit.agents.models.model_folder import find_model, load_model, load_tokenizer
    from turncredit.training.learner.policy import device_of
    from turncredit.training.learner.threads import use_threads

    use_threads(threads)
    folder = find_model(settings.model).path
    tokenizer, module = load_tokenizer(folder), load_model(folder, dtype=settings.dtype)
    use_threads(threads, module)
    return replace(settings, module=module, tokenizer=tokenizer, device=device_of(settings.device))
