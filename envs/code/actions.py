"""Actions of the code environment: a keyword on the first line, and for some keywords a text on the following lines.

    run                     run the task's main file
    run                     run the program on the following lines
    <program>
    show PATH               print a file with line numbers
    write PATH              create or overwrite a file
    <text>
    edit PATH               replace a passage that occurs exactly once
    <<<<<<<
    <old lines>
    =======
    <new lines>
    >>>>>>>
    replace 3: return a     replace line 3 of the main file; "replace PATH 3: ..." for another file
    test                    run the visible tests
    submit                  submit the files to the hidden tests

"replace 3: TEXT" keeps the indentation of the old line unless TEXT brings its own; "replace 3" with text on the
following lines inserts that text unchanged. A code fence (three backticks, with or without a language) around a text is
removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from turncredit.tools.visible_text import shortened

__all__ = ["FORMS", "ActionKind", "CodeAction", "apply_edit", "parse_action", "path_problem", "repair_actions"]

ActionKind = Literal["run", "show", "write", "edit", "replace", "test", "submit"]
_KINDS: Final[tuple[ActionKind, ...]] = ("run", "show", "write", "edit", "replace", "test", "submit")
FORMS: Final = ("run\n...", "show ...", "write ...\n...", "edit ...\n...", "replace ...")
"""Action forms that contain arbitrary text, for `info["free_actions"]`."""

_REPLACE: Final = re.compile(r"(?:(?P<path>\S+)[ \t]+)?(?P<line>\d{1,9})[ \t]*(?P<mark>:)?(?P<text>.*)", re.DOTALL)
_FENCE: Final = re.compile(r"```[\w+.-]*[ \t]*\n")
_DIVIDER: Final = re.compile(r"={5,9}[ \t]*\n")
_LONGEST_PATH: Final = 200
LONGEST_ACTION: Final = 400_000  # characters; a file has at most a quarter of them
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class CodeAction:
    """One action.

    Args:
        kind: its keyword.
        path: the file that it names; "" for the main file.
        text: the program, the contents of the file, or the new lines.
        old: the passage to replace ("edit").
        line: number of the line to replace, starting at 1 ("replace").
        keep: whether the new line gets the indentation of the old one ("replace").
    """

    kind: ActionKind
    path: str = ""
    text: str = ""
    old: str = ""
    line: int = 0
    keep: bool = False


def parse_action(reply: str) -> CodeAction | str:
    """Return the action in a text, or a sentence that tells the agent why there is none. Never raises.

    >>> parse_action("replace 3: return a + b")
    CodeAction(kind='replace', path='', text='return a + b', old='', line=3, keep=True)
    >>> parse_action("compile")
    "no action begins with 'compile': run, show, write, edit, replace, test or submit"
    """
    if len(reply) > LONGEST_ACTION:
        return f"an action has at most {LONGEST_ACTION:,} characters, and this one has {len(reply):,}"
    text = reply.replace("\r\n", "\n").strip("\n")
    first, _, body = text.lstrip().partition("\n")
    word, _, arguments = first.strip().partition(" ")
    arguments = arguments.strip()
    if not word:
        return f"the action was empty: begin with {_listed()}"
    if word not in _KINDS:
        return f"no action begins with {_short(word)}: {_listed()}"
    if control := _CONTROL.search(text):
        return f"an action is text, and this one holds the character {control.group()!r}"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"an action is Unicode text, and this one is not, at character {error.start}"
    return _READERS[word](arguments, body)


def _alone(kind: ActionKind, arguments: str, body: str) -> CodeAction | str:
    if arguments or body.strip():
        return f"{kind} stands alone, and {_short(arguments or body)} followed it"
    return CodeAction(kind)


def _run(arguments: str, body: str) -> CodeAction | str:
    if arguments:
        return f"the program of run begins on the next line, not with {_short(arguments)} behind it"
    return CodeAction("run", text=_unfenced(body))


def _show(path: str, body: str) -> CodeAction | str:
    if body.strip():
        return f"show takes a path and nothing below it, not {_short(body)}"
    return path_problem("show", path) or CodeAction("show", path)


def _write(path: str, body: str) -> CodeAction | str:
    if problem := path_problem("write", path):
        return problem
    if not body:
        return f"write {path} wants the text of the file on the lines below it"
    return CodeAction("write", path, _ended(_unfenced(body)))


def _edit(path: str, body: str) -> CodeAction | str:
    if problem := path_problem("edit", path):
        return problem
    passages = _passages(_unfenced(body))
    if passages is None:
        return "edit wants a line of <<<<<<<, the old lines, a line of =======, the new lines, and a line of >>>>>>>"
    old, new = passages
    if not old.strip():
        return "the old lines of edit were empty, so they tell no place: use write for a whole file"
    return CodeAction("edit", path, new, old)


def _passages(block: str) -> tuple[str, str] | None:
    """Return the old and the new lines of an edit; None if a line of marks is missing."""
    first, *lines = block.removesuffix("\n").split("\n")
    lines = [f"{line}\n" for line in lines]
    if not first.startswith("<<<<<") or not lines or not lines[-1].startswith(">>>>>"):
        return None
    middle = next((number for number, line in enumerate(lines) if _DIVIDER.fullmatch(line)), None)
    return None if middle is None else ("".join(lines[:middle]), "".join(lines[middle + 1 : -1]))


def _replace(arguments: str, body: str) -> CodeAction | str:
    match = _REPLACE.fullmatch(arguments)
    if match is None:
        return "replace wants a line number and the new line, such as replace 3: return a"
    path, line, text = match["path"] or "", int(match["line"]), match["text"]
    if path and (problem := path_problem("replace", path)):
        return problem
    if line < 1:
        return "lines are counted from 1"
    if match["mark"]:
        if body.strip():
            return f"with replace {line}: the new line stands behind the colon; below replace {line} stand several"
        return CodeAction("replace", path, text.strip(), line=line, keep=True)
    if text.strip():
        return f"replace {line} wants a colon before the new line"
    if not body:
        return f"replace {line} wants the new line behind a colon, or new lines below it"
    return CodeAction("replace", path, _ended(_unfenced(body)), line=line)


def path_problem(kind: str, path: str) -> str:
    """Return a sentence about what is wrong with the path of an action; "" if it is valid."""
    if not path:
        return f"{kind} wants the path of a file behind it"
    names = path.split("/") if len(path) <= _LONGEST_PATH else []
    if not names or any(name in ("", ".", "..") or len(name) > 100 for name in names):
        return f"a path is relative and does not go up, such as solution.py, not {_short(path)}"
    if any(character.isspace() or not character.isprintable() for character in path):
        return f"a path holds no white space, unlike {_short(path)}"
    return ""


def apply_edit(text: str, action: CodeAction) -> str:
    """Return the contents of a file after an "edit" or a "replace".

    Raises:
        LookupError: the passage does not occur exactly once, or the line does not exist; the message is an observation.
    """
    if action.kind == "edit":
        count = text.count(action.old) or text.count(action.old.rstrip("\n"))
        if count != 1:
            raise LookupError(f"the old lines occur {count} times: they must occur once, exactly as they stand")
        if action.old in text:
            return text.replace(action.old, action.text)
        return text.replace(action.old.rstrip("\n"), action.text.rstrip("\n"))
    lines = text.splitlines(keepends=True)
    if action.line > len(lines):
        raise LookupError(f"there is no line {action.line}: the file has {len(lines)}")
    old = lines[action.line - 1]
    new = action.text
    if action.keep:
        new = (old[: len(old) - len(old.lstrip(" \t"))] + new if new else "") + "\n"
    return "".join([*lines[: action.line - 1], new, *lines[action.line :]])


def repair_actions(path: str, main: str, old: str, new: str) -> list[str]:
    """Return actions that change the contents of a file: single-line replacements if few lines differ, else one
    "write".

    Args:
        path: the file.
        main: the task's main file, whose path can be omitted.
        old: current contents.
        new: required contents.
    """
    before, after = old.splitlines(), new.splitlines()
    changed = [number for number, (line, two) in enumerate(zip(before, after, strict=False), 1) if line != two]
    name = "" if path == main else f"{path} "
    actions = [f"replace {name}{number}: {after[number - 1].strip()}" for number in changed]
    text = old
    if len(before) == len(after) and len(changed) <= 3:
        for action_text in actions:
            action = parse_action(action_text)
            text = apply_edit(text, action) if isinstance(action, CodeAction) else ""
        if text == new:
            return actions
    return [f"write {path}\n{new}"]


def _unfenced(body: str) -> str:
    text = body.strip("\n")
    fence, end = _FENCE.match(text), text.rstrip(" \t")
    if fence is None or not end.endswith("```") or fence.end() > len(end) - 3:
        return body
    return end[fence.end() : -3].removesuffix("\n")


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _short(text: str) -> str:
    return repr(shortened(text[:1000].strip(), 40))


def _listed() -> str:
    return f"{', '.join(_KINDS[:-1])} or {_KINDS[-1]}"


_READERS: Final[dict[str, Callable[[str, str], CodeAction | str]]] = {
    "run": _run,
    "show": _show,
    "write": _write,
    "edit": _edit,
    "replace": _replace,
    "test": lambda rest, body: _alone("test", rest, body),
    "submit": lambda rest, body: _alone("submit", rest, body),
}
