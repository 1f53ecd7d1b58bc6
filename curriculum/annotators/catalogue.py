"""Our own annotators: name, title, arXiv id, evidence, when to use it, function."""

from __future__ import annotations

from turncredit.curriculum.annotation import ANNOTATORS, Annotator
from turncredit.curriculum.annotators.behaviours import budgets, facts, kinds, matches, several, wordings
from turncredit.curriculum.annotators.embeddings import embed
from turncredit.curriculum.annotators.judges import judge, pairwise, verdict
from turncredit.curriculum.annotators.teachers import attempts, reflect, training_free_grpo
from turncredit.curriculum.annotators.texts import answers, repeated, text_vector
from turncredit.curriculum.rule_registry import getter

__all__ = ["ANNOTATORS", "CATALOGUE", "get_annotator"]

CATALOGUE = (
    Annotator("judge", "A model's score", None, "our reading",
              "A model rates each episode, or each turn.", judge),
    Annotator("pairwise", "A model's preference", "2506.00103", "our reading",
              "A model compares each episode with one of its group.", pairwise),
    Annotator("verdict", "A model's yes or no", None, "our reading",
              "A model answers a question about each episode, such as whether its first answer was right.", verdict),
    Annotator("training_free_grpo", "Training-Free GRPO", "2510.08191", "paper",
              "Lessons from what distinguishes won and lost episodes; also with frozen weights.", training_free_grpo),
    Annotator("reflect", "Warnings (SLEA-RL)", "2603.18079", "our reading",
              "A sentence of advice for each lost episode, kept by the state of its last turn.", reflect),
    Annotator("attempts", "Lost attempts", "2601.19620", "paper",
              "Keeps lost attempts for the group rule `self_reflection`; needs no model.", attempts),
    Annotator("repeated", "Repeated tails", "2507.14683", "paper",
              "For the reward rule `repetition`; needs no model.", repeated),
    Annotator("answers", "Last actions as answers", None, "our reading",
              "For rules that compare the answers of a group; needs no model.", answers),
    Annotator("matches", "Episodes in which a pattern occurs", None, "our reading",
              "Whether a tool was used, or a mark of thoughts; needs no model.", matches),
    Annotator("kinds", "The first of several patterns", None, "our reading",
              "Formats of episodes and roles of turns; needs no model.", kinds),
    Annotator("wordings", "Questions and their wordings", "2510.04392", "our reading",
              "For the reward rule `con_rag`; needs no model.", wordings),
    Annotator("facts", "Sentences and what supports them", "2506.19807", "our reading",
              "For the reward rule `knowrl`, where answers follow from what was read; needs no model.", facts),
    Annotator("budgets", "Lengths of won episodes", None, "our reading",
              "For the reward rule `tldr`; needs no model.", budgets),
    Annotator("several", "Several rewards of a turn", None, "our reading",
              "For rules that read several rewards, such as `gdpo`; needs no model.", several),
    Annotator("text_vector", "Hashed n-grams", None, "our reading",
              "For rules that compare episodes by similarity; needs no model.", text_vector),
    Annotator("embed", "Sentence embeddings", None, "our reading",
              "For rules that compare episodes or states by meaning; a small encoder on this machine.", embed),
)  # fmt: skip

for _annotator in CATALOGUE:
    ANNOTATORS.register(_annotator.name, _annotator)

get_annotator = getter(ANNOTATORS)
