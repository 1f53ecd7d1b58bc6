"""Sources as values: what cannot be written, what old arguments say, and the plain keys of files and commands."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from turncredit.envs import UnknownOption, make, takes
from turncredit.envs.search import SearchEnv
from turncredit.envs.search.env import from_keys as search_from_keys
from turncredit.envs.search.sources import GeneratedQuestions, QuestionFiles
from turncredit.envs.shop.browser_env import WebShopBrowserEnv
from turncredit.envs.shop.env import WebShopEnv
from turncredit.envs.shop.env import from_keys as shop_from_keys
from turncredit.envs.shop.sources import GeneratedProducts, ProductFiles
from turncredit.envs.sources import source_code

FILES_ONLY = {
    "attributes": "a.json",
    "human": "h.json",
    "splits": "all",
    "goals": "human",
    "num_products": 3,
    "strict": False,
    "keep": print,
    "limit": 2,
}
GENERATED_ONLY = {"level": "tiny", "catalogues": 2}


def write_files(folder: Path) -> tuple[str, str]:
    """Questions and their passages."""
    questions, corpus = folder / "questions.jsonl", folder / "corpus.jsonl"
    questions.write_text("".join(f'{{"id": "q{n}", "question": "who?", "answer": "Ash"}}\n' for n in range(40)))
    corpus.write_text('{"id": "p", "contents": "\\"Ash\\"\\nAsh is a tree."}\n')
    return str(questions), str(corpus)


@pytest.mark.parametrize("name", FILES_ONLY)
def test_a_field_of_files_cannot_be_written_for_a_generated_catalogue(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        GeneratedProducts(**{name: FILES_ONLY[name]})
    sentence = f"^{name} needs products=PATH; a generated catalogue does not use it$"
    with pytest.raises(UnknownOption, match=sentence):
        shop_from_keys(level="tiny", **{name: FILES_ONLY[name]})
    with pytest.raises(UnknownOption, match=sentence):
        make("turncredit/WebShop-v0", level="tiny", **{name: FILES_ONLY[name]})
    with pytest.raises(UnknownOption, match=sentence):
        WebShopEnv(level="tiny", **{name: FILES_ONLY[name]})


@pytest.mark.parametrize("name", GENERATED_ONLY)
def test_a_field_of_generated_catalogues_cannot_be_written_for_files(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        ProductFiles("items.json", **{name: GENERATED_ONLY[name]})
    sentence = f"^{name} belongs to generated catalogues; remove it or products=PATH$"
    with pytest.raises(UnknownOption, match=sentence):
        shop_from_keys(products="items.json", **{name: GENERATED_ONLY[name]})
    with pytest.raises(UnknownOption, match=sentence):
        WebShopEnv("items.json", **{name: GENERATED_ONLY[name]})  # type: ignore[arg-type]


def test_a_corpus_cannot_be_written_without_questions() -> None:
    with pytest.raises(TypeError, match="corpus"):
        GeneratedQuestions(corpus="corpus.jsonl")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="questions"):
        QuestionFiles(corpus="corpus.jsonl")  # type: ignore[call-arg]
    with pytest.raises(UnknownOption, match=r"^corpus needs questions as well: the path of a file of q"):
        search_from_keys(corpus="corpus.jsonl")


@pytest.mark.parametrize(
    ("make_source", "sentence"),
    [
        (lambda: GeneratedProducts(level="tny"), "unknown level 'tny'"),
        (lambda: GeneratedProducts(catalogue_seed=-1), "catalogue_seed must be an integer >= 0"),
        (lambda: GeneratedProducts(catalogues=0), "catalogues must be an integer >= 1"),
        (lambda: ProductFiles(""), "products must be the path of a file"),
        (lambda: ProductFiles("p", human=3), "human must be the path of a file"),
        (lambda: ProductFiles("p", goals="people"), "unknown goals 'people'"),
        (lambda: ProductFiles("p", strict=1), "strict must be"),
        (lambda: ProductFiles("p", cache=3), "cache must be True, False or the path of a folder, got 3"),
        (lambda: ProductFiles("p", keep=3), "keep must be a function of a number and a goal, or None, got 3"),
        (lambda: ProductFiles("p", limit=0), "limit must be an integer >= 1"),
        (lambda: GeneratedQuestions(level="tny"), "unknown level 'tny'"),
        (lambda: GeneratedQuestions(split=3), "split must be a str such as 'train', got 3"),
        (lambda: GeneratedQuestions(model="m"), "model requires retriever='dense' or 'hybrid'"),
        (lambda: QuestionFiles(3), "questions must be the path of a file or None, got 3"),
        (lambda: QuestionFiles("q", 3), "corpus must be the path of a file or None, got 3"),
        (lambda: QuestionFiles("q", keep=3), "keep must be the path of a folder or None, got 3"),
    ],
)
def test_invalid_fields(make_source: Any, sentence: str) -> None:
    with pytest.raises(UnknownOption, match=sentence):
        make_source()


def test_old_arguments_give_one_warning_with_the_new_form(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    old = {
        "WebShopEnv(GeneratedProducts(level='tiny', split='held_out'))": lambda: WebShopEnv(
            level="tiny", split="held_out"
        ),
        "WebShopBrowserEnv(GeneratedProducts(level='tiny'))": lambda: WebShopBrowserEnv(level="tiny"),
        "SearchEnv(GeneratedQuestions(level='tiny'))": lambda: SearchEnv(level="tiny", form="brackets"),
        f"SearchEnv(QuestionFiles(questions={files[0]!r}, corpus={files[1]!r}, split='train'))": lambda: SearchEnv(
            *files, split="train"
        ),
    }
    for new, construct in old.items():
        with pytest.warns(DeprecationWarning, match="is deprecated") as caught:
            construct()
        (warning,) = [warning for warning in caught if warning.category is DeprecationWarning]
        assert str(warning.message).endswith(f"is deprecated: write {new}")
        assert warning.filename == __file__


def test_old_arguments_and_the_new_form_are_the_same_environment(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    pairs: list[tuple[Any, Any]] = [
        (
            WebShopEnv(GeneratedProducts("tiny", "held_out", 2)),
            {"level": "tiny", "split": "held_out", "catalogue_seed": 2},
        ),
        (SearchEnv(GeneratedQuestions("tiny")), {"level": "tiny"}),
        (SearchEnv(QuestionFiles(*files, strict=False)), {"questions": files[0], "corpus": files[1], "strict": False}),
    ]
    for new, keys in pairs:
        with pytest.warns(DeprecationWarning, match="is deprecated"):
            old = type(new)(**keys)
        assert old.snapshot_arguments() == new.snapshot_arguments()
        assert old.task_ids(5) == new.task_ids(5)
        assert old.reset(seed=3) == new.reset(seed=3)


@pytest.mark.parametrize("id", ["turncredit/WebShop-v0", "turncredit/Search-v0"])
def test_plain_keys_of_files_and_commands_give_no_warning(id: str) -> None:
    source: Any = GeneratedProducts("tiny", "held_out") if "Shop" in id else GeneratedQuestions("tiny", "held_out")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        plain, valued = (
            gymnasium.make(id, level="tiny", split="held_out"),
            gymnasium.make(id, source=source),
        )
        ours = make(id, level="tiny", split="held_out")
    assert plain.reset(seed=1) == valued.reset(seed=1) == ours.reset(seed=1)
    assert takes(id, "split")
    assert takes(id, "source")
    with pytest.raises(UnknownOption, match="levl"):
        make(id, levl="tiny")


def test_a_source_and_its_fields_cannot_be_mixed() -> None:
    with pytest.raises(UnknownOption, match=r"^split belongs to the source: write GeneratedProducts\(level='tiny'\)$"):
        WebShopEnv(GeneratedProducts("tiny"), split="held_out")
    with pytest.raises(UnknownOption, match=r"^level belongs to the source"):
        gymnasium.make("turncredit/WebShop-v0", source=GeneratedProducts("tiny"), level="small")
    with pytest.raises(TypeError, match="unexpected keyword argument 'levl'"):
        WebShopEnv(levl="tiny")


def test_sources_are_values() -> None:
    source = ProductFiles("items.json", goals="human")
    assert pickle.loads(pickle.dumps(source)) == source
    assert source_code(source) == "ProductFiles(products='items.json', goals='human')"
    assert GeneratedProducts() == GeneratedProducts(level="small", split="train", catalogue_seed=0, catalogues=1)
