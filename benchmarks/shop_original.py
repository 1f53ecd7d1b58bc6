"""The original's side of shop.py: WebShop's text environment behind JSON lines on stdin and stdout.

It runs in the original's interpreter and needs its checkout, flask, gym, beautifulsoup4, thefuzz and numpy. Its other
imports are replaced: search returns the products that the other side found (so it takes no time), every word
counts as a noun (no spaCy), and torch, selenium and similar modules are empty. `rich.print` becomes `print`, because it
uses the random generator from which the original draws its prices.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import types
from typing import Any

FOUND: list[str] = []


class Anything(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {})


def replace(name: str, **members: Any) -> None:
    module = Anything(name)
    module.__path__ = []
    for member, value in members.items():
        setattr(module, member, value)
    sys.modules[name] = module


class Word:
    """A token that counts as a noun."""

    pos_ = "NOUN"

    def __init__(self, text: str) -> None:
        self.text = text


class Searcher:
    """Search that was done elsewhere."""

    def __init__(self, path: str) -> None:
        self.path = path

    def search(self, query: str, k: int = 50) -> list[Any]:
        return [types.SimpleNamespace(docid=asin) for asin in FOUND[:k]]

    def doc(self, asin: str) -> Any:
        return types.SimpleNamespace(raw=lambda: json.dumps({"id": asin}))


def main() -> None:
    checkout, products, attributes, human = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the original prints
    parts = ("webdriver", "webdriver.chrome", "webdriver.chrome.service", "webdriver.chrome.options", "common")
    parts += ("webdriver.common", "webdriver.common.keys", "webdriver.common.by", "common.exceptions")
    for name in ("torch", "cleantext", "rank_bm25", "selenium", *(f"selenium.{part}" for part in parts)):
        replace(name)
    replace("pyserini")
    replace("pyserini.search")
    replace("pyserini.search.lucene", LuceneSearcher=Searcher)
    replace("spacy", load=lambda name: lambda text: [Word(word) for word in text.split()])
    replace("rich", print=print)
    replace("tqdm", tqdm=lambda items, **options: items)
    sys.path.insert(0, checkout)
    import web_agent_site.utils as utils

    utils.DEFAULT_FILE_PATH, utils.DEFAULT_ATTR_PATH = products, attributes
    utils.HUMAN_ATTR_PATH = human or attributes  # the original opens it in any case, and here does not look into it
    from web_agent_site.envs.web_agent_text_env import WebAgentTextEnv

    random.seed(0)
    env = WebAgentTextEnv("text", file_path=products)
    for line in sys.stdin:
        out.write(json.dumps(answer(env, json.loads(line))) + "\n")
        out.flush()


def answer(env: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked; `seconds` is what the step and the list of actions took, as an agent needs both.

    Seconds of the processor, since another process may be in the way of one side and not of the other.
    """
    start = time.process_time()
    if "reset" in request:
        text, reward, done = env.reset(session=request["reset"])[0], 0.0, False
    else:
        if request["found"] is not None:  # paging searches the same again
            FOUND[:] = request["found"]
        text, reward, done, _ = env.step(request["step"])
    clickables = env.get_available_actions()["clickables"]
    seconds = time.process_time() - start
    state = env.state
    rich = env.convert_html_to_text(state["html"], simple=False)
    told = {"text": text, "rich": rich, "url": state["url"], "clickables": clickables}
    return told | {"reward": reward, "done": done, "seconds": seconds}


if __name__ == "__main__":
    main()
