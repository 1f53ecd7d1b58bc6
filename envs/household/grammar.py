"""Parser of text grammars (.twl2): command templates of actions, and rules that describe a state.

A rule has alternatives with optional conditions; the first one whose condition holds for some objects is used. Right
sides contain text, references `#rule#`, values `{o.name}`, one value per answer of a query `{o.name |
inreceptacle(o:object, r:receptacle)}`, and lists of these `[{...}]`. As in the original, weights are ignored, and so is
everything after the first character that fits no symbol.

Values are Python expressions of names, attributes of objects, strings, `+`, `or`, `and`, `not`, `==`, `!=` and
`x if c else y`; anything else is an error. Nothing is passed to eval.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from turncredit.envs.errors import GameFileError

Placeholder: TypeAlias = tuple[str, str]  # (name, type)

UNKNOWN_GOAL = "UNKNOWN GOAL."
_DOCUMENT = re.compile(
    r'(?P<skip>\s+|#[^\n]*)|(?P<block>"""(?:.|\n)*?""")|(?P<string>"[^"]*")|(?P<mark>::|[;{}])|(?P<name>[\w/-]+)'
)
_LITERAL = re.compile(r'[^;|"<>\[\]#{}]*')
_REFERENCE = re.compile(r"#\t*([\w()/!<>\-\s,.]+)#")
_CONDITIONAL = re.compile(
    r"\{\t*(?:#\t*(?P<rule>[\w()/!<>\-\s,.]+)#|(?P<value>[^|\[\]{}\n<>]+))(?:\s*\|\s*(?P<given>[^;|{}\n\[\]#]+))?\}"
)
_LEADING = re.compile(r"(?://.*\n?|\s+)+")
_QUERY_ATOM = re.compile(r"\s*([\w/!@=-]+)\s*\(([^()]*)\)\s*")
_ATTRIBUTES = ("id", "type", "name", "definite", "indefinite", "noun", "adj", "desc", "synonyms", "room_type")


@dataclass(frozen=True, slots=True)
class QueryAtom:
    """predicate(placeholders); "not_p" matches facts that an action has made false."""

    predicate: str
    arguments: tuple[Placeholder, ...]


Query: TypeAlias = tuple[QueryAtom, ...]


@dataclass(frozen=True, slots=True)
class LiteralText:
    """Literal text."""

    text: str


@dataclass(frozen=True, slots=True)
class Insert:
    """A rule (`rule`) or the value of an expression (`value`), once, or once per answer of the query `condition`."""

    rule: str | None
    value: str | None
    condition: Query | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of insertions, joined by the rules list_separator, list_last_separator and list_empty."""

    item: Insert


Symbol: TypeAlias = LiteralText | Insert | Listing


