"""Generated web shops: catalogues of any size and an unlimited number of goals, all determined by a seed.

    products = catalogue("small", seed=0)                 # ready to be searched
    goals = generated_goals("held_out", "small")
    goal = goals.get("held_out/small/000012")             # the same on every machine

The vocabulary (`departments/*.toml`) was written for this project. Not included: pictures, reviews, price ranges.
"""

from turncredit.envs.shop.generator.export import write
from turncredit.envs.shop.generator.generated_catalogue import SPLITS, catalogue, name_of
from turncredit.envs.shop.generator.goals import GeneratedGoals, generated_goals
from turncredit.envs.shop.generator.level import PRESETS, ShopLevel

__all__ = ["PRESETS", "SPLITS", "GeneratedGoals", "ShopLevel", "catalogue", "generated_goals", "name_of", "write"]
