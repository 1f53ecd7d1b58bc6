"""An OpenAI-compatible server on 127.0.0.1 for tests: a tiny model that really samples, and faults on request.

It answers /models, /chat/completions, /responses, /completions and /tokenize, and the commands that vLLM has for new
weights, in the way of vLLM: token ids, log-probabilities, stop reasons, and requests that end when their client goes
away.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from turncredit.agents.models.tokenization import AnswerEnd, codec_of
from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Completion, Request
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.processes.serving import serve_in_thread
from turncredit.training.learner.policy import build_policy

NAME = "tiny"
VIEW = View("", "", None, 0)


@dataclass(frozen=True)
class Fault:
    """An answer that is not one: a status with a body, some seconds late, without an end, or a broken connection."""

    status: int = 200
    body: str | bytes = ""
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    breaks: bool = False
    endless: bool = False


NOT_FOUND = Fault(404, '{"detail":"Not Found"}')


def error(status: int, message: str, code: str = "", **headers: str) -> Fault:
    """Return an error in the form of the OpenAI API; underscores in the names of headers become dashes."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": code or status}})
    return Fault(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def chat_model(context: int) -> tuple[Any, Any]:
    """Return a tiny random model and its tokenizer, which has a chat template."""
    module, tokenizer = build_policy(["You see a door."] * 3, vocab=300, hidden=32, layers=1, heads=1, context=context)
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message.role }}: {{ message.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    return module, tokenizer


class ToyServer:
    """The server; `faults` are used up before it samples, `script` replaces the samples of the model."""

    def __init__(self, module: Any, tokenizer: Any, *, context: int = 128, key: str = "", processed: bool = True):
        self.module, self.tokenizer, self.context, self.key = module, tokenizer, context, key
        self.codec = codec_of(tokenizer)
        self.processed = processed
        self.faults: deque[Fault] = deque()
        self.always: Fault | None = None
        self.script: deque[str | dict[str, Any] | list[dict[str, Any]]] = deque()
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.prompts: list[str] = []
        self.connections: set[tuple[str, int]] = set()
        self.abandoned = 0
        self.busy = self.most_busy = 0
        self.models = [NAME]
        self.extended = True
        self.tells = ""
        """How it tells the prompt of messages: as "tokens" (vLLM), as a "prompt" (llama.cpp), or not at all."""
        self._sampler = TransformersSampler(module, tokenizer, concurrency=64, context=context)
        self._numbers = itertools.count()

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serve in a thread; yields the base URL."""
        with serve_in_thread(self) as url:  # type: ignore[arg-type]
            yield url + "/v1"

    def sent(self, path: str) -> list[dict[str, Any]]:
        """Return the bodies of the requests to a path."""
        return [body for one, body in self.requests if one == path]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        data, more = b"", True
        while more:
            event = await receive()
            data, more = data + event.get("body", b""), event.get("more_body", False)
        body = json.loads(data) if data else {}
        path = scope["path"].removeprefix("/v1")
        self.requests.append((path, body))
        self.connections.add(tuple(scope["client"]))
        keys = [value.decode() for name, value in scope["headers"] if name == b"authorization"]
        work = asyncio.ensure_future(self._answer(path, body, keys))
        gone = asyncio.ensure_future(receive())
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        self.busy -= 1
        gone.cancel()
        if not work.done():
            self.abandoned += 1
            work.cancel()
            return
        fault = work.result()
        content = fault.body.encode() if isinstance(fault.body, str) else fault.body
        length = len(content) + (1 if fault.breaks else 0)
        headers = {"content-type": "application/json", "content-length": str(length), **fault.headers}
        encoded = [
            (name.encode(), value.encode())
            for name, value in headers.items()
            if not (fault.endless and name == "content-length")
        ]
        await send({"type": "http.response.start", "status": fault.status, "headers": encoded})
        while fault.endless and self.always is fault:
            await send({"type": "http.response.body", "body": b" " * (1 << 16), "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, path: str, body: dict[str, Any], keys: list[str]) -> Fault:
        if self.key and keys != [f"Bearer {self.key}"]:
            return error(401, f"Incorrect API key provided: {keys}", "invalid_api_key")
        about = path in ("/models", "/apply-template") or (path == "/tokenize" and "messages" in body)
        if not about and (self.faults or self.always):
            fault = self.faults.popleft() if self.faults else self.always
            assert fault is not None
            await asyncio.sleep(fault.seconds)
            if fault.body or fault.status != 200 or fault.breaks or fault.endless:
                return fault
        if not 0 <= body.get("temperature", 1.0) <= 2:  # as vLLM does
            return error(400, f"temperature must be in [0, 2], got {body['temperature']}.")
        if "model" in body and body["model"] not in self.models:
            return error(404, f"The model `{body['model']}` does not exist.", "NotFoundError")
        handler = getattr(self, "_" + path.strip("/").replace("/", "_").replace("-", "_"), None)
        if handler is None:
            return NOT_FOUND
        found = await handler(body)
        return found if isinstance(found, Fault) else Fault(200, json.dumps(found))

    async def _models(self, body: dict[str, Any]) -> Any:
        return {"data": [{"id": name, "max_model_len": self.context} for name in self.models]}

    async def _tokenize(self, body: dict[str, Any]) -> Any:
        if "messages" not in body:
            return {"tokens": list(self.codec.encode(body["prompt"]))}
        return {"tokens": list(self.codec.encode(self._rendered(body)))} if self.tells == "tokens" else NOT_FOUND

    async def _detokenize(self, body: dict[str, Any]) -> Any:
        return {"prompt": self.codec.decode(body["tokens"])}

    async def _apply_template(self, body: dict[str, Any]) -> Any:
        return {"prompt": self._rendered(body)} if self.tells == "prompt" else NOT_FOUND

    def _rendered(self, body: dict[str, Any]) -> str:
        arguments = body.get("chat_template_kwargs", {})
        return str(
            self.tokenizer.apply_chat_template(
                body["messages"], tokenize=False, add_generation_prompt=body["add_generation_prompt"], **arguments
            )
        )

    async def _collective_rpc(self, body: dict[str, Any]) -> Any:
        """Load weights, with turncredit's method if `extended`, else with vLLM's own."""
        own = body["method"] == "reload_weights"
        if not own and not self.extended:
            return error(500, f"Worker failed with error ''CPUWorker' object has no attribute '{body['method']}''")
        folder = body["kwargs"]["weights_path"] if own else body["args"][0]
        for file in Path(folder).glob("*.safetensors"):
            self.module.load_state_dict(load_file(file), strict=False)
        return {"results": [None]}

    async def _load_lora_adapter(self, body: dict[str, Any]) -> Any:
        assert (Path(body["lora_path"]) / "adapter_config.json").is_file()
        if body["lora_name"] in self.models:  # as vLLM does
            return error(400, f"The lora adapter '{body['lora_name']}' has already been loaded.")
        self.models.append(body["lora_name"])
        return Fault(200, "Success: LoRA adapter added")

    async def _unload_lora_adapter(self, body: dict[str, Any]) -> Any:
        self.models.remove(body["lora_name"])
        return Fault(200, "Success: LoRA adapter removed")

    async def _reset_prefix_cache(self, body: dict[str, Any]) -> Any:
        await self._sampler.load(self.module, 0)
        return {"success": True}

    async def _chat_completions(self, body: dict[str, Any]) -> Any:
        messages = [
            {"role": "assistant", "content": json.dumps(one["tool_calls"])} if one.get("tool_calls") else one
            for one in body["messages"]
        ]
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        self.prompts.append(text)
        ids = list(self.codec.encode(text))
        scripted = self.script.popleft() if self.script else None
        if isinstance(scripted, dict):
            return {"choices": [scripted], "usage": {"prompt_tokens": len(ids), "completion_tokens": 5}}
        answer = await self._sample(ids, body, scripted)
        if isinstance(answer, Fault):
            return answer
        found, reason = answer
        said = found.text.removesuffix(reason) if reason else found.text
        choice = {"message": {"role": "assistant", "content": said}, "finish_reason": found.finish}
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(found.tokens)}
        return {"choices": [{**choice, "stop_reason": reason}], "usage": usage}

    async def _responses(self, body: dict[str, Any]) -> Any:
        """Answer as the Responses API does; a scripted answer is a list of output items, or fields of the answer."""
        said = [one for one in body["input"] if one.get("type") == "message"]
        text = self.tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
        ids = list(self.codec.encode(text))
        scripted = self.script.popleft() if self.script else None
        fields: dict[str, Any] = {"status": "completed", "error": None, "incomplete_details": None}
        if isinstance(scripted, list | dict):
            fields |= {"output": scripted} if isinstance(scripted, list) else scripted
            tokens = 5
        else:
            answer = await self._sample(ids, {"seed": 0, **body, "max_tokens": body["max_output_tokens"]}, scripted)
            if isinstance(answer, Fault):
                return answer
            found, _ = answer
            tokens = len(found.tokens)
            part = {"type": "output_text", "text": found.text, "annotations": []}
            item = {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
            fields["output"] = [item]
            if found.finish == "length":
                fields |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        usage = {"input_tokens": len(ids), "output_tokens": tokens, "total_tokens": len(ids) + tokens}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        same = {"id": "r1", "object": "response", "created_at": 0, "model": self.models[0], "usage": usage}
        return {**same, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], **fields}

    async def _completions(self, body: dict[str, Any]) -> Any:
        ids = body["prompt"]
        self.prompts.append(self.tokenizer.decode(ids))
        answer = await self._sample(ids, body, self.script.popleft() if self.script else None)
        if isinstance(answer, Fault):
            return answer
        found, reason = answer
        table = self._table(ids, found.tokens, body["temperature"] if self.processed else 1.0)
        picked = [float(row[token]) for row, token in zip(table, found.tokens, strict=True)]
        choice: dict[str, Any] = {"text": found.text, "finish_reason": found.finish, "stop_reason": reason}
        if body.get("return_token_ids"):
            choice |= {"token_ids": list(found.tokens), "prompt_token_ids": ids}
        choice["logprobs"] = {
            "token_logprobs": list(found.logprobs) if self.processed else picked,
            "top_logprobs": [{"top": float(row.max())} for row in table],
        }
        return {"choices": [choice], "usage": {"prompt_tokens": len(ids), "completion_tokens": len(found.tokens)}}

    def _table(self, ids: list[int], tokens: tuple[int, ...], temperature: float) -> torch.Tensor:
        with torch.inference_mode():
            logits = self.module(input_ids=torch.tensor([[*ids, *tokens]]), use_cache=False).logits[0].float()
        return torch.log_softmax(logits / (temperature or 1.0), dim=-1)[len(ids) - 1 : -1]

    async def _sample(
        self, ids: list[int], body: dict[str, Any], scripted: Any
    ) -> tuple[Completion, str | None] | Fault:
        most = body["max_tokens"]
        if len(ids) + most > self.context:
            return error(
                400,
                f"This model's maximum context length is {self.context} tokens. However, you requested {most} output "
                f"tokens and your prompt contains {len(ids)} input tokens.",
            )
        if scripted is not None:
            tokens = self.codec.response(scripted)
            return Completion(tokens, (0.0,) * len(tokens), scripted, 0, "stop"), None
        request = Request(
            episode=str(next(self._numbers)),
            turn=0,
            prompt=tuple(ids),
            messages=(),
            seed=body["seed"],
            view=VIEW,
            temperature=body["temperature"],
            top_p=body.get("top_p", 1.0),
            max_tokens=most,
            stop=tuple(body.get("stop", ())),
            end=AnswerEnd("", token) if (token := next(iter(body.get("stop_token_ids", ())), None)) else None,
        )
        try:
            found = await self._sampler.sample(request)
        finally:
            self._sampler.forget(request.episode)
        return found, next((stop for stop in request.stop if stop in found.text), None)
