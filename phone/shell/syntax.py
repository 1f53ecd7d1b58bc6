"""The syntax of the shell: a command line becomes lists of pipelines of commands, whose words are not expanded yet."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "Command",
    "Pipeline",
    "Redirect",
    "ShellGroup",
    "ShellSyntaxError",
    "Step",
    "Word",
    "WordPart",
    "is_assignment",
    "parse",
]

_LONGEST: Final = 1 << 20
_DEEPEST: Final = 40
_OPERATORS: Final = ("&&", "||", ";", "|", "&", "(", ")", "\n")
_REDIRECT: Final = re.compile(r"([0-9]?)(>>|>&|<<<|<<|>|<)|(&>)")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9?$#@*]")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_KEYWORDS: Final = frozenset(("if", "then", "fi", "for", "while", "until", "do", "done", "case", "esac", "function"))


class ShellSyntaxError(ValueError):
    """The command line is not one that this shell understands."""


@dataclass(frozen=True, slots=True)
class WordPart:
    """A piece of a word: literal text, the name of a variable, or a command whose output it is."""

    kind: str  # text, variable, command
    text: str
    quoted: bool


Word = tuple[WordPart, ...]


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where a stream goes or comes from: `operator` is one of > >> < >& <<<."""

    stream: int
    operator: str
    target: Word


@dataclass(slots=True)
class Command:
    """Words, and where its streams go."""

    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class ShellGroup:
    """Commands in parentheses or braces."""

    steps: list[Step]
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Pipeline:
    """Commands each of which reads what the one before prints."""

    commands: list[Command | ShellGroup]
    negated: bool = False


@dataclass(slots=True)
class Step:
    """A pipeline, and what it depends on: ";" always runs, "&&" after success, "||" after failure."""

    operator: str
    pipeline: Pipeline


Token = str | Redirect | Word


