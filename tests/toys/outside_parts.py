"""Parts of a run as another package would write them, to be named as "toys.outside_parts:NAME" in a run's file."""

import numpy as np
import torch

from turncredit.agents.prompts.parsing import Parsed, Parser
from turncredit.agents.prompts.prompt import Conversation
from turncredit.agents.prompts.templates import Template
from turncredit.credit import Advantages, Steps
from turncredit.credit.tokens.packed import TransformedAdvantages
from turncredit.training.objectives import Tokens, objective

TEMPLATE = Template(ask="\nWhat now?\n")
PARSER = Parser(lambda text: Parsed(action=text.strip() or None, why="empty"), "an action")


class Recounting(Conversation):
    """A prompt builder of another package."""


def last_turn(steps: Steps, *, scale: float = 1.0) -> Advantages:
    """All credit goes to the last turn of an episode."""
    last = np.zeros(len(steps))
    for trajectory in np.unique(steps.trajectory):
        rows = np.flatnonzero(steps.trajectory == trajectory)
        last[rows[np.argmax(steps.turn[rows])]] = scale
    return Advantages.of(steps, last)


@objective()
def squared(tokens: Tokens, *, factor: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the squared log-probability, weighted by the advantage."""
    return factor * tokens.advantages * tokens.new**2, torch.zeros_like(tokens.new, dtype=torch.bool)


def halved(advantages: np.ndarray, mask: np.ndarray, *, by: float = 2.0) -> TransformedAdvantages:
    """Return the advantages, divided."""
    return TransformedAdvantages(np.asarray(advantages) / by, np.asarray(mask, dtype=bool))
