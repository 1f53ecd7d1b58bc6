"""Filters: commands that read text or bytes and print what they make of them."""

from __future__ import annotations

import base64 as base64_module
import binascii
import hashlib
import re
from collections.abc import Callable
from typing import Final

from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction, take_options

_LONGEST_PATTERN: Final = 500


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "surrogateescape")
    return text.removesuffix("\n").split("\n") if text else []


def grep(call: CommandCall) -> int:
    """Print the lines that match."""
    call.args = [re.sub(r"^--color.*", "-s", arg) for arg in call.args]
    options, names = take_options(call, "EFGPivncloqshrRwxHa", "eABCm")
    pattern = options.get("e")
    if pattern is None:
        if not names:
            raise CommandError("grep: no REGEX", 2)
        pattern = names.pop(0)
    test = _matcher(pattern, options, call.name == "fgrep", call.name == "egrep")
    if options.keys() & {"r", "R"}:
        names = [
            entry.path for name in names or ["."] for entry in call.storage.walk(call.path(name)) if not entry.directory
        ]
    named = (len(names) > 1 or bool(options.keys() & {"r", "R", "H"})) and "h" not in options
    matched = False
    for name, data in call.inputs(names):
        hits = _grep_lines(call, _lines(data), test, options, f"{name}:" if named else "")
        matched = matched or bool(hits)
        if "l" in options and hits and "q" not in options:
            call.print(name)
        elif "c" in options:
            call.print(f"{name}:{hits}" if named else str(hits))
    return 0 if matched else 1


