"""Built-in retrievers and services: time limits, refusals, models, stored indexes."""

from __future__ import annotations

import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from search_worlds import write_files
from toys.service import serving

from turncredit.envs.errors import BadSnapshot, EnvError
from turncredit.envs.search import SearchEnv, SearchFailed, search_engine, task_sources
from turncredit.envs.search.sources import GeneratedQuestions, QuestionFiles
from turncredit.tools.retrieval import Passage, SentenceModel

Q2 = {"task": "q2"}
SEARCH = "<search>Red Lamp</search>"


@pytest.mark.parametrize("timeout", [0.5, 45, 600.0, None, math.inf])
def test_a_service_may_take_as_long_as_the_environment_says(tmp_path, monkeypatch, timeout):
    made = []

    class Recorded(search_engine.RemoteRetriever):
        def __init__(self, *args, **options):
            super().__init__(*args, clock=lambda: 0.0, **options)  # no time passes before it asks

        def _send(self, body: bytes, timeout: float, most: int):
            made.append(timeout)
            return {"result": [[]]}

    monkeypatch.setattr(search_engine, "RemoteRetriever", Recorded)
    env = SearchEnv(QuestionFiles(write_files(tmp_path)[0], retriever="http://search.invalid", timeout=timeout))
    env.reset(options=Q2)
    assert "No results." in env.step(SEARCH)[0]
    assert made == [timeout or 30.0]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (422, b'{"detail": "too long"}', "too long"),
        (200, b"<html>", "not valid JSON"),
        (200, b'{"result": []}', "one list per query"),
        (404, b"", "status 404"),
    ],
)
def test_what_a_service_refuses_is_asked_once_and_told_without_its_address(tmp_path, status, body, said):
    with serving(lambda _: (status, body)) as (address, asked):
        env = SearchEnv(QuestionFiles(write_files(tmp_path)[0], retriever=address, backoff=3600))
        env.reset(options=Q2)
        observation, *_, info = env.step(SEARCH)
        assert len(asked) == 1
        assert "The search failed: the retriever failed, and would again: " in observation
        assert said in observation
        assert "127.0.0.1" not in observation
        assert address.rpartition(":")[2] not in observation
        assert info["valid"]
        strict = SearchEnv(QuestionFiles(write_files(tmp_path)[0], retriever=address), on_failure="raise")
        strict.reset(options=Q2)
        with pytest.raises(SearchFailed, match=re.escape(f"the retriever at {address}/retrieve failed, and would")):
            strict.step(SEARCH)


def test_what_may_pass_is_asked_again_and_counted_once(tmp_path):
    with serving(lambda _: (503, b"busy")) as (address, asked):
        env = SearchEnv(QuestionFiles(write_files(tmp_path)[0], retriever=address, retries=2, backoff=0))
        env.reset(options=Q2)
        observation = env.step(SEARCH)[0]
        failed = "the retriever failed 3 times, at last with RetrieverDown: status 503 busy."
        assert f"The search failed: {failed}" in observation
        assert "127.0.0.1" not in observation
        assert len(asked) == 3


def test_a_failure_travels_with_what_the_agent_is_told():
    again = pickle.loads(pickle.dumps(SearchFailed("at http://x", told="somewhere")))
    assert (str(again), again.told, SearchFailed("so").told) == ("at http://x", "somewhere", "so")


@pytest.fixture
def encoder(monkeypatch):
    """A sentence encoder in the place of a real one: a vector of letters. Gives the texts that it was asked for."""
    asked: list[str] = []

    class Letters(SentenceModel):
        def __init__(self, folder: str) -> None:
            self.folder = Path(folder)

        @property
        def label(self) -> str:
            return self.folder.name

        def __call__(self, texts):
            asked.extend(texts)
            counts = [[1.0 + text.lower().count(letter) for letter in "abdeklmnoprstuw"] for text in texts]
            found = np.array(counts, dtype=np.float32).reshape(len(texts), 15)
            return found / np.linalg.norm(found, axis=1, keepdims=True)

    def anew() -> None:
        for cached in (task_sources._indexed, task_sources._read, task_sources._shared, search_engine._model):
            cached.cache_clear()

    monkeypatch.setattr(search_engine, "SentenceModel", Letters)
    monkeypatch.setattr(search_engine, "packaged_model", lambda: pytest.fail("the model of the extra was asked for"))
    anew()
    yield asked, anew
    anew()


