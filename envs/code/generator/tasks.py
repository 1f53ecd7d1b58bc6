"""A task from its id: programs are drawn until one fits, tried here (they are ours), broken, and its tests chosen.

Which split a task belongs to is decided by the right program, its families and their parameters, and by nothing else:
not by names, and not by the mistakes. So no program of one split is in another, whatever the level.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from random import Random
from typing import Any, Final

from turnwise.envs.code.generator.draft import DRAWS, FunctionDraft
from turnwise.envs.code.generator.families import FAMILIES
from turnwise.envs.code.generator.level import CodeLevel
from turnwise.envs.code.generator.mutations import KINDS, Mutant, mutants
from turnwise.envs.code.task import MAIN, CallTest, CodeTask
from turnwise.envs.errors import UnknownOption, UnknownTask
from turnwise.registry import suggest

__all__ = ["SPLITS", "Program", "generate", "task_ids"]

SPLITS: Final = ("train", "held_out")
_HELD_OUT: Final = 4  # one in so many programs
_TRIES: Final = 4000
_INPUTS: Final = 60
_TICKS: Final = 400
_LOOKS: Final = 25  # draws for each function of a program
_WORDS: Final = {
    "F": ("solve", "compute", "find", "work", "answer", "make"),
    "A": ("n", "value", "first", "x"),
    "B": ("item", "part", "other", "y"),
    "C": ("count", "found", "rest", "z"),
    "D": ("table", "stock", "prices", "known"),
    "E": ("more", "second", "extra", "added"),
    "I": ("i", "index", "place", "at"),
    "J": ("j", "after", "column", "to"),
    "L": ("items", "values", "given", "row"),
    "M": ("best", "grid", "board", "top"),
    "N": ("code", "number", "moved", "num"),
    "P": ("product", "power", "scaled", "p"),
    "R": ("result", "out", "chosen", "built"),
    "S": ("text", "total", "line", "data"),
    "T": ("tree", "nested", "inner", "deep"),
}
_SHORT: Final = {name: name.lower() for name in _WORDS}
_CAPITAL: Final = re.compile(r"(?<!')\b[A-Z]\b(?!')")


@dataclass(frozen=True, slots=True)
class Program:
    """A right program, what it is about, and arguments to try it on.

    Args:
        key: families and parameters of what the task is about, without names and without functions that stand by.
        text: the file.
        name: the function that the task is about.
        says: what that function returns, in words.
        head: the function as a call with its arguments' names.
        takes: kinds of its arguments.
        families: names of the families.
    """

    key: str
    text: str
    name: str
    says: str
    head: str
    takes: tuple[str, ...]
    families: tuple[str, ...]


def task_ids(split: str, level: CodeLevel, count: int, first: int = 0) -> list[str]:
    """Return ids of generated tasks, from the index `first` on.

    Raises:
        UnknownOption: there is no such split.
    """
    if split not in SPLITS:
        raise UnknownOption(f"unknown split {split!r} of generated code tasks{suggest(split, SPLITS)}")
    return [f"{split}/{level.text}/{index:06d}" for index in range(first, first + count)]


@lru_cache(maxsize=512)
def generate(id: str) -> CodeTask:
    """Return the generated task of an id.

    Raises:
        UnknownTask: the text is no id of a generated task.
        UnknownOption: its level cannot be read.
    """
    split, _, rest = id.partition("/")
    text, _, number = rest.partition("/")
    if split not in SPLITS or not number.isascii() or not number.isdigit() or len(number) != 6:
        raise UnknownTask(f"no generated code task {id!r}: ids look like 'train/small/000012'")
    level = CodeLevel.parse(text)
    if level.text != text:
        raise UnknownTask(f"no generated code task {id!r}: this level is written {level.text!r}")
    rng = Random(f"turnwise/Code {id}")
    for _ in range(_TRIES):
        task = _attempt(id, split, level, rng)
        if task is not None:
            return task
    raise UnknownOption(f"the level {text!r} gives hardly any task: none was found in {_TRIES:,} attempts")


def _attempt(id: str, split: str, level: CodeLevel, rng: Random) -> CodeTask | None:
    program = _program(level, rng)
    repair = rng.random() < level.repair
    if program is None:
        return None
    if _split(program.key) != split:
        return None
    broken = _broken(program, level, rng) if repair else program.text
    if not broken:
        return None
    inputs = _inputs(program, rng)
    wants = _outputs(program.text, program.name, inputs)
    if wants is None or len({repr(want) for want in wants}) < 2 or any(want[0] != "returned" for want in wants):
        return None
    start = broken if repair else _stub(program)
    got = _outputs(start, program.name, inputs)
    if got is None:
        return None
    catching = [number for number, (one, two) in enumerate(zip(got, wants, strict=True)) if _apart(one, two)]
    chosen = _chosen(level, catching, len(inputs), rng)
    if chosen is None:
        return None
    visible, hidden = ([_test(program, inputs[number], wants[number][1]) for number in some] for some in chosen)
    what = "Repair" if repair else "Write"
    return CodeTask(
        id=id,
        statement=f"{what} {program.head}: {program.says}.",
        files={MAIN: start},
        visible=tuple(visible),
        hidden=tuple(hidden),
        solution={MAIN: program.text},
        kind=f"{what.lower()}:{program.families[-1] if len(program.families) == 1 else 'chain'}",
        split=split,
    )


def _split(key: str) -> str:
    number = int.from_bytes(blake2b(key.encode(), digest_size=4).digest(), "big")
    return SPLITS[number % _HELD_OUT == 0]


def _program(level: CodeLevel, rng: Random) -> Program | None:
    """Draw a right program; None where the draw does not fit the level."""
    known = list(FAMILIES)[: level.families]
    count = rng.randint(*level.functions)
    chained = count > 1 and rng.random() < level.chain
    names: list[str] = []
    drafts: list[FunctionDraft] = []
    for _ in range(_LOOKS * count):
        name = rng.choice(known)
        draft = FAMILIES[name](rng)
        short = level.lines[0] <= draft.code.count("\n") <= level.lines[1]
        if len(drafts) == count:
            break
        if short and (not drafts or not chained or _fits(drafts[-1], draft)):
            names.append(name)
            drafts.append(draft)
    if len(drafts) < count:
        return None
    words = {name: rng.choice(some) for name, some in _WORDS.items()} if level.names else _SHORT
    functions = _function_names(words["F"], count + chained)
    parts = [_named(draft.code, {**words, "F": name}) for draft, name in zip(drafts, functions, strict=False)]
    heads = [_head(draft, name, words) for draft, name in zip(drafts, functions, strict=False)]
    about = [f"{name}:{draft.key}" for name, draft in zip(names, drafts, strict=True)]
    if not chained:
        says, text = _named(drafts[-1].says, words), "\n\n".join(parts)
        return Program(about[-1], text, functions[-1], says, heads[-1], drafts[-1].takes, tuple(names))
    given = heads[0].partition("(")[2].rstrip(")")
    inner = given
    for name in functions[:-1]:
        inner = f"{name}({inner})"
    head = f"{functions[-1]}({given})"
    text = "\n\n".join([*parts, f"def {head}:\n    return {inner}\n"])
    told = [f"{one} is {_named(draft.says, words)}" for one, draft in zip(heads, drafts, strict=True)]
    says = f"{inner}, where {'; '.join(told)}"
    return Program("|".join([*about, "chain"]), text, functions[-1], says, head, drafts[0].takes, tuple(names))


def _fits(one: FunctionDraft, two: FunctionDraft) -> bool:
    return len(two.takes) == 1 and one.gives == two.takes[0]


def _function_names(base: str, count: int) -> list[str]:
    return [f"{base}{number}" for number in range(1, count)] + [base]


def _named(text: str, words: dict[str, str]) -> str:
    return _CAPITAL.sub(lambda found: words.get(found.group(), found.group()), text)


def _head(draft: FunctionDraft, name: str, words: dict[str, str]) -> str:
    return _named(draft.code.partition("\n")[0].removeprefix("def ").rstrip(":"), {**words, "F": name})


def _stub(program: Program) -> str:
    """Return the program with nothing in its last function."""
    lines = program.text.splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if line.startswith("def "))
    return "".join(lines[: last + 1]) + "    pass\n"


def _broken(program: Program, level: CodeLevel, rng: Random) -> str:
    """Return the program with mistakes, each on a line of its own; "" where there are not so many to make."""
    text, lines = program.text, set[int]()
    for _ in range(rng.randint(*level.bugs)):
        found = [one for one in mutants(text) if one.line not in lines and one.kind in KINDS[: level.kinds]]
        if not found:
            return ""
        # kinds are equally likely, however many places there are for each
        kind = rng.choice(sorted({one.kind for one in found}))
        mutant: Mutant = rng.choice([one for one in found if one.kind == kind])
        lines.add(mutant.line)
        text = mutant.text
    return text


def _inputs(program: Program, rng: Random) -> list[tuple[Any, ...]]:
    found = {}
    for _ in range(_INPUTS):
        value = tuple(DRAWS[kind](rng) for kind in program.takes)
        found[repr(value)] = value
    return list(found.values())


def _chosen(level: CodeLevel, catching: list[int], total: int, rng: Random) -> tuple[list[int], list[int]] | None:
    """Return which inputs become visible tests and which hidden ones; None where they do not suffice.

    The mistakes show in a hidden test always, and in two or more where two or more are there.
    """
    visible, hidden = rng.randint(*level.visible), rng.randint(*level.hidden)
    shown = rng.random() < level.shown
    if len(catching) < (2 if shown else 1) or total < visible + hidden:
        return None
    catching = rng.sample(catching, len(catching))
    quiet = [number for number in range(total) if number not in set(catching)]
    quiet = rng.sample(quiet, len(quiet))
    seen = [catching.pop()] if shown else []
    if not shown and len(quiet) < visible:
        return None
    deciding = [catching.pop() for _ in range(min(len(catching), max(2, hidden // 2)))]
    rest = quiet if not shown else rng.sample(quiet + catching, len(quiet) + len(catching))
    seen += [rest.pop() for _ in range(min(visible - len(seen), len(rest)))]
    rest += [] if shown else catching
    deciding += [rest.pop() for _ in range(min(hidden - len(deciding), len(rest)))]
    if len(seen) < visible or len(deciding) < hidden:
        return None
    return rng.sample(seen, len(seen)), rng.sample(deciding, len(deciding))


def _test(program: Program, arguments: tuple[Any, ...], want: Any) -> CallTest:
    return CallTest(program.name, repr(arguments), repr(want))


class _TooLong(Exception):
    """A program of ours, or a mistake in one, did not come to an end."""


class _Ticking(ast.NodeTransformer):
    """Counts the turns of loops and the calls."""

    def visit(self, node: ast.AST) -> ast.AST:
        """Put a tick at the beginning of what may go on for ever."""
        self.generic_visit(node)
        if isinstance(node, ast.For | ast.While | ast.FunctionDef):
            tick = ast.Expr(ast.Call(ast.Name("_tick", ast.Load()), [], []))
            node.body.insert(0, ast.copy_location(tick, node.body[0]))
        return node


def _outputs(text: str, name: str, inputs: list[tuple[Any, ...]]) -> list[tuple[str, Any]] | None:
    """Return what a program of ours gives on each input: ("returned", value) or ("raised", ""); None: no end."""
    left = 0

    def tick() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise _TooLong

    space: dict[str, Any] = {"_tick": tick}
    tree = ast.parse(text)
    _Ticking().visit(tree)
    ast.fix_missing_locations(tree)
    left = _TICKS
    exec(compile(tree, "<generated>", "exec"), space)
    function: Callable[..., Any] = space[name]
    found: list[tuple[str, Any]] = []
    for arguments in inputs:
        left = _TICKS
        given = ast.literal_eval(repr(arguments))  # a copy, since a mistake may change what it is given
        try:
            found.append(("returned", function(*given)))
        except (_TooLong, RecursionError, MemoryError):
            return None
        except Exception:
            found.append(("raised", ""))
    return found


def _apart(one: tuple[str, Any], two: tuple[str, Any]) -> bool:
    return one[0] != two[0] or bool(one[1] != two[1])
