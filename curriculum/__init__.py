"""Curriculum: rules that decide what an iteration is made of, as pure functions on tables.

    task rule      which tasks are drawn, and how many episodes of each      (records of all tasks) -> TaskDraw
    group rule     is a group complete, or what else is played               (group so far) -> Growth
    reward rule    which reward credit sees                                  (table of turns) -> table of turns
    replay rule    which stored episodes are trained on again                (index of them) -> ReplayBatch
    annotator      what a model must say of episodes                         (episodes, ask) -> Notes

Every rule is a pure function in a registry: one function, one line of a catalogue, or an installed package's entry
point, or "module:function". Nothing of it keeps anything: what is remembered is in `TaskRecords`, which a checkpoint
holds. Rules need numpy alone, so that they can be used in other trainers; only an annotator asks a model.

Not included: runs, checkpoints and batches, which `turncredit.training.sampling` brings to the rules.
"""

from turncredit.curriculum.draws import TaskDraw, TaskRule
from turncredit.curriculum.errors import BadSetting, BadState, CurriculumError
from turncredit.curriculum.growth import BranchPoint, GroupRule, Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.records import TaskRecords, Visit
from turncredit.curriculum.rewards import RewardRule

__all__ = [
    "BadSetting",
    "BadState",
    "BranchPoint",
    "CurriculumError",
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
