"""The search environment: contract, Search-R1's protocol, failing retrievers and invalid actions."""

import pickle
import time

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_worlds import write_files

import turncredit.envs
from turncredit.agents.prompts.parsing import PARSERS
from turncredit.envs import check_env
from turncredit.envs.errors import EnvError, NotReset, StepAfterEnd, UnknownOption, UnknownTask
from turncredit.envs.search import SearchEnv, SearchFailed
from turncredit.envs.search.env import LONGEST_QUERY
from turncredit.envs.search.sources import GeneratedQuestions, QuestionFiles
from turncredit.tools.retrieval import Passage

KEYS = {"task", "state", "admissible_actions", "free_actions", "valid", "score", "won", "task_type", "extras"}
Q2 = {"task": "q2"}


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path)


def test_an_episode_reads_as_in_search_r1(files):
    env = SearchEnv(QuestionFiles(*files))
    observation, info = env.reset(options={"task": "q1"})
    assert observation.endswith("<answer> Beijing </answer>. Question: Who wrote Red Lamp?\n")
    assert set(info) == KEYS
    assert info["state"] == "read="
    observation, reward, over, cut, info = env.step("<think>Hm.</think><search>Red Lamp</search> <answer>x</answer>")
    assert observation.startswith('\n\n<information>Doc 1(Title: "Red Lamp") Red Lamp is a novel by Ada Marsh.\nDoc 2(')
    assert (reward, over, cut, info["valid"], info["state"]) == (0.0, False, False, True, "read=a,c")
    observation, reward, over, _, info = env.step("I know it")
    assert observation.startswith(
        "\nMy previous action is invalid. If I want to search, I should put the query between"
    )
    assert (reward, over, info["valid"], info["state"]) == (0.0, False, False, "read=a,c")
    observation, reward, over, _, info = env.step("<answer> the ada marsh! </answer>")
    assert (observation, reward, over, info["won"], info["score"]) == ("", 1.0, True, True, 1.0)
    assert info["reward_parts"]["calls"] == 1
    with pytest.raises(StepAfterEnd):
        env.step("<answer>x</answer>")
    assert env.plan() == []


def test_each_turn_says_what_it_read_of_what_is_needed(files):
    """q2 needs the passages a and b; topk = 1 reads one at a time."""
    env = SearchEnv(QuestionFiles(*files), topk=1)
    _, info = env.reset(options=Q2)
    assert (info["extras"]["coverage"], info["extras"]["process"]) == (0.0, 0.0)
    actions = ["<search>Red Lamp</search>", "<search>Red Lamp</search>", "nothing", "<search>Ada Marsh</search>"]
    rows = []
    for action in [*actions, "<answer>Oakford</answer>"]:
        *_, info = env.step(action)
        rows.append((info["extras"]["coverage"], info["extras"]["process"]))
        copy = SearchEnv(QuestionFiles(*files), topk=1)
        assert copy.restore(env.snapshot())[1]["extras"] == info["extras"]
    assert rows == [(0.5, 1.0), (0.5, 0.0), (0.5, 0.0), (1.0, 1.0), (1.0, 1.0)]
    env.reset(options=Q2)
    *_, info = env.step("<answer>Oakford</answer>")
    assert info["won"]
    assert (info["extras"]["coverage"], info["extras"]["process"]) == (0.0, 0.0)  # a guess


def test_a_wrong_answer_ends_the_episode_too(files):
    env = SearchEnv(QuestionFiles(*files))
    env.reset(options=Q2)
    _, reward, over, _, info = env.step("<answer>Ada</answer>")
    assert (reward, over, info["won"], info["score"]) == (0.0, True, False, 0.0)
    with pytest.raises(EnvError, match="wrong answer"):
        env.plan()


def test_the_order_of_searches_is_no_matter_of_the_state(files):
    env = SearchEnv(QuestionFiles(*files), topk=1)
    keys = []
    for queries in (["Red Lamp", "Ada Marsh born"], ["Ada Marsh born", "Red Lamp", "Red Lamp"]):
        env.reset(options=Q2)
        for query in queries:
            *_, info = env.step(f"<search>{query}</search>")
        keys.append((info["state"], info["admissible_actions"]))
    assert keys[0] == keys[1]
    assert keys[0][0] == "read=a,b"


