"""Families of programs about texts, words and dicts; see `families` for how their code is written."""

from __future__ import annotations

from random import Random

from turnwise.envs.code.generator.draft import LETTERS, WORDS, FunctionDraft


def letters(rng: Random) -> FunctionDraft:
    """Draw a program for points for a letter in a text."""
    letter = rng.choice(LETTERS)
    k = rng.randint(1, 3)
    code = f"def F(S):\n    C = 0\n    for B in S:\n        if B == '{letter}':\n            C += {k}\n    return C\n"
    return FunctionDraft(f"{letter}{k}", f"{k} for every '{letter}' in the text S", code, ("text",), "int")


def turned(rng: Random) -> FunctionDraft:
    """Draw a program for a text turned round, in capitals, or rotated."""
    mark = rng.choice(("!", "-", "?", "."))
    code, says = rng.choice(
        (
            (f"def F(S):\n    R = S[::-1]\n    return R + '{mark}'\n", f"the text S backwards, then '{mark}'"),
            (f"def F(S):\n    R = S.upper()\n    return '{mark}' + R\n", f"'{mark}', then the text S in capitals"),
            (
                f"def F(S):\n    R = S[1:]\n    return R + S[:1] + '{mark}'\n",
                f"S with its first letter at the end, then '{mark}'",
            ),
        )
    )
    return FunctionDraft(f"{mark}{says[:9]}", says, code, ("text",), "text")


def skipping(rng: Random) -> FunctionDraft:
    """Draw a program for a text without a letter, the others repeated."""
    k = rng.randint(2, 3)
    letter = rng.choice(LETTERS)
    code = (
        f"def F(S):\n    R = ''\n    for B in S:\n        if B != '{letter}':\n            R += B * {k}\n    return R\n"
    )
    return FunctionDraft(
        f"{k}{letter}", f"the text S without '{letter}', every other letter {k} times", code, ("text",), "text"
    )


def vowels(rng: Random) -> FunctionDraft:
    """Draw a program for the letters of a group, less the others."""
    group, word = rng.choice((("ae", "a or e"), ("bcd", "b, c or d"), ("ab", "a or b")))
    code = (
        f"def F(S):\n    C = 0\n    for B in S:\n        if B in '{group}':\n            C += 1\n"
        f"        else:\n            C -= 1\n    return C\n"
    )
    return FunctionDraft(group, f"the letters of S that are {word}, less the others", code, ("text",), "int")


def longest(rng: Random) -> FunctionDraft:
    """Draw a program for the longest or shortest word."""
    sign, word = rng.choice(((">", "longest"), ("<", "shortest")))
    code = (
        f"def F(L):\n    M = L[0] if L else ''\n    for B in L:\n        if len(B) {sign} len(M):\n"
        f"            M = B\n    return M\n"
    )
    return FunctionDraft(sign, f"the first of the {word} words of L, '' if L is empty", code, ("words",), "text")


def joining(rng: Random) -> FunctionDraft:
    """Draw a program for the long words, joined."""
    mark = rng.choice(("-", ", ", "/", " "))
    k = rng.randint(3, 4)
    code = f"def F(L):\n    R = [B for B in L if len(B) > {k}]\n    return '{mark}'.join(R)\n"
    return FunctionDraft(
        f"{mark}{k}", f"the words of L with more than {k} letters, joined by '{mark}'", code, ("words",), "text"
    )


def lengths(rng: Random) -> FunctionDraft:
    """Draw a program for the lengths of words."""
    k = rng.randint(0, 3)
    code = f"def F(L):\n    D = {{}}\n    for B in L:\n        D[B] = len(B) + {k}\n    return D\n"
    return FunctionDraft(
        str(k), f"a dict of each word of L to its length{f' plus {k}' if k else ''}", code, ("words",), "counts"
    )


def tally(rng: Random) -> FunctionDraft:
    """Draw a program for how often each word is there."""
    k = rng.randint(1, 4)
    code = f"def F(L):\n    D = {{}}\n    for B in L:\n        D[B] = D.get(B, 0) + {k}\n    return D\n"
    return FunctionDraft(
        str(k), f"a dict of each word of L to {k} for every time that it is there", code, ("words",), "counts"
    )