def parse(text: str) -> list[Step]:
    """Return the steps of a command line.

    Raises:
        ShellSyntaxError: it has none that this shell understands; the message says what is wrong.
    """
    if len(text) > _LONGEST:
        raise ShellSyntaxError(f"a command line has at most {_LONGEST} characters, got {len(text)}")
    parser = _Parser(_Lexer(text).tokens())
    steps = parser.steps(0)
    if parser.at < len(parser.tokens):
        raise ShellSyntaxError(f"syntax error: unexpected {parser.tokens[parser.at]!r}")
    return steps


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text.replace("\\\n", "")
        self.at = 0

    def tokens(self) -> list[Token]:
        result: list[Token] = []
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in " \t\r":
                self.at += 1
            elif character == "#":
                end = self.text.find("\n", self.at)
                self.at = end if end >= 0 else len(self.text)
            elif redirect := _REDIRECT.match(self.text, self.at):
                self.at = redirect.end()
                result += self._redirect(redirect)
            elif operator := next((op for op in _OPERATORS if self.text.startswith(op, self.at)), ""):
                self.at += len(operator)
                result.append(operator)
            else:
                result.append(self._word())
        return result

    def _redirect(self, match: re.Match[str]) -> list[Token]:
        stream, operator, both = match.groups()
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        target = self._word()
        if not target:
            raise ShellSyntaxError("syntax error: a redirection needs a file")
        if operator == "<<":
            raise ShellSyntaxError("syntax error: here documents are not supported")
        if both:
            return [Redirect(1, ">", target), Redirect(2, ">&", (WordPart("text", "1", True),))]
        default = 0 if operator.startswith("<") else 1
        return [Redirect(int(stream) if stream else default, operator, target)]

    def _word(self) -> Word:
        parts: list[WordPart] = []
        text = self.text
        while self.at < len(text) and text[self.at] not in " \t\r\n;|&()<>":
            character = text[self.at]
            self.at += 1
            if character == "'":
                parts.append(WordPart("text", self._until("'"), True))
            elif character == '"':
                parts += self._double_quoted()
            elif character == "\\":
                parts.append(WordPart("text", text[self.at : self.at + 1] or "\\", True))
                self.at += 1
            elif character in "$`":
                parts.append(self._dollar(character, False))
            else:
                start = self.at - 1
                while self.at < len(text) and text[self.at] not in " \t\r\n;|&()<>'\"\\$`":
                    self.at += 1
                parts.append(WordPart("text", text[start : self.at], False))
        return tuple(parts)

    def _until(self, end: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise ShellSyntaxError("syntax error: no closing quote")
        text, self.at = self.text[self.at : stop], stop + 1
        return text

    def _double_quoted(self) -> list[WordPart]:
        parts: list[WordPart] = []
        plain = ""
        while True:
            if self.at >= len(self.text):
                raise ShellSyntaxError("syntax error: no closing quote")
            character = self.text[self.at]
            self.at += 1
            if character == '"':
                return [*parts, WordPart("text", plain, True)]
            if character == "\\" and self.text[self.at : self.at + 1] in tuple('"\\$`'):
                plain += self.text[self.at]
                self.at += 1
            elif character in "$`":
                parts += [WordPart("text", plain, True), self._dollar(character, True)]
                plain = ""
            else:
                plain += character

    def _dollar(self, character: str, quoted: bool) -> WordPart:
        """Return what a '$' or '`' that was just read begins."""
        if character == "`":
            return WordPart("command", self._until("`"), quoted)
        if self.text.startswith("((", self.at):
            raise ShellSyntaxError("syntax error: $(( )) is not supported")
        if self.text.startswith("(", self.at):
            return WordPart("command", self._parenthesised(), quoted)
        if self.text.startswith("{", self.at):
            self.at += 1
            name = self._until("}")
            if not _NAME.fullmatch(name):
                raise ShellSyntaxError(f"syntax error: ${{{name}}} is not supported, only ${{NAME}}")
            return WordPart("variable", name, quoted)
        name_match = _NAME.match(self.text, self.at)
        if not name_match:
            return WordPart("text", "$", True)
        self.at = name_match.end()
        return WordPart("variable", name_match[0], quoted)

    def _parenthesised(self) -> str:
        """Return the text up to the parenthesis that closes the one here; quotes inside are left as they are."""
        start, depth = self.at + 1, 0
        while self.at < len(self.text):
            character = self.text[self.at]
            self.at += 1
            if character == "'":
                self._until("'")
            elif character == "\\":
                self.at += 1
            elif character in "()":
                depth += 1 if character == "(" else -1
                if depth == 0:
                    return self.text[start : self.at - 1]
        raise ShellSyntaxError("syntax error: no closing parenthesis")


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def next(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def steps(self, depth: int) -> list[Step]:
        if depth > _DEEPEST:
            raise ShellSyntaxError("syntax error: too many parentheses")
        steps: list[Step] = []
        operator = ";"
        while True:
            while self.next() == "\n" or (self.next() in (";", "&") and operator == ";" and not steps):
                if self.next() in (";", "&"):
                    raise ShellSyntaxError(f"syntax error: unexpected '{self.next()}'")
                self.at += 1
            if self.next() in (None, ")") or self._closes():
                if operator in ("&&", "||"):
                    raise ShellSyntaxError(f"syntax error: nothing follows '{operator}'")
                return steps
            steps.append(Step(operator, self._pipeline(depth)))
            following = self.next()
            if following in ("&&", "||"):
                operator = str(following)
            elif following in (";", "&", "\n"):
                operator = ";"
            else:
                return steps
            self.at += 1

    def _closes(self) -> bool:
        token = self.next()
        return isinstance(token, tuple) and len(token) == 1 and token[0] == WordPart("text", "}", False)

    def _pipeline(self, depth: int) -> Pipeline:
        negated = False
        while self.next() == (WordPart("text", "!", False),):
            negated = not negated
            self.at += 1
        commands = [self._command(depth)]
        while self.next() == "|":
            self.at += 1
            commands.append(self._command(depth))
        return Pipeline(commands, negated)

    def _command(self, depth: int) -> Command | ShellGroup:
        while self.next() == "\n":
            self.at += 1
        brace = self.next() == (WordPart("text", "{", False),)
        if self.next() == "(" or brace:
            self.at += 1
            group = ShellGroup(self.steps(depth + 1))
            if not (self._closes() if brace else self.next() == ")"):
                raise ShellSyntaxError(f"syntax error: no closing '{'}' if brace else ')'}'")
            self.at += 1
            while isinstance(redirect := self.next(), Redirect):
                group.redirects.append(redirect)
                self.at += 1
            return group
        command = Command()
        while (token := self.next()) is not None and not isinstance(token, str):
            if isinstance(token, Redirect):
                command.redirects.append(token)
            else:
                command.words.append(token)
            self.at += 1
        if not command.words and not command.redirects:
            raise ShellSyntaxError(f"syntax error: unexpected '{self.next() or 'end of line'}'")
        _refuse_keywords(command)
        return command


def _refuse_keywords(command: Command) -> None:
    first = command.words[0] if command.words else ()
    if len(first) == 1 and not first[0].quoted and first[0].text in _KEYWORDS:
        raise ShellSyntaxError(f"syntax error: '{first[0].text}' is not supported: this shell runs lists and pipes")


def is_assignment(word: Word) -> bool:
    """Return whether a word at the start of a command sets a variable."""
    return bool(word) and word[0].kind == "text" and not word[0].quoted and bool(_ASSIGNMENT.match(word[0].text))