def test_a_budget_of_searches_is_kept_and_told(files):
    env = SearchEnv(QuestionFiles(*files), max_searches=1)
    _, info = env.reset(options=Q2)
    assert info["state"] == "read= left=1"
    *_, info = env.step("<search>lamp</search>")
    assert info["free_actions"] == ["<answer>...</answer>"]
    assert len(info["admissible_actions"]) == 3  # no search for the question, but an answer for each title seen
    assert all(action.startswith("<answer>") for action in info["admissible_actions"])
    assert env.plan() == ["<answer> Oakford </answer>"]
    observation, *_, info = env.step("<search>Ada</search>")
    assert (info["valid"], info["state"]) == (False, "read=a,c left=0")
    assert "No searches are left" in observation


def test_after_four_searches_gymnasium_gives_one_turn_more():
    env = gymnasium.make("turncredit/Search-v0", level="tiny")
    env.reset(seed=1)
    for turn in range(1, 6):
        _, _, over, cut, _ = env.step("<search>red</search>")
        assert (over, cut) == (False, turn == 5)


def test_rewards_depend_on_searches_only_where_the_key_says_so(files):
    for reward, past in (("em", ""), ("f1", ""), ("otc", " searches=1"), ("caf", " searches=1")):
        env = SearchEnv(QuestionFiles(*files), reward=reward)
        env.reset(options=Q2)
        *_, info = env.step("<search>zzz</search>")
        assert info["state"] == "read=" + past


def test_graphrag_pays_every_search(files):
    env = SearchEnv(QuestionFiles(*files), reward="graphrag", reward_options={"first": 0.4})
    env.reset(options=Q2)
    assert env.step("<search>lamp</search>")[1] == pytest.approx(0.4)
    assert env.step("<search>lamp</search>")[1] == pytest.approx(0.2)


@pytest.mark.parametrize(
    "options",
    [
        {"form": "brackets"},
        {"reward": "format"},
        {"reward": "graphrag", "max_searches": 4},
        {"reward": "e-grpo", "form": "brackets"},
    ],
)
def test_the_contract_is_kept(options):
    report = check_env("turncredit/Search-v0", kwargs={"level": "tiny", **options})
    assert report.ok, report


def test_format_scores_need_the_tags(files):
    env = SearchEnv(QuestionFiles(*files), reward="format")
    for name, worth in (("with-thoughts", 1.0), ("whole", 0.8)):
        env.reset(options=Q2)
        for action in env.plan():
            _, reward, *_ = env.step(PARSERS.get(name).read(action).action)
        assert reward == worth
    with pytest.raises(UnknownOption, match="form='tags'"):
        SearchEnv(QuestionFiles(*files), reward="format", form="brackets")


class Flaky:
    """A retriever that fails so many times, then finds one passage."""

    def __init__(self, failures: int, seconds: float = 0.0) -> None:
        self.left, self.seconds, self.asked = failures, seconds, 0

    def find(self, query: str, k: int) -> list[Passage]:
        self.asked += 1
        time.sleep(self.seconds)
        if self.left:
            self.left -= 1
            raise ConnectionError("nobody answers")
        return [Passage("a", '"Red Lamp"', "By Ada.", 1.0)] * (k + 2)


def test_a_retriever_that_fails_is_asked_again(files):
    flaky = Flaky(2)
    env = SearchEnv(QuestionFiles(files[0], retriever=flaky, retries=2, backoff=0.0), topk=2)
    env.reset(options=Q2)
    observation, *_, info = env.step("<search>x</search>")
    assert observation.count("By Ada.") == 2
    assert (flaky.asked, info["valid"]) == (3, True)


def test_a_retriever_that_is_down_is_told_and_the_episode_goes_on(files):
    env = SearchEnv(QuestionFiles(files[0], retriever=Flaky(99), retries=1, backoff=0.0))
    env.reset(options=Q2)
    observation, _, over, _, info = env.step("<search>x</search>")
    assert "The search failed: the retriever failed 2 times" in observation
    assert "nobody answers" in observation
    assert (over, info["valid"], info["state"]) == (False, True, "read=")
    assert env.plan() == ["<answer> Oakford </answer>"]


def test_a_retriever_that_is_down_is_an_error_where_that_is_wanted(files):
    env = SearchEnv(QuestionFiles(files[0], retriever=Flaky(99), retries=0), on_failure="raise")
    env.reset(options=Q2)
    with pytest.raises(SearchFailed, match="failed once, at last with ConnectionError: nobody answers"):
        env.step("<search>x</search>")


