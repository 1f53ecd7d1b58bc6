"""A web shop of our own: catalogues of any size and goals without end, all following from a seed.

    shelves = catalogue("small", seed=0)                  # products, ready to be searched
    goals = generated_goals("held_out", "small")
    goal = goals.get("held_out/small/000012")             # the same on every machine

The vocabulary (`beauty.py` to `grocery.py`) is written for this project. Left out on purpose: pictures, reviews,
price ranges.
"""

from turnwise.envs.shop.generator.files import write
from turnwise.envs.shop.generator.goals import GeneratedGoals, generated_goals
from turnwise.envs.shop.generator.level import PRESETS, Level
from turnwise.envs.shop.generator.stock import SPLITS, catalogue, name_of

__all__ = ["PRESETS", "SPLITS", "GeneratedGoals", "Level", "catalogue", "generated_goals", "name_of", "write"]
