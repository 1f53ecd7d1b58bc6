"""The routers of a policy whose experts are replayed."""

from turncredit.agents.errors import ModelError
from turncredit.engines.transformers.expert_routing import Routers
from turncredit.training.errors import ConfigError
from turncredit.training.learner.untyped import CausalLM


def replayable_routers(model: CausalLM) -> Routers:
    """Return the routers of a model.

    Raises:
        ConfigError: experts cannot be prescribed to it.
    """
    try:
        return Routers.checked(model)
    except ModelError as error:
        raise ConfigError(f"train.routing_replay is not available: {error}") from error
