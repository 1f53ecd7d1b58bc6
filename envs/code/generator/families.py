"""The families of programs: each draws a function with a statement in words and arguments to try it on.

A family is a function that is given a source of chance and returns a `Draft`. In a draft's code the function is called
`F` and its arguments and variables are words in capitals, which get their names later. Loops are bounded by what they
are given, so that no mistake in one makes numbers explode.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from turnwise.envs.code.generator import texts
from turnwise.envs.code.generator.draft import FunctionDraft

__all__ = ["FAMILIES"]


def arithmetic(rng: Random) -> FunctionDraft:
    """Draw a program for a sum, difference or product."""
    sign, word = rng.choice((("+", "plus"), ("-", "minus"), ("*", "times")))
    k = rng.randint(1, 9)
    if rng.random() < 0.5:
        return FunctionDraft(f"{sign}{k}", f"A {word} {k}", f"def F(A):\n    return A {sign} {k}\n", ("int",), "int")
    return FunctionDraft(
        f"{sign}B{k}",
        f"A {word} B, plus {k}",
        f"def F(A, B):\n    C = A {sign} B\n    return C + {k}\n",
        ("int", "int"),
        "int",
    )


def larger(rng: Random) -> FunctionDraft:
    """Draw a program for the larger or smaller of two numbers."""
    sign, word = rng.choice(((">", "larger"), ("<", "smaller")))
    k = rng.choice((0, 0, 1, 2, 5))
    code = f"def F(A, B):\n    if A {sign} B:\n        return A\n    return B{f' + {k}' if k else ''}\n"
    says = f"A if it is {word} than B, else B{f' plus {k}' if k else ''}"
    return FunctionDraft(f"{sign}{k}", says, code, ("int", "int"), "int")


def distance(rng: Random) -> FunctionDraft:
    """Draw a program for the distance of two numbers."""
    k = rng.randint(1, 5)
    code = f"def F(A, B):\n    C = A - B\n    if C < 0:\n        C = -C\n    return C * {k}\n"
    return FunctionDraft(str(k), f"{k} times the distance of A and B", code, ("int", "int"), "int")


def divides(rng: Random) -> FunctionDraft:
    """Draw a program for whether a number is a multiple of another."""
    k = rng.randint(2, 7)
    yes, no = rng.choice((("True", "False"), ("1", "0"), ("'yes'", "'no'")))
    code = f"def F(A):\n    if A % {k} == 0:\n        return {yes}\n    return {no}\n"
    return FunctionDraft(f"{k}{yes}", f"{yes} if A is a multiple of {k}, else {no}", code, ("int",))


def clamp(rng: Random) -> FunctionDraft:
    """Draw a program for a number kept between two bounds."""
    low = rng.randint(-5, 0)
    high = rng.randint(2, 6)
    code = (
        f"def F(A):\n    if A < {low}:\n        return {low}\n    if A > {high}:\n        return {high}\n    return A\n"
    )
    return FunctionDraft(f"{low},{high}", f"A, but at least {low} and at most {high}", code, ("int",), "int")


def summing(rng: Random) -> FunctionDraft:
    """Draw a program for the sum of some numbers."""
    k = rng.randint(0, 5)
    test, word = rng.choice(
        (("", ""), (f"B > {k}", f" above {k}"), (f"B < {k}", f" below {k}"), ("B % 2 == 0", " that are even"))
    )
    inner = f"        if {test}:\n            S += B\n" if test else "        S += B\n"
    code = f"def F(L):\n    S = {k}\n    for B in L:\n{inner}    return S\n"
    return FunctionDraft(f"{test}{k}", f"{k} plus the sum of the numbers of L{word}", code, ("ints",), "int")


def counting(rng: Random) -> FunctionDraft:
    """Draw a program for how many numbers meet a bound."""
    k = rng.randint(-2, 4)
    sign, word = rng.choice(((">", "above"), ("<", "below"), ("==", "equal to"), (">=", "at least")))
    code = f"def F(L):\n    C = 0\n    for B in L:\n        if B {sign} {k}:\n            C += 1\n    return C\n"
    return FunctionDraft(f"{sign}{k}", f"how many numbers of L are {word} {k}", code, ("ints",), "int")


def mapping(rng: Random) -> FunctionDraft:
    """Draw a program for every number changed alike."""
    sign, word = rng.choice((("*", "times"), ("+", "plus"), ("-", "minus")))
    k = rng.randint(2, 6)
    if rng.random() < 0.5:
        code = f"def F(L):\n    return [B {sign} {k} for B in L]\n"
    else:
        code = f"def F(L):\n    R = []\n    for B in L:\n        R.append(B {sign} {k})\n    return R\n"
    return FunctionDraft(
        f"{sign}{k}{len(code) > 50}", f"every number of L {word} {k}, as a list", code, ("ints",), "ints"
    )


def filtering(rng: Random) -> FunctionDraft:
    """Draw a program for the numbers that meet a bound."""
    k = rng.randint(-3, 4)
    sign, word = rng.choice(((">", "above"), ("<", "below"), (">=", "at least"), ("!=", "not")))
    code = f"def F(L):\n    R = []\n    for B in L:\n        if B {sign} {k}:\n            R.append(B)\n    return R\n"
    return FunctionDraft(f"{sign}{k}", f"the numbers of L that are {word} {k}, as a list", code, ("ints",), "ints")


def extreme(rng: Random) -> FunctionDraft:
    """Draw a program for the largest or smallest number."""
    sign, word = rng.choice(((">", "largest"), ("<", "smallest")))
    k = rng.randint(0, 4)
    tail = f" + {k}" if k else ""
    code = f"def F(L):\n    M = L[0]\n    for B in L:\n        if B {sign} M:\n            M = B\n    return M{tail}\n"
    return FunctionDraft(f"{sign}{k}", f"the {word} number of L{f' plus {k}' if k else ''}", code, ("some",), "int")


def digits(rng: Random) -> FunctionDraft:
    """Draw a program for the sum of digits."""
    k = rng.randint(0, 3)
    code = f"def F(A):\n    S = {k}\n    while A > 0:\n        S += A % 10\n        A = A // 10\n    return S\n"
    return FunctionDraft(
        str(k), f"{k} plus the sum of the digits of A" if k else "the sum of the digits of A", code, ("number",), "int"
    )


def factorial(rng: Random) -> FunctionDraft:
    """Draw a program for a product or sum down to nothing, by recursion."""
    k = rng.randint(1, 4)
    sign, word = rng.choice((("*", "product"), ("+", "sum")))
    first = 1 if sign == "*" else 0
    code = f"def F(A):\n    if A == 0:\n        return {first + k - 1}\n    return A {sign} F(A - 1)\n"
    says = f"the {word} of {first + k - 1} and of the numbers from 1 to A"
    return FunctionDraft(f"{sign}{k}", says, code, ("count",))


def stairs(rng: Random) -> FunctionDraft:
    """Draw a program for a row whose members are sums of the two before, by recursion."""
    a, b = rng.randint(0, 2), rng.randint(1, 3)
    code = (
        f"def F(A):\n    if A == 0:\n        return {a}\n    if A == 1:\n        return {b}\n"
        f"    return F(A - 1) + F(A - 2)\n"
    )
    return FunctionDraft(
        f"{a},{b}", f"number A of the row {a}, {b}, ... where each is the sum of the two before it", code, ("count",)
    )


def power(rng: Random) -> FunctionDraft:
    """Draw a program for a power."""
    k = rng.randint(1, 3)
    code = f"def F(A, B):\n    P = {k}\n    for C in range(B):\n        P = P * A\n    return P\n"
    return FunctionDraft(str(k), f"{k} times A to the power of B", code, ("int", "count"))


def divisors(rng: Random) -> FunctionDraft:
    """Draw a program for the divisors of a number."""
    k = rng.randint(1, 3)
    code = (
        f"def F(A):\n    R = []\n    for B in range({k}, A + 1):\n        if A % B == 0:\n"
        f"            R.append(B)\n    return R\n"
    )
    return FunctionDraft(str(k), f"the divisors of A from {k} on, as a list", code, ("positive",), "ints")


def prime(rng: Random) -> FunctionDraft:
    """Draw a program for whether a number is a prime."""
    yes, no = rng.choice((("True", "False"), ("False", "True"), ("1", "0")))
    code = (
        f"def F(A):\n    if A < 2:\n        return {no}\n    for B in range(2, A):\n"
        f"        if A % B == 0:\n            return {no}\n    return {yes}\n"
    )
    return FunctionDraft(yes, f"{yes} if A is a prime, else {no}", code, ("positive",))


def gcd(rng: Random) -> FunctionDraft:
    """Draw a program for the greatest common divisor."""
    k = rng.randint(0, 4)
    code = f"def F(A, B):\n    while B > 0:\n        A, B = B, A % B\n    return A + {k}\n"
    return FunctionDraft(
        str(k), f"the greatest common divisor of A and B, plus {k}", code, ("positive", "positive"), "int"
    )


def running(rng: Random) -> FunctionDraft:
    """Draw a program for running sums."""
    k = rng.randint(0, 4)
    code = f"def F(L):\n    R = []\n    S = {k}\n    for B in L:\n        S += B\n        R.append(S)\n    return R\n"
    return FunctionDraft(
        str(k), f"a list of {k} plus the first number of L, plus the first two, and so on", code, ("ints",), "ints"
    )


def unique(rng: Random) -> FunctionDraft:
    """Draw a program for each number once."""
    back = rng.choice(("", "[::-1]"))
    code = (
        f"def F(L):\n    R = []\n    for B in L:\n        if B not in R:\n            R.append(B)\n    return R{back}\n"
    )
    return FunctionDraft(
        back, f"what L holds, each once, in {'the reverse of ' if back else ''}its order", code, ("ints",), "ints"
    )


def neighbours(rng: Random) -> FunctionDraft:
    """Draw a program for each number and the one before, combined."""
    sign, word = rng.choice((("-", "less"), ("+", "plus"), ("*", "times")))
    code = (
        f"def F(L):\n    R = []\n    for I in range(1, len(L)):\n        R.append(L[I] {sign} L[I - 1])\n    return R\n"
    )
    return FunctionDraft(sign, f"for each number of L but the first: it {word} the one before", code, ("ints",), "ints")


def pairing(rng: Random) -> FunctionDraft:
    """Draw a program for how many pairs have a sum."""
    k = rng.randint(-3, 6)
    code = (
        "def F(L):\n    C = 0\n    for I in range(len(L)):\n        for J in range(I + 1, len(L)):\n"
        f"            if L[I] + L[J] == {k}:\n                C += 1\n    return C\n"
    )
    return FunctionDraft(
        str(k), f"how many pairs of places in L hold numbers that add up to {k}", code, ("ints",), "int"
    )


def columns(rng: Random) -> FunctionDraft:
    """Draw a program for the sum of a column."""
    k = rng.randint(0, 2)
    code = f"def F(M):\n    S = 0\n    for B in M:\n        S += B[{k}]\n    return S\n"
    return FunctionDraft(
        str(k), f"the sum of column {k} of the table M (columns are counted from 0)", code, ("rows",), "int"
    )


def diagonal(rng: Random) -> FunctionDraft:
    """Draw a program for the sum of a diagonal."""
    k = rng.randint(0, 5)
    code = f"def F(M):\n    S = {k}\n    for I in range(len(M)):\n        S += M[I][I]\n    return S\n"
    return FunctionDraft(str(k), f"{k} plus the sum of the diagonal of the table M", code, ("rows",), "int")


def transpose(rng: Random) -> FunctionDraft:
    """Draw a program for a table turned."""
    k = rng.randint(0, 3)
    code = (
        "def F(M):\n    R = []\n    for J in range(3):\n        C = []\n        for B in M:\n"
        f"            C.append(B[J] + {k})\n        R.append(C)\n    return R\n"
    )
    return FunctionDraft(str(k), f"the columns of the table M as rows, every number plus {k}", code, ("rows",))


def depth(rng: Random) -> FunctionDraft:
    """Draw a program for how deep lists lie in each other, by recursion."""
    k = rng.randint(0, 2)
    code = (
        f"def F(T):\n    M = {k}\n    for B in T:\n        if isinstance(B, list):\n"
        f"            M = max(M, F(B))\n    return M + 1\n"
    )
    return FunctionDraft(str(k), f"how deep the lists in T lie within each other, plus {k}", code, ("tree",), "int")


def flat(rng: Random) -> FunctionDraft:
    """Draw a program for the sum of nested lists, by recursion."""
    k = rng.randint(1, 4)
    code = (
        "def F(T):\n    S = 0\n    for B in T:\n        if isinstance(B, list):\n            S += F(B)\n"
        f"        else:\n            S += B * {k}\n    return S\n"
    )
    return FunctionDraft(
        str(k), f"{k} times the sum of the numbers in T and in the lists in it", code, ("tree",), "int"
    )


def search(rng: Random) -> FunctionDraft:
    """Draw a program for the place of the first number above a bound."""
    k = rng.randint(-5, 5)
    code = f"def F(L):\n    for I in range(len(L)):\n        if L[I] > {k}:\n            return I\n    return -1\n"
    return FunctionDraft(
        str(k), f"the place of the first number of L above {k}, -1 if there is none", code, ("ints",), "int"
    )


FAMILIES: Final[dict[str, Callable[[Random], FunctionDraft]]] = {
    function.__name__: function
    for function in (
        *(
            arithmetic,
            larger,
            divides,
            clamp,
            distance,
            mapping,
            texts.turned,
            summing,
            counting,
            filtering,
            texts.letters,
            extreme,
        ),
        *(
            texts.joining,
            texts.lengths,
            texts.tally,
            texts.lookup,
            texts.skipping,
            columns,
            diagonal,
            search,
            power,
            factorial,
            stairs,
            texts.initials,
        ),
        *(
            texts.vowels,
            texts.longest,
            texts.keys,
            digits,
            divisors,
            prime,
            gcd,
            texts.palindrome,
            running,
            unique,
            neighbours,
            texts.titles,
            texts.shift,
        ),
        *(texts.squeeze, texts.merge, depth, flat, texts.balance, pairing, transpose),
    )
}
"""All families by name, the easier ones first."""