@pytest.mark.parametrize("retriever", ["dense", "hybrid"])
def test_a_model_of_ones_own_makes_vectors_once_where_they_are_kept(tmp_path, encoder, retriever):
    asked, anew = encoder
    options = {"retriever": retriever, "model": tmp_path / "letters", "keep": tmp_path / "kept"}
    seen = []
    for _ in range(2):  # as two processes
        env = SearchEnv(QuestionFiles(*write_files(tmp_path), **options), topk=2)
        env.reset(options=Q2)
        seen.append(env.step(SEARCH)[0])
        anew()
    assert seen[0] == seen[1]
    assert '(Title: "Red Lamp")' in seen[0]
    assert len(asked) == 4 + 2  # four passages once, a query each time
    assert (tmp_path / "kept" / "dense" / "index.json").is_file()


def test_without_a_folder_vectors_are_made_in_each_process(tmp_path, encoder):
    asked, anew = encoder
    for _ in range(2):
        SearchEnv(QuestionFiles(*write_files(tmp_path), retriever="dense", model=str(tmp_path / "letters")))
        anew()
    assert len(asked) == 8


def test_generated_worlds_have_folders_of_their_own(tmp_path, encoder):
    asked, anew = encoder
    counts = []
    for _ in range(2):
        env = SearchEnv(
            GeneratedQuestions(level="tiny", retriever="dense", model=tmp_path / "letters", keep=tmp_path / "kept")
        )
        for task in ("train/tiny/000000", "train/tiny/000001"):
            env.reset(options={"task": task})
            env.step(SEARCH)
        counts.append(len(asked))
        asked.clear()
        anew()
    assert counts[0] - counts[1] == 80  # forty passages of each world
    assert len(list((tmp_path / "kept").rglob("index.json"))) == 2


def test_another_model_is_another_environment_and_another_path_is_not(tmp_path, encoder):
    files = write_files(tmp_path)

    def env(model: str) -> SearchEnv:
        made = SearchEnv(QuestionFiles(*files, retriever="dense", model=model))
        made.reset(options=Q2)
        return made

    data = env("here/letters").snapshot()
    env("there/letters").restore(data)
    with pytest.raises(BadSnapshot, match="retriever"):
        env("here/others").restore(data)


def test_an_environment_with_a_model_travels(tmp_path, encoder):
    env = SearchEnv(
        QuestionFiles(*write_files(tmp_path), retriever="dense", model=tmp_path / "letters", keep=tmp_path / "kept")
    )
    env.reset(options=Q2)
    other = pickle.loads(pickle.dumps(env))
    assert env.step(SEARCH) == other.step(SEARCH)


def test_a_folder_of_another_corpus_is_refused(tmp_path):
    questions, corpus = write_files(tmp_path)
    SearchEnv(QuestionFiles(questions, corpus, keep=tmp_path / "kept"))
    with open(corpus, "a") as file:
        file.write('{"id": "e", "contents": "more"}\n')
    with pytest.raises(EnvError, match="belong to another corpus"):
        SearchEnv(QuestionFiles(questions, corpus, keep=tmp_path / "kept"))
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvError, match="cannot create the retriever"):
        SearchEnv(QuestionFiles(questions, corpus, keep=tmp_path / "file"))


def test_a_corpus_that_is_broken_when_read_is_not_read_again():
    asked = []

    def find(query: str, k: int) -> list[Passage]:
        asked.append(query)
        raise search_engine.RetrievalError("the corpus has changed")

    with pytest.raises(SearchFailed, match="failed, and would again: the corpus has changed"):
        search_engine.SearchEngine(find, backoff=3600).find("x", 3)
    assert asked == ["x"]
