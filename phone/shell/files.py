"""Commands for files and directories. Modes and owners are accepted and not kept."""

from __future__ import annotations

import posixpath
from fnmatch import fnmatchcase
from typing import Final

from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction, take_options
from turncredit.phone.storage import Entry, StorageError
from turncredit.phone.toolkit.app import to_datetime


def ls(call: CommandCall) -> int:
    """List directories."""
    options, names = take_options(call, "1aAlRdhtrSnFiZp")
    failed, several = 0, len(names) > 1 or "R" in options
    for name in names or [call.directory]:
        source = call.storage.find(call.path(name))
        if source is None:
            call.warn(f"ls: {name}: No such file or directory")
            failed = 1
        elif not source.directory or "d" in options:
            _show(call, [(name, source)], options)
        else:
            for entry in call.storage.walk(source.path) if "R" in options else [source]:
                if entry.directory:
                    if several:
                        call.print(f"{'' if not call.out else chr(10)}{name + entry.path[len(source.path) :]}:")
                    _list(call, entry, options)
    return failed


def _list(call: CommandCall, directory: Entry, options: dict[str, str]) -> None:
    names = [name for name in call.storage.names(directory.path) if "a" in options or "A" in options or name[0] != "."]
    pairs = [(name, call.storage.entry(posixpath.join(directory.path, name))) for name in names]
    if "t" in options:
        pairs.sort(key=lambda pair: -pair[1].modified)
    if "S" in options:
        pairs.sort(key=lambda pair: -pair[1].size)
    if "r" in options:
        pairs.reverse()
    if "l" in options:
        call.print(f"total {sum(-(-entry.size // 1024) for _, entry in pairs)}")
    _show(call, pairs, options)


def _show(call: CommandCall, pairs: list[tuple[str, Entry]], options: dict[str, str]) -> None:
    for name, entry in pairs:
        if "l" in options:
            kind = "drwxrwx--x 2" if entry.directory else "-rw-rw---- 1"
            when = f"{to_datetime(entry.modified):%Y-%m-%d %H:%M}"
            call.print(f"{kind} root sdcard_rw {entry.size:>8} {when} {name}")
        else:
            call.print(name + ("/" if entry.directory and ("F" in options or "p" in options) else ""))


def cat(call: CommandCall) -> int:
    """Print files."""
    _, names = take_options(call, "uenvt")
    for _, data in call.inputs(names):
        call.write(data)
    return int(bool(call.err))


def cp(call: CommandCall) -> int:
    """Copy files, and with -r or -a directories."""
    options, names = take_options(call, "rRapfnvdLPHTi")
    recursive = bool({"r", "R", "a"} & set(options))
    *sources, target = _at_least_two(call, names)
    for source in sources:
        start = call.storage.find(call.path(source))
        if start is None:
            raise CommandError(f"cp: {source}: No such file or directory")
        if start.directory and not recursive:
            raise CommandError(f"cp: Skipped dir '{source}': Is a directory")
        there = _into(call, target, start.path, len(sources))
        if there.startswith(start.path + "/") and start.directory:
            raise CommandError(f"cp: '{source}' to itself")
        for entry in list(call.storage.walk(start.path)):
            path = there + entry.path[len(start.path) :]
            if entry.directory:
                call.storage.make_directory(path, parents=True)
            elif not ("n" in options and call.storage.find(path)):
                modified = entry.modified if "a" in options or "p" in options else None
                call.storage.write(path, call.storage.read(entry.path), modified)
    return 0


def _at_least_two(call: CommandCall, names: list[str]) -> list[str]:
    if len(names) < 2:
        raise CommandError(f"{call.name}: Need 2 arguments, a source and a target")
    return names


def _into(call: CommandCall, target: str, source: str, several: int) -> str:
    """Return where a source goes: into the target if that is a directory."""
    path = call.path(target)
    entry = call.storage.find(path)
    if entry and entry.directory:
        return posixpath.join(path, posixpath.basename(source))
    if several > 1 or target.endswith("/"):
        raise CommandError(f"{call.name}: '{target}' not directory")
    return path


def mv(call: CommandCall) -> None:
    """Move files and directories."""
    _, names = take_options(call, "finvT")
    *sources, target = _at_least_two(call, names)
    for source in sources:
        path = call.path(source)
        try:
            call.storage.move(path, _into(call, target, path, len(sources)))
        except StorageError as error:
            raise CommandError(f"mv: bad '{source}': {error}") from None


def mkdir(call: CommandCall) -> None:
    """Make directories."""
    options, names = take_options(call, "pv", "m")
    for name in names:
        try:
            call.storage.make_directory(call.path(name), parents="p" in options)
        except StorageError as error:
            raise CommandError(f"mkdir: '{name}': {error}") from None


def rm(call: CommandCall) -> int:
    """Remove files, and with -r directories."""
    options, names = take_options(call, "rRfiv")
    failed = 0
    for name in names:
        try:
            call.storage.remove(call.path(name), recursive=bool({"r", "R"} & set(options)))
        except StorageError as error:
            if not ("f" in options and str(error).startswith("No such")):
                call.warn(f"rm: {name}: {error}")
                failed = 1
    return failed


def rmdir(call: CommandCall) -> None:
    """Remove empty directories."""
    for name in take_options(call, "pv")[1]:
        try:
            call.storage.remove_directory(call.path(name))
        except StorageError as error:
            raise CommandError(f"rmdir: '{name}': {error}") from None


def touch(call: CommandCall) -> None:
    """Make files, or set their time to now."""
    for name in take_options(call, "acmh", "dtr")[1]:
        try:
            call.storage.touch(call.path(name))
        except StorageError as error:
            raise CommandError(f"touch: '{name}': {error}") from None


