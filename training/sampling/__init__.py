"""Which tasks, how many episodes, with what help, and which reward: the rules that decide what an iteration is made of.

    task rule      which tasks are drawn, and how many episodes of each      (records of all tasks) -> TaskDraw
    group rule     is a group complete, or what else is played               (group so far) -> Growth
    reward rule    which reward credit sees                                  (table of turns) -> table of turns

Every rule is a pure function in a registry: one function, one line of a catalogue, or an installed package's entry
point, or "module:function". Nothing of it keeps anything: what is remembered is in `TaskRecords`, which a checkpoint
holds.
"""

from turncredit.training.sampling.draws import TaskDraw, TaskRule
from turncredit.training.sampling.growth import BranchPoint, GroupRule, Growth, MoreEpisodes, OpenGroup
from turncredit.training.sampling.records import TaskRecords, Visit
from turncredit.training.sampling.rewards import RewardRule

__all__ = [
    "BranchPoint",
    "GroupRule",
    "Growth",
    "MoreEpisodes",
    "OpenGroup",
    "RewardRule",
    "TaskDraw",
    "TaskRecords",
    "TaskRule",
    "Visit",
]