def lookup(rng: Random) -> FunctionDraft:
    """Draw a program for what a dict has for a word."""
    k = rng.randint(-2, 3)
    word = rng.choice(WORDS[:6])
    code = f"def F(D):\n    if '{word}' in D:\n        return D['{word}'] + {abs(k)}\n    return {k}\n"
    return FunctionDraft(
        f"{word}{k}",
        f"what the dict D has for '{word}' plus {abs(k)}, or {k} if it has nothing",
        code,
        ("counts",),
        "int",
    )


def keys(rng: Random) -> FunctionDraft:
    """Draw a program for the keys of a dict whose values meet a bound."""
    k = rng.randint(1, 7)
    sign, word = rng.choice(((">", "above"), ("<=", "at most")))
    code = (
        f"def F(D):\n    R = []\n    for B, C in D.items():\n        if C {sign} {k}:\n"
        f"            R.append(B)\n    return sorted(R)\n"
    )
    return FunctionDraft(f"{sign}{k}", f"the keys of D whose value is {word} {k}, sorted", code, ("counts",), "words")


def palindrome(rng: Random) -> FunctionDraft:
    """Draw a program for whether a text is the same backwards."""
    yes, no = rng.choice((("True", "False"), ("'yes'", "'no'"), ("1", "0")))
    code = (
        f"def F(S):\n    for I in range(len(S) // 2):\n        if S[I] != S[len(S) - 1 - I]:\n"
        f"            return {no}\n    return {yes}\n"
    )
    return FunctionDraft(yes, f"{yes} if S is the same backwards, else {no}", code, ("text",))


def balance(rng: Random) -> FunctionDraft:
    """Draw a program for brackets that match, or that are open."""
    head = "def F(S):\n    C = 0\n"
    count = "        if B == '(':\n            C += 1\n        else:\n            C -= 1\n"
    if rng.random() < 0.5:
        code = f"{head}    for B in S:\n{count}        if C < 0:\n            return False\n    return C == 0\n"
        return FunctionDraft("match", "True if the brackets in S match, else False", code, ("marks",))
    code = f"{head}    M = 0\n    for B in S:\n{count}        M = max(M, C)\n    return M\n"
    return FunctionDraft("open", "the most brackets in S that are open at once", code, ("marks",))


def titles(rng: Random) -> FunctionDraft:
    """Draw a program for words with capitals."""
    k = rng.randint(1, 2)
    code = (
        f"def F(S):\n    R = []\n    for B in S.split():\n        R.append(B[:{k}].upper() + B[{k}:])\n"
        f"    return ' '.join(R)\n"
    )
    return FunctionDraft(str(k), f"the words of S, the first {k} letters of each in capitals", code, ("line",), "text")


def initials(rng: Random) -> FunctionDraft:
    """Draw a program for the first letters of words."""
    mark = rng.choice((".", "-", ""))
    code = f"def F(S):\n    R = ''\n    for B in S.split():\n        R += B[0] + '{mark}'\n    return R\n"
    says = f"the first letters of the words of S{f', each with a {mark!r} behind it' if mark else ''}"
    return FunctionDraft(mark, says, code, ("line",), "text")


def shift(rng: Random) -> FunctionDraft:
    """Draw a program for letters moved on in the alphabet."""
    k = rng.randint(1, 4)
    code = (
        "def F(S):\n    R = ''\n    for B in S:\n"
        f"        N = (ord(B) - ord('a') + {k}) % 26\n        R += chr(N + ord('a'))\n    return R\n"
    )
    return FunctionDraft(str(k), f"the text S with every letter moved {k} on in the alphabet", code, ("text",), "text")


def squeeze(rng: Random) -> FunctionDraft:
    """Draw a program for runs of letters cut to one."""
    mark = rng.choice(("", "-"))
    code = (
        "def F(S):\n    R = S[:1]\n    for I in range(1, len(S)):\n        if S[I] != S[I - 1]:\n"
        f"            R += {f'{mark!r} + ' if mark else ''}S[I]\n    return R\n"
    )
    says = f"the text S with runs of a letter cut to one{' and - between the runs' if mark else ''}"
    return FunctionDraft(mark, says, code, ("text",), "text")


def merge(rng: Random) -> FunctionDraft:
    """Draw a program for two dicts made one."""
    word, value = rng.choice((("added", "R.get(B, 0) + E[B]"), ("the larger", "max(R.get(B, 0), E[B])")))
    code = f"def F(D, E):\n    R = dict(D)\n    for B in E:\n        R[B] = {value}\n    return R\n"
    return FunctionDraft(
        word, f"one dict of D and E; where both have a key: {word}", code, ("counts", "counts"), "counts"
    )