@dataclass(frozen=True, slots=True)
class Alternative:
    """A right side, used if some objects satisfy the condition."""

    condition: Query | None
    symbols: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class CommandTexts:
    """The command of an action, and its feedback."""

    template: tuple[Symbol, ...]
    feedback: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules by name, and commands by (lower-case) action name."""

    path: str
    rules: Mapping[str, tuple[Alternative, ...]]
    commands: Mapping[str, CommandTexts]
    digest: str  # of the text


def read_grammar(text: str, path: str = "grammar.twl2") -> Grammar:
    """Return the grammar of a .twl2 text.

    Raises:
        GameFileError: the text is not a grammar, or uses something that this engine does not support.
    """
    return _Document(text, path).read()


def parse_symbols(text: str, path: str = "", line: int | None = None) -> tuple[Symbol, ...]:
    """Return the symbols of a right side or template, such as "You open the {r.name}. #look.feedback#".

    Raises:
        GameFileError: a query or expression in it is invalid.
    """
    start = _LEADING.match(text)
    position = start.end() if start else 0
    symbols: list[Symbol] = []
    while position < len(text):
        symbol, end = _symbol(text, position, path, line)
        if symbol is None:  # the original stops here as well
            break
        symbols.append(symbol)
        position = end
    return tuple(symbols)


def parse_query(text: str, path: str = "", line: int | None = None) -> Query:
    """Return the atoms of a conjunctive query `p(x:t) & q(x:t, y)`.

    The type of a placeholder without one is its name without digits.

    Raises:
        GameFileError: the text is not such a query.
    """
    atoms: list[QueryAtom] = []
    for part in text.split("&"):
        match = _QUERY_ATOM.fullmatch(part)
        if match is None:
            raise GameFileError(path, line, text.strip(), "expected predicate(x:type, ...) & ...")
        atoms.append(QueryAtom(match[1], tuple(_placeholder(word) for word in match[2].split(",") if word.strip())))
    return tuple(atoms)


def _placeholder(word: str) -> Placeholder:
    name, _, kind = (part.strip() for part in word.partition(":"))
    return name, kind or name.rstrip("0123456789")


def _symbol(text: str, position: int, path: str, line: int | None) -> tuple[Symbol | None, int]:
    while text.startswith("\t", position):
        position += 1
    if text.startswith("[", position):
        match = _CONDITIONAL.match(text, position + 1)
        if match and text.startswith("]", match.end()):
            return Listing(_insert(match, path, line)), match.end() + 1
        return None, position
    if text.startswith("{", position):
        match = _CONDITIONAL.match(text, position)
        return (_insert(match, path, line), match.end()) if match else (None, position)
    if text.startswith("#", position):
        match = _REFERENCE.match(text, position)
        return (Insert(match[1], None, None), match.end()) if match else (None, position)
    quoted = text.startswith('"', position)
    literal = _LITERAL.match(text, position + quoted)
    end = literal.end() if literal else position
    if quoted and not text.startswith('"', end):
        return None, position
    content = text[position + quoted : end]
    return (LiteralText(content.replace("\\n", "\n")), end + quoted) if end + quoted > position else (None, position)


def _insert(match: re.Match[str], path: str, line: int | None) -> Insert:
    value = match["value"].strip() if match["value"] is not None else None
    if value is not None:
        check_expression(value, path, line)
    return Insert(match["rule"], value, parse_query(match["given"], path, line) if match["given"] else None)


def check_expression(source: str, path: str, line: int | None) -> ast.expr:
    """Return the syntax tree of a value expression.

    Raises:
        GameFileError: it is not an expression, or uses unsupported syntax.
    """
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise GameFileError(path, line, "{" + source + "}", "expected an expression such as o.name") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES and isinstance(node.value, ast.Name):
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            continue
        if not isinstance(node, _SUPPORTED):
            raise GameFileError(
                path, line, "{" + source + "}", f"{type(node).__name__} is not supported in expressions"
            )
    return tree


_SUPPORTED = (
    ast.Name, ast.Load, ast.BinOp, ast.Add, ast.BoolOp, ast.Or, ast.And, ast.UnaryOp, ast.Not, ast.IfExp, ast.Compare,
    ast.Eq, ast.NotEq,
)  # fmt: skip


class _Document:
    """The outer language: `grammar :: \"\"\"JSON\"\"\";` and `action NAME { template :: "..."; feedback :: "...";
    grammar :: ...; }`."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.tokens = list(self._tokens())
        self.position = 0
        self.data: dict[str, tuple[Any, int]] = {}  # rule -> (alternatives as JSON, line)
        self.commands: dict[str, CommandTexts] = {}

    def _line(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    def fail(self, offset: int, construct: str, message: str) -> NoReturn:
        raise GameFileError(self.path, self._line(offset), construct, message)

    def _tokens(self) -> list[tuple[str, str, int]]:
        tokens: list[tuple[str, str, int]] = []
        position = 0
        while position < len(self.text):
            match = _DOCUMENT.match(self.text, position)
            if match is None:
                self.fail(position, self.text[position : position + 20].split("\n")[0], "not a token of a text grammar")
            if match.lastgroup != "skip":
                tokens.append((match.lastgroup or "", match[0], position))
            position = match.end()
        return [*tokens, ("end", "end of file", len(self.text))]

    def take(self, *expected: str) -> tuple[str, int]:
        """Return the next token if its kind or text is wanted."""
        kind, text, offset = self.tokens[self.position]
        if kind not in expected and text not in expected:
            self.fail(offset, text.split("\n")[0][:40], "expected " + " or ".join(expected))
        self.position += 1
        return text, offset

    def read(self) -> Grammar:
        while self.tokens[self.position][0] != "end":
            word, _ = self.take("grammar", "action")
            if word == "grammar":
                self.block()
            else:
                self.action()
        rules = {name: self.rule(name, entry, line) for name, (entry, line) in self.data.items()}
        return Grammar(self.path, rules, self.commands, hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest())

    def action(self) -> None:
        name, offset = self.take("name")
        texts: dict[str, tuple[Symbol, ...]] = {}
        self.take("{")
        while True:
            word, _ = self.take("template", "feedback", "pddl", "grammar", "}")
            if word == "}":
                break
            if word == "grammar":
                self.block()
                continue
            self.take("::")
            text, start = self.take("block" if word == "pddl" else "string")
            self.take(";")
            if word != "pddl":  # the domain is used instead
                texts[word] = parse_symbols(text[1:-1], self.path, self._line(start))
        for part in ("template", "feedback"):
            if part not in texts:
                self.fail(offset, f"action {name}", f"expected a {part}")
        self.commands[name.lower()] = CommandTexts(texts["template"], texts["feedback"])

    def block(self) -> None:
        """`:: \"\"\"JSON\"\"\";` without lines that start with #; later rules replace earlier ones."""
        self.take("::")
        text, offset = self.take("block")
        self.take(";")
        inner = textwrap.dedent(text[3:-3])
        uncommented = "\n".join("" if line.lstrip().startswith("#") else line for line in inner.split("\n"))
        try:
            data = json.loads(uncommented)
        except ValueError as error:
            line = getattr(error, "lineno", 1)
            raise GameFileError(self.path, self._line(offset) + line - 1, str(error), "expected JSON") from None
        if not isinstance(data, dict):
            self.fail(offset, type(data).__name__, "expected a JSON object of rules")
        self.data.update((name, (entry, self._line(offset))) for name, entry in data.items())

    def rule(self, name: str, entry: object, line: int) -> tuple[Alternative, ...]:
        def alternative(item: object) -> Alternative:
            if (
                not isinstance(item, dict)
                or not isinstance(item.get("rhs"), str)
                or not isinstance(item.get("condition", ""), str)
            ):
                raise GameFileError(
                    self.path, line, f"rule {name!r}", 'expected [{"rhs": text, "condition": query}, ...]'
                )
            condition = parse_query(item["condition"], self.path, line) if item.get("condition") else None
            return Alternative(condition, parse_symbols(item["rhs"], self.path, line))

        if not isinstance(entry, list) or not entry:
            raise GameFileError(self.path, line, f"rule {name!r}", "expected a list of alternatives")
        return tuple(alternative(item) for item in entry)
