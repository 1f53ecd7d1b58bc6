"""Our own annotators: name, title, arXiv id, evidence, when to use it, function."""

from __future__ import annotations

from turncredit.training.sampling.annotation import ANNOTATORS, Annotator
from turncredit.training.sampling.annotators.embeddings import embed
from turncredit.training.sampling.annotators.judges import judge, pairwise
from turncredit.training.sampling.annotators.teachers import attempts, reflect, training_free_grpo
from turncredit.training.sampling.annotators.texts import answers, repeated, text_vector
from turncredit.training.sampling.rule_registry import getter

__all__ = ["ANNOTATORS", "CATALOGUE", "get_annotator"]

CATALOGUE = (
    Annotator("judge", "A model's score", None, "our reading",
              "A model rates each episode, or each turn.", judge),
    Annotator("pairwise", "A model's preference", "2506.00103", "our reading",
              "A model compares each episode with one of its group.", pairwise),
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
    Annotator("text_vector", "Hashed n-grams", None, "our reading",
              "For rules that compare episodes by similarity; needs no model.", text_vector),
    Annotator("embed", "Sentence embeddings", None, "our reading",
              "For rules that compare episodes or states by meaning; a small encoder on this machine.", embed),
)  # fmt: skip

for _annotator in CATALOGUE:
    ANNOTATORS.register(_annotator.name, _annotator)

get_annotator = getter(ANNOTATORS)
