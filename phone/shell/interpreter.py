"""The interpreter of command lines: it expands words, connects pipes and files, and calls the commands of the table."""

from __future__ import annotations

import posixpath
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from turncredit.phone.phone import Phone
from turncredit.phone.shell.command import CommandCall, CommandError
from turncredit.phone.shell.syntax import (
    Command,
    Pipeline,
    Redirect,
    ShellGroup,
    ShellSyntaxError,
    Step,
    Word,
    WordPart,
    is_assignment,
    parse,
)
from turncredit.phone.shell.table import find_command
from turncredit.phone.storage import Storage, StorageError, normal_path
from turncredit.phone.toolkit.app import BrokenApp

__all__ = ["Result", "Session", "run", "run_text"]

_DEEPEST: Final = 20  # command substitutions and `sh -c` in one another
_NULL: Final = "/dev/null"
_SHOWN: Final = ("/dev/stdout", "/dev/tty", "/proc/self/fd/1", "/dev/fd/1")


@dataclass(slots=True)
class Result:
    """What a command line printed, and its exit code."""

    stdout: bytes = b""
    stderr: bytes = b""
    code: int = 0


def run(phone: Phone, command: str, stdin: bytes | None = b"", merged: bool = False) -> Result:
    """Run a command line on a phone. Nothing that it says can raise.

    Args:
        phone: what it runs on.
        command: one or more lines.
        stdin: standard input; None if it is not known yet.
        merged: put errors into standard output, in the order in which they happen.

    Raises:
        InputNeeded: a command reads a standard input that is None. The phone may be half changed: restore it.
    """
    return Session(phone, merged=merged).run(command, stdin)


def run_text(phone: Phone, command: str) -> tuple[str, int]:
    """Return what a command line prints, standard error last, and its exit code."""
    result = run(phone, command)
    return (result.stdout + result.stderr).decode("utf-8", "replace"), result.code


class _Exit(Exception):
    """`exit` was called."""


@dataclass(slots=True)
class _Streams:
    """Where a command's output goes: file paths, or "" for the buffers; `merged`: errors go where output goes."""

    stdin: bytes | None
    out_path: str = ""
    err_path: str = ""
    append: tuple[bool, bool] = (False, False)
    merged: bool = False
    to_errors: bool = False