def stat(call: CommandCall) -> int:
    """Print what is known of files."""
    options, names = take_options(call, "Lft", "c")
    failed = 0
    for name in names:
        entry = call.storage.find(call.path(name))
        if entry is None:
            call.warn(f"stat: '{name}': No such file or directory")
            failed = 1
            continue
        when = f"{to_datetime(entry.modified):%Y-%m-%d %H:%M:%S}.000000000 +0000"
        values = {"n": name, "s": str(entry.size), "Y": str(entry.modified), "y": when, "a": f"{entry.mode & 0o777:o}"}
        values |= {
            "F": "directory" if entry.directory else "regular file",
            "U": "root",
            "G": "root",
            "f": f"{entry.mode:x}",
        }
        form = options.get("c") or "  File: %n\n  Size: %s\t%F\nAccess: (%a)\tUid: (0/%U)\tGid: (0/%G)\nModify: %y"
        for letter, value in values.items():
            form = form.replace(f"%{letter}", value)
        call.print(form)
    return failed


def find(call: CommandCall) -> int:
    """Print the paths below directories that pass all tests."""
    args = list(call.args)
    starts: list[str] = []
    while args and not args[0].startswith("-"):
        starts.append(args.pop(0))
    tests, action, command = _find_tests(args)
    failed, matches = 0, []
    for start in starts or ["."]:
        base = call.path(start)
        try:
            entries = list(call.storage.walk(base))
        except StorageError as error:
            call.warn(f"find: {start}: {error}")
            failed = 1
            continue
        for entry in entries:
            shown = start.rstrip("/") + entry.path[len(base.rstrip("/")) :] if entry.path != base else start
            if all(_passes(call, entry, test, value, entry.path[len(base) :].count("/")) for test, value in tests):
                matches.append((shown, entry))
    for shown, entry in reversed(matches) if action == "-delete" else matches:
        if action == "-delete":
            if call.storage.find(entry.path):
                call.storage.remove(entry.path, recursive=entry.directory)
        elif action == "-exec" and call.run:
            result = call.run([shown if word == "{}" else word for word in command], b"")
            call.write(result.stdout)
            call.err += result.stderr
        else:
            call.print(shown)
    return failed


def _find_tests(args: list[str]) -> tuple[list[tuple[str, str]], str, list[str]]:
    tests: list[tuple[str, str]] = []
    action, command = "-print", []
    while args:
        word = args.pop(0)
        if word in ("-name", "-iname", "-type", "-maxdepth", "-mindepth", "-path", "-newer", "-size") and args:
            tests.append((word, args.pop(0)))
        elif word in ("-print", "-delete"):
            action = word
        elif word == "-exec":
            action = word
            while args and args[0] not in (";", "+"):
                command.append(args.pop(0))
            args = args[1:]
        else:
            raise CommandError(f"find: bad arg '{word}'")
    return tests, action, command


def _passes(call: CommandCall, entry: Entry, test: str, value: str, depth: int) -> bool:
    name = posixpath.basename(entry.path)
    if test in ("-maxdepth", "-mindepth"):
        if not value.isdecimal():
            raise CommandError(f"find: bad {test} '{value}'")
        return depth <= int(value) if test == "-maxdepth" else depth >= int(value)
    if test == "-type":
        return entry.directory == (value == "d")
    if test == "-newer":
        return entry.modified > call.storage.entry(call.path(value)).modified
    if test == "-size":
        digits = value.strip("+-cbk")
        size = int(digits) if digits.isdecimal() else 0
        return entry.size > size if value[0] == "+" else entry.size < size if value[0] == "-" else entry.size == size
    if test == "-path":
        return fnmatchcase(entry.path, value)
    return fnmatchcase(name.casefold(), value.casefold()) if test == "-iname" else fnmatchcase(name, value)


def change_mode(call: CommandCall) -> int:
    """Accept new modes and owners of files that exist."""
    names = [arg for arg in call.args if not arg.startswith("-")][0 if call.name == "restorecon" else 1 :]
    missing = [name for name in names if call.storage.find(call.path(name)) is None]
    for name in missing:
        call.warn(f"{call.name}: '{name}': No such file or directory")
    return int(bool(missing))


def du(call: CommandCall) -> None:
    """Print the sizes of directories in kilobytes."""
    _, names = take_options(call, "shkmacx", "d")
    for name in names or ["."]:
        size = sum(entry.size for entry in call.storage.walk(call.path(name)) if not entry.directory)
        call.print(f"{-(-size // 1024)}\t{name}")


def df(call: CommandCall) -> None:
    """Print the space of the storage."""
    used = sum(len(file.data) for file in call.phone.files.values()) // 1024
    call.print("Filesystem     1K-blocks    Used Available Use% Mounted on")
    call.print(f"/dev/fuse         524288 {used:7d} {524288 - used:9d} {100 * used // 524288:3d}% /storage/emulated")


def readlink(call: CommandCall) -> None:
    """Print the path of a file without links."""
    for name in take_options(call, "fenq")[1]:
        call.print(call.path(name))


def pwd(call: CommandCall) -> None:
    """Print the current directory."""
    call.print(call.directory)


COMMANDS: Final[dict[str, CommandFunction]] = {
    "cat": cat,
    "chmod": change_mode,
    "chown": change_mode,
    "chgrp": change_mode,
    "cp": cp,
    "df": df,
    "du": du,
    "find": find,
    "ls": ls,
    "mkdir": mkdir,
    "mv": mv,
    "pwd": pwd,
    "readlink": readlink,
    "realpath": readlink,
    "restorecon": change_mode,
    "rm": rm,
    "rmdir": rmdir,
    "stat": stat,
    "touch": touch,
}
