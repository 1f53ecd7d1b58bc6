"""A harness of verifiers that asks the model in its own process, and so installs no program."""

from __future__ import annotations

import httpx
from verifiers.v1.configs.harness import HarnessConfig
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harness import Harness
from verifiers.v1.runtimes import ProgramResult

__all__ = ["ChatHarness"]


class ChatConfig(HarnessConfig):
    pass


class ChatHarness(Harness[ChatConfig]):
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, **_):
        body = {"model": ctx.model, "messages": [message_to_wire(message) for message in data.prompt]}
        async with httpx.AsyncClient(timeout=60) as client:
            headers = {"authorization": f"Bearer {secret}"}
            answer = await client.post(f"{endpoint}/chat/completions", json=body, headers=headers)
        return ProgramResult(exit_code=0 if answer.is_success else 1, stdout=answer.text, stderr="")