@dataclass(slots=True)
class Session:
    """A shell with its variables and current directory."""

    phone: Phone
    depth: int = 0
    directory: str = "/"
    status: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    merged: bool = False  # errors go to standard output, where they happen

    def run(self, text: str, stdin: bytes | None = b"") -> Result:
        """Run a command line."""
        result = Result()
        try:
            steps = parse(text)
        except ShellSyntaxError as error:
            return Result(stderr=f"/system/bin/sh: {error}\n".encode("utf-8", "replace"), code=1)
        try:
            self._steps(steps, stdin, result)
        except _Exit:
            pass
        except RecursionError:
            result.stderr += b"/system/bin/sh: nested too deeply\n"
            self.status = 1
        result.code = self.status
        return result

    def _steps(self, steps: list[Step], stdin: bytes | None, result: Result) -> None:
        for step in steps:
            if (step.operator == "&&" and self.status) or (step.operator == "||" and not self.status):
                continue
            self._pipeline(step.pipeline, stdin, result)

    def _pipeline(self, pipeline: Pipeline, stdin: bytes | None, result: Result) -> None:
        for at, command in enumerate(pipeline.commands):
            output = Result()
            try:
                self._command(command, stdin, output)
            finally:
                if self.merged:
                    result.stdout += output.stderr
                else:
                    result.stderr += output.stderr
                if at + 1 == len(pipeline.commands):
                    result.stdout += output.stdout
            stdin = output.stdout
        if pipeline.negated:
            self.status = int(not self.status)

    def _command(self, command: Command | ShellGroup, stdin: bytes | None, result: Result) -> None:
        output = Result()
        try:
            streams = self._streams(command.redirects, stdin, output)
        except (StorageError, CommandError) as error:
            result.stderr += f"/system/bin/sh: {error}\n".encode("utf-8", "replace")
            self.status = 1
            return
        try:
            if isinstance(command, ShellGroup):
                inner = Session(self.phone, self.depth, self.directory, self.status, dict(self.variables))
                with suppress(_Exit):
                    inner._steps(command.steps, streams.stdin, output)
                self.status = inner.status
            else:
                self._simple(command, streams.stdin, output)
        finally:
            self._deliver(streams, output, result)

    def _simple(self, command: Command, stdin: bytes | None, result: Result) -> None:
        words = list(command.words)
        while words and is_assignment(words[0]):
            word = words.pop(0)
            name, _, first = word[0].text.partition("=")
            value = (WordPart("text", first, True), *word[1:])
            self.variables[name] = "".join(self._text(part, result) for part in value)
            self.status = 0
        arguments = [text for word in words for text in self._expand(word, result)]
        if arguments:
            self._call(arguments, stdin, result)

    def _call(self, words: list[str], stdin: bytes | None, result: Result) -> None:
        name = words[0]
        if name in ("exit", "return"):
            self.status = int(words[1]) % 256 if len(words) > 1 and words[1].isdigit() else self.status
            raise _Exit
        if name == "cd":
            self._change_directory(words[1] if len(words) > 1 else "/", result)
            return
        if name in ("export", "set", "unset"):
            for word in words[1:]:
                key, equals, value = word.partition("=")
                if name == "export" and equals:
                    self.variables[key] = value
                elif name == "unset":
                    self.variables.pop(key, None)
            self.status = 0
            return
        function = find_command(name)
        if function is None:
            result.stderr += f"/system/bin/sh: {name}: inaccessible or not found\n".encode("utf-8", "replace")
            self.status = 127
            return
        call = CommandCall(self.phone, name.rsplit("/", 1)[-1], words[1:], stdin, self.directory, self._run_other)
        self.phone.from_outside()
        try:
            self.status = function(call) or 0
        except CommandError as error:
            self.status = error.code
            call.warn(str(error))
        except StorageError as error:
            self.status = 1
            call.warn(f"{call.name}: {error}")
        except BrokenApp as error:
            self.status = 1
            call.warn(f"{call.name}: {error}")
        result.stdout += bytes(call.out)
        result.stderr += bytes(call.err)

    def _run_other(self, words: list[str], stdin: bytes | None) -> Result:
        """Run a command that another one names: `sh -c`, `xargs`, `find -exec`, `toybox`."""
        result = Result()
        if self.depth >= _DEEPEST:
            return Result(stderr=b"/system/bin/sh: nested too deeply\n", code=1)
        inner = Session(self.phone, self.depth + 1, self.directory, self.status, dict(self.variables))
        if words[:2] == ["sh", "-c"]:
            return inner.run(words[2] if len(words) > 2 else "", stdin)
        with suppress(_Exit):
            inner._call(words, stdin, result)
        result.code = inner.status
        return result

    def _change_directory(self, name: str, result: Result) -> None:
        path = normal_path(name, self.directory)
        entry = Storage(self.phone).find(path)
        if entry and entry.directory:
            self.directory, self.status = path, 0
            return
        why = "Not a directory" if entry else "No such file or directory"
        result.stderr += f"/system/bin/sh: cd: {name}: {why}\n".encode("utf-8", "replace")
        self.status = 2

    # Words

    def _expand(self, word: Word, result: Result) -> list[str]:
        """Return the arguments that a word becomes."""
        fields: list[list[WordPart]] = [[]]
        for part in word:
            text = self._text(part, result)
            if part.quoted or part.kind == "text":
                fields[-1].append(WordPart("text", text, part.quoted))
                continue
            pieces = text.split()
            if pieces and text[0].isspace() and fields[-1]:
                fields.append([])
            for at, piece in enumerate(pieces):
                if at:
                    fields.append([])
                fields[-1].append(WordPart("text", piece, False))
            if pieces and text[-1].isspace():
                fields.append([])
        return [text for parts in fields if parts for text in self._matches(parts)]

    def _text(self, part: WordPart, result: Result) -> str:
        if part.kind == "text":
            return part.text
        if part.kind == "variable":
            if part.text == "?":
                return str(self.status)
            fixed = {"$": "4242", "PWD": self.directory, "HOME": "/", "USER": "shell", "EXTERNAL_STORAGE": "/sdcard"}
            return self.variables.get(part.text, fixed.get(part.text, ""))
        if self.depth >= _DEEPEST:
            raise RecursionError
        inner = Session(self.phone, self.depth + 1, self.directory, self.status, dict(self.variables))
        printed = inner.run(part.text)
        result.stderr += printed.stderr
        self.status = printed.code
        return printed.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def _matches(self, parts: list[WordPart]) -> list[str]:
        """Return the paths that a pattern matches, or the text itself where it is none or matches nothing."""
        text = "".join(part.text for part in parts)
        if not any(not part.quoted and any(mark in part.text for mark in "*?[") for part in parts):
            return [text]
        pattern = "".join(_escaped(part.text) if part.quoted else part.text for part in parts)
        storage = Storage(self.phone)
        paths = [""]
        for at, piece in enumerate(pattern.split("/")):
            paths = [
                posixpath.join(base, name) if base else name
                for base in paths
                for name in self._names(storage, base, piece, at)
            ]
        return sorted(paths) or [text]

    def _names(self, storage: Storage, base: str, piece: str, at: int) -> list[str]:
        if piece == "":
            return ["/"] if at == 0 else [""]
        if not any(mark in piece for mark in "*?["):
            return [piece] if storage.find(normal_path(posixpath.join(base, piece), self.directory)) else []
        entry = storage.find(normal_path(base or ".", self.directory))
        if entry is None or not entry.directory:
            return []
        names = storage.names(entry.path)
        return [name for name in names if fnmatchcase(name, piece) and (piece[0] == "." or name[0] != ".")]

    # Streams

    def _streams(self, redirects: list[Redirect], stdin: bytes | None, result: Result) -> _Streams:
        """Return where the streams go, after files were read and those to be written were emptied."""
        streams = _Streams(stdin)
        storage = Storage(self.phone)
        for redirect in redirects:
            target = "".join(self._text(part, result) for part in redirect.target)
            path = target if target.startswith("/dev/") or target in _SHOWN else normal_path(target, self.directory)
            append = redirect.operator == ">>"
            if redirect.operator == "<<<":
                streams.stdin = (target + "\n").encode("utf-8", "surrogateescape")
            elif redirect.operator == "<":
                try:
                    streams.stdin = b"" if path == _NULL else storage.read(path)
                except StorageError as error:
                    raise CommandError(f"can't open {target}: {error}") from None
            elif redirect.operator == ">&":
                streams.merged = streams.merged or (redirect.stream == 2 and target == "1")
                streams.to_errors = streams.to_errors or (redirect.stream == 1 and target == "2")
            else:
                if not path.startswith("/dev/") and not (append and storage.find(path)):
                    try:
                        storage.write(path, b"")
                    except StorageError as error:
                        raise CommandError(f"can't create {target}: {error}") from None
                if redirect.stream == 2:
                    streams.err_path, streams.merged = path, False
                    streams.append = (streams.append[0], append)
                else:
                    streams.out_path, streams.append = path, (append, streams.append[1])
        return streams

    def _deliver(self, streams: _Streams, output: Result, result: Result) -> None:
        """Put what a command printed where its redirections say."""
        stdout, stderr = output.stdout, output.stderr
        if streams.merged:
            stdout, stderr = stdout + stderr, b""
        elif streams.to_errors:
            stdout, stderr = b"", stderr + stdout
        result.stdout += self._to_file(streams.out_path, stdout, result)
        result.stderr += self._to_file(streams.err_path, stderr, result)

    def _to_file(self, path: str, data: bytes, result: Result) -> bytes:
        """Append to the file, and return what is not for one."""
        if not path or path in _SHOWN:
            return data
        if path.startswith("/dev/") or not data:
            return b""
        storage = Storage(self.phone)
        try:
            storage.write(path, (storage.read(path) if storage.find(path) else b"") + data)
        except StorageError as error:
            result.stderr += f"/system/bin/sh: {path}: {error}\n".encode("utf-8", "replace")
            self.status = 1
        return b""


def _escaped(text: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)
