"""Whether demonstrations are played or read, as the `[imitation]` section says."""

from turnwise.agents.samplers.base import SAMPLERS, parse_sampler
from turnwise.envs import demonstrators
from turnwise.training.config.sections import ImitationSection


def plays(section: ImitationSection, env_id: str) -> bool:
    """Return whether demonstrations are played, rather than read from a file.

    Args:
        section: the `[imitation]` section of a run.
        env_id: id of its environment, which may have demonstrators of its own.
    """
    name = section.demonstrator
    players = {"expert", *demonstrators(env_id), *SAMPLERS.names()}
    return section.episodes > 0 and (name in players or (":" in name and parse_sampler(name)[0] in players))
