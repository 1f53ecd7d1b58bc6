"""Question answering by search, in Search-R1's protocol, over generated worlds, files, or any retriever.

    env = gymnasium.make("turncredit/Search-v0", level="tiny", form="brackets")

`rewards` contains the reward functions and `load_questions` reads FlashRAG files (for their passages see
`turncredit.tools.retrieval`). `generator` generates worlds, passages and questions. `oracle_answer` and `recall`
measure retrievers.
"""

from turncredit.envs.search.env import SearchEnv
from turncredit.envs.search.questions import Question, load_questions
from turncredit.envs.search.reader_demonstrator import ReaderDemonstrator
from turncredit.envs.search.retrieval_quality import oracle_answer, recall
from turncredit.envs.search.search_engine import SearchEngine, SearchFailed
from turncredit.envs.search.sources import GeneratedQuestions, QuestionFiles

__all__ = [
    "GeneratedQuestions",
    "Question",
    "QuestionFiles",
    "ReaderDemonstrator",
    "SearchEngine",
    "SearchEnv",
    "SearchFailed",
    "load_questions",
    "oracle_answer",
    "recall",
]
