"""Who demonstrates, and whether demonstrations are played or read, as the `[imitation]` section says."""

from turncredit.engines.base import SAMPLERS, parse_sampler
from turncredit.engines.expert import Expert
from turncredit.engines.scripted import DemonstratorSampler
from turncredit.envs import demonstrators
from turncredit.training.config.sections import ImitationSection


def plays(section: ImitationSection, env_id: str) -> bool:
    """Return whether demonstrations are played, rather than read from a file.

    Args:
        section: the `[imitation]` section of a run.
        env_id: id of its environment, which may have demonstrators of its own.
    """
    name = section.demonstrator.name
    players = {"expert", *demonstrators(env_id), *SAMPLERS.names()}
    return section.episodes > 0 and (name in players or (":" in name and parse_sampler(name)[0] in players))


def player_of(name: str, env_id: str, parser: str) -> Expert | DemonstratorSampler | None:
    """Return the expert or a demonstrator of an environment by its name; None for another name.

    Args:
        name: name of imitation.demonstrator.
        env_id: id of the environment.
        parser: name of the parser whose form it answers in.
    """
    if name == "expert":
        return Expert(parser=parser)
    players = demonstrators(env_id)
    return DemonstratorSampler(players[name], parser=parser) if name in players else None
