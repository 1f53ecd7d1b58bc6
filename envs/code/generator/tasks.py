"""A task from its id: draw a program that fits the level, break it or empty its last function, and choose tests.

The split of a task depends only on the families and parameters of its correct program, never on names or mistakes, so
no program of one split occurs in the other at any level. Generated programs are trusted and run in this process.
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

from turncredit.envs.code.generator.families import FAMILIES, NAMES, FunctionDraft, draw_argument
from turncredit.envs.code.generator.level import CodeLevel
from turncredit.envs.code.generator.mutations import KINDS, Mutant, mutants
from turncredit.envs.code.task import MAIN, CallTest, CodeTask
from turncredit.envs.errors import UnknownOption, UnknownTask
from turncredit.envs.validation import choice
from turncredit.former_name import random_key

__all__ = ["SPLITS", "Program", "generate", "task_ids"]

SPLITS: Final = ("train", "held_out")
_HELD_OUT: Final = 4  # one program in four is held out
_TRIES: Final = 4000
_INPUTS: Final = 60
_TICKS: Final = 400  # loop iterations and calls that a program may take on one input
_DRAWS: Final = 25  # draws for each function of a program
_SHORT: Final = {name: name.lower() for name in NAMES}
_CAPITAL: Final = re.compile(r"(?<!')\b[A-Z]\b(?!')")

Outcome = tuple[str, Any]  # ("returned", value) or ("raised", "")


@dataclass(frozen=True, slots=True)
class Program:
    """A correct program, and the function that the task is about.

    Args:
        key: families and parameters of that function and what it calls, without names.
        text: the source.
        name: name of the function.
        says: what it returns, in words.
        head: the function called with its parameter names.
        takes: kinds of its arguments.
        families: names of the families of all functions.
    """

    key: str
    text: str
    name: str
    says: str
    head: str
    takes: tuple[str, ...]
    families: tuple[str, ...]


def task_ids(split: str, level: CodeLevel, count: int, first: int = 0) -> list[str]:
    """Return the ids of `count` generated tasks, starting with number `first`.

    Raises:
        UnknownOption: no such split.
    """
    choice("split", split, SPLITS)
    return [f"{split}/{level.text}/{index:06d}" for index in range(first, first + count)]


@lru_cache(maxsize=512)
def generate(id: str) -> CodeTask:
    """Return the generated task with an id.

    Raises:
        UnknownTask: the text is not the id of a generated task.
        UnknownOption: the id's level is invalid.
    """
    split, _, numbering = id.partition("/")
    text, _, number = numbering.partition("/")
    if split not in SPLITS or not number.isascii() or not number.isdigit() or len(number) != 6:
        raise UnknownTask(f"unknown generated code task {id!r}; ids look like 'train/small/000012'")
    level = CodeLevel.parse(text)
    if level.text != text:
        raise UnknownTask(f"unknown generated code task {id!r}; write this level as {level.text!r}")
    rng = Random(random_key(f"turncredit/Code {id}"))
    for _ in range(_TRIES):
        task = _attempt(id, split, level, rng)
        if task is not None:
            return task
    raise UnknownOption(f"the level {text!r} is too restrictive: no task was found in {_TRIES:,} attempts")


def _attempt(id: str, split: str, level: CodeLevel, rng: Random) -> CodeTask | None:
    program = _program(level, rng)
    repair = rng.random() < level.repair
    if program is None or _split(program.key) != split:
        return None
    start = _broken(program, level, rng) if repair else _stub(program)
    if not start:
        return None
    inputs = _inputs(program, rng)
    wants = _outcomes(program.text, program.name, inputs)
    if wants is None or len({repr(want) for want in wants}) < 2 or any(want[0] != "returned" for want in wants):
        return None
    got = _outcomes(start, program.name, inputs)
    if got is None:
        return None
    failing = [number for number, (value, two) in enumerate(zip(got, wants, strict=True)) if _differ(value, two)]
    chosen = _choose_tests(level, failing, len(inputs), rng)
    if chosen is None:
        return None
    visible, hidden = (
        tuple(CallTest(program.name, repr(inputs[number]), repr(wants[number][1])) for number in numbers)
        for numbers in chosen
    )
    verb = "Repair" if repair else "Write"
    return CodeTask(
        id=id,
        statement=f"{verb} {program.head}: {program.says}.",
        files={MAIN: start},
        visible=visible,
        hidden=hidden,
        solution={MAIN: program.text},
        kind=f"{verb.lower()}:{program.families[-1] if len(program.families) == 1 else 'chain'}",
        split=split,
    )


def _split(key: str) -> str:
    number = int.from_bytes(blake2b(key.encode(), digest_size=4).digest(), "big")
    return SPLITS[number % _HELD_OUT == 0]


def _program(level: CodeLevel, rng: Random) -> Program | None:
    """Draw a correct program; None if the draw does not fit the level."""
    choices = list(FAMILIES)[: level.families]
    count = rng.randint(*level.functions)
    chained = count > 1 and rng.random() < level.chain
    families: list[str] = []
    drafts: list[FunctionDraft] = []
    for _ in range(_DRAWS * count):
        name = rng.choice(choices)
        draft = FAMILIES[name].draw(rng)
        if len(drafts) == count:
            break
        fits = not drafts or not chained or draft.takes == (drafts[-1].gives,)
        if fits and level.lines[0] <= draft.code.count("\n") <= level.lines[1]:
            families.append(name)
            drafts.append(draft)
    if len(drafts) < count:
        return None
    words = {name: rng.choice(some) for name, some in NAMES.items()} if level.names else _SHORT
    last = words["F"]
    names = [*(f"{last}{number}" for number in range(1, count + chained)), last]
    parts = [_rename(draft.code, {**words, "F": name}) for draft, name in zip(drafts, names, strict=False)]
    heads = [part.partition("\n")[0].removeprefix("def ").rstrip(":") for part in parts]
    keys = [f"{name}:{draft.key}" for name, draft in zip(families, drafts, strict=True)]
    says = [_rename(draft.says, words) for draft in drafts]
    if not chained:
        return Program(keys[-1], "\n\n".join(parts), last, says[-1], heads[-1], drafts[-1].takes, tuple(families))
    signature = heads[0].partition("(")[2].rstrip(")")
    inner = signature
    for name in names[:-1]:
        inner = f"{name}({inner})"
    head = f"{last}({signature})"
    text = "\n\n".join([*parts, f"def {head}:\n    return {inner}\n"])
    told = [f"{call} is {meaning}" for call, meaning in zip(heads, says, strict=True)]
    integer = f"{inner}, where {'; '.join(told)}"
    return Program("|".join([*keys, "chain"]), text, last, integer, head, drafts[0].takes, tuple(families))


def _rename(text: str, words: dict[str, str]) -> str:
    """Replace the single capital letters of a draft by names."""
    return _CAPITAL.sub(lambda match: words.get(match.group(), match.group()), text)


def _stub(program: Program) -> str:
    """Return the program with an empty last function."""
    lines = program.text.splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if line.startswith("def "))
    return "".join(lines[: last + 1]) + "    pass\n"


def _broken(program: Program, level: CodeLevel, rng: Random) -> str:
    """Return the program with mistakes on different lines; "" if there are too few places for them."""
    text, lines = program.text, set[int]()
    for _ in range(rng.randint(*level.bugs)):
        usable = [
            candidate
            for candidate in mutants(text)
            if candidate.line not in lines and candidate.kind in KINDS[: level.kinds]
        ]
        if not usable:
            return ""
        # Every kind of mistake is equally likely, however many places there are for it.
        kind = rng.choice(sorted({candidate.kind for candidate in usable}))
        mutant: Mutant = rng.choice([candidate for candidate in usable if candidate.kind == kind])
        lines.add(mutant.line)
        text = mutant.text
    return text


def _inputs(program: Program, rng: Random) -> list[tuple[object, ...]]:
    inputs = {}
    for _ in range(_INPUTS):
        value = tuple(draw_argument(kind, rng) for kind in program.takes)
        inputs[repr(value)] = value
    return list(inputs.values())


def _choose_tests(level: CodeLevel, failing: list[int], total: int, rng: Random) -> tuple[list[int], list[int]] | None:
    """Choose the inputs of the visible and of the hidden tests; None if there are too few.

    Args:
        level: how many tests, and whether a visible one has to fail at the start.
        failing: inputs on which the start fails. At least one becomes a hidden test, and two or more if there are any.
        total: number of inputs.
        rng: source of randomness.
    """
    visible, hidden = rng.randint(*level.visible), rng.randint(*level.hidden)
    shown = rng.random() < level.shown
    if len(failing) < (2 if shown else 1) or total < visible + hidden:
        return None
    failing = rng.sample(failing, len(failing))
    passing = [number for number in range(total) if number not in set(failing)]
    passing = rng.sample(passing, len(passing))
    if not shown and len(passing) < visible:
        return None
    seen = [failing.pop()] if shown else []
    deciding = [failing.pop() for _ in range(min(len(failing), max(2, hidden // 2)))]
    pool = passing if not shown else rng.sample(passing + failing, len(passing) + len(failing))
    seen += [pool.pop() for _ in range(min(visible - len(seen), len(pool)))]
    pool += [] if shown else failing
    deciding += [pool.pop() for _ in range(min(hidden - len(deciding), len(pool)))]
    if len(seen) < visible or len(deciding) < hidden:
        return None
    return rng.sample(seen, len(seen)), rng.sample(deciding, len(deciding))


class _TooLong(Exception):
    """A generated program, or one of its mutants, did not terminate."""


class _CountTicks(ast.NodeTransformer):
    """Inserts a call of `_tick` into every loop and function."""

    def visit(self, node: ast.AST) -> ast.AST:
        """Insert the call as the first statement of a body that may run forever."""
        self.generic_visit(node)
        if isinstance(node, ast.For | ast.While | ast.FunctionDef):
            tick = ast.Expr(ast.Call(ast.Name("_tick", ast.Load()), [], []))
            node.body.insert(0, ast.copy_location(tick, node.body[0]))
        return node


def _outcomes(text: str, name: str, inputs: list[tuple[Any, ...]]) -> list[Outcome] | None:
    """Return the outcome of a generated program on each input; None if it does not terminate on one of them."""
    left = 0

    def tick() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise _TooLong

    space: dict[str, Any] = {"_tick": tick}
    tree = ast.parse(text)
    _CountTicks().visit(tree)
    ast.fix_missing_locations(tree)
    left = _TICKS
    exec(compile(tree, "<generated>", "exec"), space)
    function: Callable[..., Any] = space[name]
    results: list[Outcome] = []
    for arguments in inputs:
        left = _TICKS
        copied = ast.literal_eval(repr(arguments))  # a mistake may change its arguments
        try:
            results.append(("returned", function(*copied)))
        except (_TooLong, RecursionError, MemoryError):
            return None
        except Exception:
            results.append(("raised", ""))
    return results


def _differ(first: Outcome, two: Outcome) -> bool:
    return first[0] != two[0] or bool(first[1] != two[1])
