"""Whether a run's demonstrations are played or read."""

from turnwise.agents.samplers.base import SAMPLERS, parse_sampler
from turnwise.envs import demonstrators
from turnwise.training.config.run import Run


def plays(run: Run) -> bool:
    """Return whether demonstrations are played, rather than read from a file."""
    name = run.imitation.demonstrator
    known = {"expert", *demonstrators(run.env.id), *SAMPLERS.names()}
    return run.imitation.episodes > 0 and (name in known or (":" in name and parse_sampler(name)[0] in known))
