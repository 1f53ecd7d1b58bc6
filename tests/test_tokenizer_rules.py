"""Rules about tokenizers and model folders, held by parsing the sources: one place decodes, one renders templates."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "ablation",
    "agents",
    "cli",
    "credit",
    "envs",
    "evaluation",
    "phone",
    "processes",
    "report",
    "tools",
    "training",
    "benchmarks",
    "examples",
)
TOKENIZERS, TEMPLATES = "agents/models/tokenization.py", "agents/prompts/chat_template.py"
DECODES = {"decode", "batch_decode", "convert_tokens_to_string"}


def attributes(source: str) -> Iterator[tuple[ast.Attribute, ast.Call | None]]:
    """Every attribute in a source, with its call if it is called."""
    tree = ast.parse(source)
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node, called.get(id(node))


def decodes_ids(node: ast.Attribute, call: ast.Call | None) -> bool:
    """Whether an attribute decodes with a tokenizer; bytes are decoded with the name of an encoding, or nothing."""
    if node.attr not in DECODES or any(name in ast.unparse(node.value) for name in ("codec", "JSONDecoder", "_decode")):
        return False
    first = call.args[0] if call and call.args else None
    names_encoding = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return call is None or not (first is None or names_encoding)


def loads_without_refusing_code(node: ast.Attribute, call: ast.Call | None) -> bool:
    """Whether a class of transformers is loaded from a folder whose code might be run."""
    if node.attr not in ("from_pretrained", "from_config") or "peft" in ast.unparse(node.value):
        return False
    refused = [one.value for one in call.keywords if one.arg == "trust_remote_code"] if call else []
    return [ast.unparse(value) for value in refused] != ["False"]


def places(rule, allowed: str = "") -> list[str]:
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name == allowed:
                continue
            pairs = attributes(path.read_text(encoding="utf-8"))
            found += [f"{name}:{node.lineno} {ast.unparse(node)}" for node, call in pairs if rule(node, call)]
    return found


def test_the_rules_tell_tokenizers_from_bytes_and_codecs() -> None:
    source = """
tokenizer.decode(ids)
use(self._tokenizer.decode)
other.batch_decode([ids], clean_up_tokenization_spaces=True)
data.decode()
data.decode("utf-8", errors="replace")
data.decode(errors="replace")
codec_of(tokenizer).decode(ids)
AutoModel.from_pretrained(folder)
AutoModel.from_pretrained(folder, trust_remote_code=True)
AutoModel.from_pretrained(folder, trust_remote_code=False)
"""
    pairs = list(attributes(source))
    assert sorted(node.lineno for node, call in pairs if decodes_ids(node, call)) == [2, 3, 4]
    assert sorted(node.lineno for node, call in pairs if loads_without_refusing_code(node, call)) == [9, 10]


def test_ids_become_text_in_one_place() -> None:
    assert places(decodes_ids, TOKENIZERS) == []


def test_chat_templates_are_rendered_in_one_place() -> None:
    assert places(lambda node, _: node.attr == "apply_chat_template", TEMPLATES) == []


def test_code_in_model_folders_never_runs() -> None:
    assert places(loads_without_refusing_code) == []
