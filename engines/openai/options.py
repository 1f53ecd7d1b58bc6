"""Options of the `openai` sampler, checked."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turncredit.agents.errors import SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.engines.base import SamplerSettings
from turncredit.engines.openai.client import base_url
from turncredit.registry import suggest

__all__ = ["OpenAIOptions", "check_settings"]


class OpenAIOptions(BaseModel):
    """What a run or a command may set under ``options``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: str = ""
    """The model's name on the server; empty: the name of the sampler's model."""
    api: Literal["chat", "responses"] = "chat"
    """Which API is asked: /chat/completions, or the Responses API."""
    tokens: bool = False
    """Use the server as a token engine: ids in, ids and log-probabilities out."""
    tokenizer: str = ""
    """Folder or Hugging Face id of the token engine's tokenizer; empty: the model's name."""
    folder: str = ""
    """Where new weights are written for the server to read; empty: a temporary folder of this machine."""
    transfer: Literal["files", "gloo", "ipc"] = "files"
    """How new weights reach the server, which has to be started with the same option."""
    adapters: bool = False
    """Load the adapter of a LoRA run as an adapter, instead of the merged model."""
    key_variable: str = Field("OPENAI_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Environment variable that holds the API key."""
    timeout: float = Field(300.0, gt=0)
    """Seconds for one attempt."""
    retries: int = Field(8, ge=0)
    """Attempts after the first."""
    patience: float = Field(30.0, ge=0)
    """Seconds after its first failure for which a server is asked that has not answered any request."""
    longest_wait: float = Field(120.0, ge=0)
    """Maximum number of seconds that the server's Retry-After is followed."""
    input_price: float | None = Field(None, ge=0)
    """Price of a million prompt tokens."""
    output_price: float | None = Field(None, ge=0)
    """Price of a million response tokens."""
    tools: bool | tuple[dict[str, Any], ...] = False
    """Native tool calls: the function schemas, as in the OpenAI API, or true for those of the environment."""
    tool_format: Literal["hermes", "openai"] = "hermes"
    """The environment's format of calls, into which native tool calls are turned."""
    opens_thought: bool | None = None
    """Whether the server's prompts end with an opened thought that it does not set apart; None: as it turns out."""
    images: bool = True
    """Whether images of observations are sent; False: environments that return images are refused."""
    limit: Literal["", "max_tokens", "max_completion_tokens"] = ""
    """Name of the field for the longest response; empty: chosen by the server's host."""
    omit: tuple[str, ...] = ()
    """Fields that are not sent, for models that refuse them, such as temperature; with "messages." before the name,
    fields of the messages, such as messages.reasoning_content."""
    body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request."""

    @classmethod
    def read(cls, options: JsonObject) -> OpenAIOptions:
        """Return the options of a table.

        Raises:
            SamplerError: an unknown option, or a value of the wrong type or out of range.
        """
        for name in options:
            if name not in cls.model_fields:
                raise SamplerError(f"the openai sampler has no option {name!r}{suggest(name, list(cls.model_fields))}")
        try:
            return cls.model_validate(dict(options), strict=False)
        except ValidationError as error:
            problem = error.errors()[0]
            location = ".".join(str(part) for part in problem["loc"])
            if location == "key_variable":  # what was given may be the key itself
                raise SamplerError(
                    "the option 'key_variable' of the openai sampler must be the name of an environment variable that "
                    "holds the key"
                ) from None
            raise SamplerError(
                f"the option {location!r} of the openai sampler: {problem['msg'].lower()}, got {problem['input']!r}"
            ) from error

    def cost(self, prompt_tokens: int, response_tokens: int) -> float | None:
        """Return the price of one request, in the currency of the prices; None without prices."""
        if self.input_price is None and self.output_price is None:
            return None
        return ((self.input_price or 0.0) * prompt_tokens + (self.output_price or 0.0) * response_tokens) / 1e6


def check_settings(settings: SamplerSettings, here: bool) -> None:
    """Refuse options and a URL that the sampler would refuse; no request is sent.

    Raises:
        SamplerError: an unknown option, a wrong value, or an invalid URL.
    """
    OpenAIOptions.read(settings.options)
    if settings.url:
        base_url(settings.url)