def _matcher(pattern: str, options: dict[str, str], fixed: bool, extended: bool) -> re.Pattern[str]:
    if len(pattern) > _LONGEST_PATTERN:
        raise CommandError(f"grep: a pattern has at most {_LONGEST_PATTERN} characters", 2)
    if fixed or "F" in options:
        pattern = re.escape(pattern)
    elif not extended and not options.keys() & {"E", "P"}:
        pattern = re.sub(r"\\([|+?(){}])|([|+?(){}])", lambda m: m[1] or "\\" + m[2], pattern)
    for name, members in (("digit", "0-9"), ("alpha", "A-Za-z"), ("space", r"\s"), ("alnum", "A-Za-z0-9")):
        pattern = pattern.replace(f"[:{name}:]", members)
    pattern = rf"\b(?:{pattern})\b" if "w" in options else f"^(?:{pattern})$" if "x" in options else pattern
    try:
        return re.compile(pattern, re.IGNORECASE if "i" in options else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise CommandError(f"grep: bad REGEX: {error}", 2) from None


def _grep_lines(
    call: CommandCall, lines: list[str], test: re.Pattern[str], options: dict[str, str], before: str
) -> int:
    most = int(options["m"]) if options.get("m", "").isdecimal() else len(lines)
    around = {letter: int(options[letter]) for letter in "ABC" if options.get(letter, "").isdecimal()}
    above, below = around.get("B", around.get("C", 0)), around.get("A", around.get("C", 0))
    hits = [at for at, line in enumerate(lines) if bool(test.search(line)) != ("v" in options)][:most]
    if options.keys() & {"q", "c", "l"}:
        return len(hits)
    if "o" in options:
        for at in hits:
            for match in test.finditer(lines[at]):
                call.print(before + match[0])
        return len(hits)
    shown = sorted({at for hit in hits for at in range(max(0, hit - above), min(len(lines), hit + below + 1))})
    for at in shown:
        call.print(before + (f"{at + 1}:" if "n" in options else "") + lines[at])
    return len(hits)


def _count(call: CommandCall, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CommandError(f"{call.name}: '{text}' is not a number") from None


def head(call: CommandCall) -> None:
    """Print the first lines or bytes."""
    _end(call, lambda pieces, count: pieces[:count])


def tail(call: CommandCall) -> None:
    """Print the last lines or bytes; from a place on for +N."""
    _end(call, lambda pieces, count: pieces[-count:] if count else pieces[:0])


def _end(call: CommandCall, cut: Callable[[list[bytes], int], list[bytes]]) -> None:
    call.args = [re.sub(r"^-(\d+)$", r"-n\1", arg) for arg in call.args]
    options, names = take_options(call, "qv", "nc")
    count = options.get("n", options.get("c", "10"))
    for _, data in call.inputs(names):
        single = "c" in options
        pieces = [data[at : at + 1] for at in range(len(data))] if single else data.splitlines(keepends=True)
        if call.name == "tail" and count.startswith("+"):
            call.write(b"".join(pieces[max(0, _count(call, count) - 1) :]))
        elif call.name == "head" and count.startswith("-"):
            call.write(b"".join(pieces[: max(0, len(pieces) + _count(call, count))]))
        else:
            call.write(b"".join(cut(pieces, abs(_count(call, count)))))


def wc(call: CommandCall) -> None:
    """Count lines, words and bytes."""
    options, names = take_options(call, "lwcm")
    for name, data in call.inputs(names):
        counts = {"l": data.count(b"\n"), "w": len(data.split()), "c": len(data)}
        counts["m"] = len(data.decode("utf-8", "replace"))
        shown = [counts[letter] for letter in (options or {"l": "", "w": "", "c": ""})]
        call.print(" ".join([*(str(count) for count in shown), *([] if name == "-" else [name])]))


def sort(call: CommandCall) -> None:
    """Print lines in order."""
    options, names = take_options(call, "nrufbsV", "kt")
    lines = [line for _, data in call.inputs(names) for line in _lines(data)]
    column = _count(call, options.get("k", "0").split(",")[0].rstrip("nr") or "0")

    def key(line: str) -> tuple[float, str]:
        if column:
            line = [*line.split(options.get("t")), *[""] * column][column - 1]
        if "f" in options:
            line = line.casefold()
        number = re.match(r"\s*([+-]?\d+(?:\.\d+)?)", line[:60])
        return (float(number[1]) if number and "n" in options else 0.0, line)

    lines.sort(key=key, reverse="r" in options)
    for line in dict.fromkeys(lines) if "u" in options else lines:
        call.print(line)


def uniq(call: CommandCall) -> None:
    """Print lines that differ from the one before, with -c how many were equal."""
    options, names = take_options(call, "cdui")
    runs: list[tuple[int, str]] = []
    for line in [line for _, data in call.inputs(names[:1]) for line in _lines(data)]:
        if runs and runs[-1][1] == line:
            runs[-1] = (runs[-1][0] + 1, line)
        else:
            runs.append((1, line))
    for count, line in runs:
        if not (("d" in options and count == 1) or ("u" in options and count > 1)):
            call.print(f"{count:7d} {line}" if "c" in options else line)


def cut(call: CommandCall) -> None:
    """Print fields or characters of every line."""
    options, names = take_options(call, "s", "dfcb")
    ranges = options.get("f") or options.get("c") or options.get("b")
    if not ranges or not re.fullmatch(r"[\d,-]{1,200}", ranges):
        raise CommandError("cut: need -f, -c or -b with a list such as 1,3-4")
    delimiter = options.get("d", "\t")
    for line in [line for _, data in call.inputs(names) for line in _lines(data)]:
        pieces = line.split(delimiter) if "f" in options else list(line)
        if "f" in options and len(pieces) == 1:
            call.print(line)
            continue
        chosen = [piece for at, piece in enumerate(pieces, start=1) if _in_ranges(at, ranges)]
        call.print((delimiter if "f" in options else "").join(chosen))


def _in_ranges(at: int, ranges: str) -> bool:
    for piece in ranges.split(","):
        low, dash, high = piece.partition("-")
        if (int(low or 1) <= at <= int(high or at)) if dash else piece and int(low) == at:
            return True
    return False


def tr(call: CommandCall) -> None:
    """Replace or delete characters."""
    options, sets = take_options(call, "dsc")
    if not sets or (len(sets) < 2 and not options):
        raise CommandError("tr: needs SET1 and SET2, or -d SET")
    first = _characters(sets[0])
    text = call.stdin.decode("utf-8", "surrogateescape")
    if "d" in options:
        text = "".join(character for character in text if (character in first) == ("c" in options))
    elif len(sets) > 1:
        second = _characters(sets[1]) or "\0"
        table = {ord(character): second[min(at, len(second) - 1)] for at, character in enumerate(first)}
        text = text.translate(table)
    if "s" in options:
        squeezed = re.escape(_characters(sets[-1]))
        text = re.sub(f"([{squeezed}])\\1+", r"\1", text) if squeezed else text
    call.write(text.encode("utf-8", "surrogateescape"))


def _characters(text: str) -> str:
    for name, members in (("upper", "A-Z"), ("lower", "a-z"), ("digit", "0-9"), ("space", r"\t\n\r ")):
        text = text.replace(f"[:{name}:]", members)
    for escape, plain in ((r"\n", "\n"), (r"\r", "\r"), (r"\t", "\t"), (r"\\", "\\")):
        text = text.replace(escape, plain)

    def spread(span: re.Match[str]) -> str:
        return "".join(map(chr, range(ord(span[1]), min(ord(span[2]), ord(span[1]) + 300) + 1)))

    return re.sub(r"(.)-(.)", spread, text, flags=re.DOTALL)


def sed(call: CommandCall) -> None:
    """Replace by s/PATTERN/TEXT/[g], print lines with -n 'Np', or delete lines with /PATTERN/d."""
    options, names = take_options(call, "nEr", "e")
    script = options.get("e") or (names.pop(0) if names else "")
    lines = [line for _, data in call.inputs(names) for line in _lines(data)]
    mode = {"E": ""} if options.keys() & {"E", "r"} else {}
    if match := re.fullmatch(r"(\d+)(?:,(\d+))?p", script):
        for line in lines[int(match[1]) - 1 : int(match[2] or match[1])]:
            call.print(line)
        return
    if match := re.fullmatch(r"/(.*)/([dp])", script):
        test = _matcher(match[1], mode, False, False)
        for line in lines:
            if bool(test.search(line)) == (match[2] == "p"):
                call.print(line)
        return
    parts = re.split(rf"(?<!\\){re.escape(script[1])}", script[2:]) if len(script) > 2 and script[0] == "s" else []
    if len(parts) != 3:
        raise CommandError(f"sed: bad pattern {script!r}: only s/A/B/[gi], N[,M]p and /A/d work here")
    test = _matcher(parts[0], mode | ({"i": ""} if "i" in parts[2] else {}), False, False)
    for line in lines:
        call.print(_replaced(test, parts[1], line, 0 if "g" in parts[2] else 1))


def _replaced(test: re.Pattern[str], text: str, line: str, count: int) -> str:
    new = re.sub(r"(?<!\\)&", r"\\g<0>", text.replace("\\/", "/")).replace("\\&", "&")
    try:
        return test.sub(new, line, count=count)
    except (re.error, IndexError) as error:
        raise CommandError(f"sed: bad replacement: {error}") from None


def base64(call: CommandCall) -> None:
    """Encode, or decode with -d."""
    options, names = take_options(call, "di", "w")
    data = call.inputs(names[:1])[0][1] if call.inputs(names[:1]) else b""
    if "d" in options:
        try:
            call.write(base64_module.b64decode(data))
        except binascii.Error:
            raise CommandError("base64: bad input") from None
        return
    text = base64_module.b64encode(data).decode()
    width = _count(call, options.get("w", "76"))
    for at in range(0, len(text), width) if width > 0 else range(1):
        call.print(text[at : at + width] if width > 0 else text)


def digest(call: CommandCall) -> int:
    """Print the digests of files."""
    _, names = take_options(call, "b")
    short = call.name.removesuffix("sum")
    for name, data in call.inputs(names):
        call.print(f"{hashlib.new(short, data, usedforsecurity=False).hexdigest()}  {name}")
    return int(bool(call.err))


def xargs(call: CommandCall) -> int:
    """Run a command with the words of standard input as arguments."""
    args, size = list(call.args), 0
    while args and args[0].startswith("-"):
        option = args.pop(0)
        size = int(args.pop(0)) if option == "-n" and args and args[0].isdecimal() else size
    words = call.stdin.replace(b"\0", b" ").decode("utf-8", "surrogateescape").split()
    code = 0
    for at in range(0, max(1, len(words)), size or max(1, len(words))):
        result = call.run([*(args or ["echo"]), *words[at : at + (size or len(words))]], b"") if call.run else None
        if result:
            call.write(result.stdout)
            call.err += result.stderr
            code = code or result.code
    return 123 if code else 0


def tee(call: CommandCall) -> None:
    """Print standard input and write it into files."""
    options, names = take_options(call, "ai")
    call.write(call.stdin)
    for name in names:
        path = call.path(name)
        old = call.storage.read(path) if "a" in options and call.storage.find(path) else b""
        call.storage.write(path, old + call.stdin)


COMMANDS: Final[dict[str, CommandFunction]] = {
    "base64": base64,
    "cut": cut,
    "egrep": grep,
    "fgrep": grep,
    "grep": grep,
    "head": head,
    "md5sum": digest,
    "sed": sed,
    "sha1sum": digest,
    "sha256sum": digest,
    "sort": sort,
    "tail": tail,
    "tee": tee,
    "tr": tr,
    "uniq": uniq,
    "wc": wc,
    "xargs": xargs,
}