def test_a_retriever_that_is_slow_has_failed(files):
    env = SearchEnv(QuestionFiles(files[0], retriever=Flaky(0, seconds=30), retries=0, timeout=0.05))
    env.reset(options=Q2)
    assert "no answer within 0.05 s" in env.step("<search>x</search>")[0]


def test_pauses_grow_between_tries():
    from turncredit.envs.search import SearchEngine

    pauses = []
    engine = SearchEngine(Flaky(99).find, retries=3, backoff=0.5, sleep=pauses.append)
    with pytest.raises(SearchFailed):
        engine.find("x", 3)
    assert pauses == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("<search></search>", "The query was empty."),
        ("<search> \n </search>", "The query was empty."),
        ("<answer> </answer>", "The answer was empty."),
        (f"<search>{'x' * 1_000_000}</search>", "The query has 1,000,000 characters; at most 1,000 are searched."),
    ],
)
def test_queries_that_make_no_sense_cost_a_turn_and_nothing_else(files, action, said):
    env = SearchEnv(QuestionFiles(*files))
    env.reset(options=Q2)
    observation, reward, over, _, info = env.step(action)
    assert said in observation
    assert (reward, over, info["valid"], info["state"]) == (0.0, False, False, "read=")


def test_a_query_that_finds_nothing_is_told(files):
    env = SearchEnv(QuestionFiles(*files))
    env.reset(options=Q2)
    assert env.step("<search>zzz</search>")[0] == "\n\n<information>No results.</information>\n\n"


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=80),
    st.sampled_from(["{}", "<search>{}</search>", "<answer>{}</answer>", "search[{}]", "answer[{}]"]),
)
def test_any_text_is_answered(text, form):
    for surface in ("tags", "brackets"):
        env = _ENVS.setdefault(surface, SearchEnv(GeneratedQuestions(level="tiny"), form=surface))
        env.reset(options={"task": "train/tiny/000001"})
        observation, reward, over, cut, _ = env.step(form.replace("{}", text))
        assert observation in env.observation_space
        assert not cut
        assert over or reward == 0


_ENVS: dict[str, SearchEnv] = {}


def test_an_episode_survives_pickling():
    env = SearchEnv(GeneratedQuestions(level="tiny"), reward="caf", reward_options={"cost": 0.2})
    env.reset(options={"task": env.task_ids(3)[2]})
    first, *rest = env.plan()
    env.step(first)
    other = pickle.loads(pickle.dumps(env))
    assert other.plan() == env.plan() == rest
    for action in rest:
        assert env.step(action) == other.step(action)


def test_order_is_kept():
    env = SearchEnv(GeneratedQuestions(level="tiny"))
    for call in (lambda: env.step("x"), env.plan):
        with pytest.raises(NotReset):
            call()
    with pytest.raises(UnknownTask, match="nothing"):
        env.reset(options={"task": "nothing"})


def test_ranker_made_of_a_corpus_serves_generated_worlds():
    class Last:
        def __init__(self, corpus):
            self.ids = list(corpus)

        def search(self, query, k):
            return [(id, 1.0) for id in self.ids[-k:]]

    env = SearchEnv(GeneratedQuestions(level="tiny", retriever=Last))
    env.reset(options={"task": "train/tiny/000000"})
    *_, info = env.step("<search>x</search>")
    assert info["state"].count(",") == 2


def test_titles_that_would_break_an_action_are_no_examples(tmp_path):
    env = SearchEnv(QuestionFiles(write_files(tmp_path)[0], retriever=_Odd()), form="tags")
    env.reset(options=Q2)
    *_, info = env.step("<search>x</search>")
    assert len(info["admissible_actions"]) == 3
    for action in info["admissible_actions"]:
        env.reset(options=Q2)
        env.step("<search>x</search>")
        assert env.step(action)[4]["valid"]


class _Odd:
    def find(self, query, k):
        return [Passage("1", "", "no title"), Passage("2", "x" * 5000, "long"), Passage("3", "   ", "blank")]


def test_it_is_registered_with_a_demonstrator():
    assert "turncredit/Search-v0" in turncredit.envs.env_ids()
    assert list(turncredit.envs.demonstrators("turncredit/Search-v0")) == ["reader"]
    assert LONGEST_QUERY == 1000
