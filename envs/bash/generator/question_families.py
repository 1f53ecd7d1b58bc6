"""Families that ask a question about files: counting lines and words, reading a log, adding up a column."""

from __future__ import annotations

from collections import Counter

from turncredit.envs.bash.generator.builder import CITIES, ENDINGS, TaskBuilder, TaskDraft

__all__ = ["count", "log", "sum_"]

_KEEP = "Change no file."


def count(build: TaskBuilder) -> TaskDraft:
    """Count lines, words or files."""
    ending, *others = build.some(ENDINGS, 4)
    top, variant = build.top, build.variant(("lines with", "files", "lines", "words", "files with"))
    word = build.word()
    paths = build.scatter(ending, needed=[f"{build.word()} {word}", word])
    build.distract(others, [word])
    find = f"find {top} -type f -name '*{ending}'"
    lines = [line for path in paths for line in build.text(path).splitlines()]
    where = f"files below {top} whose names end in {ending}"
    if variant == "lines with":
        asked = f"How many lines of the {where} contain the word {word}?"
        return _answer(asked, f"{find} -exec cat {{}} + | grep -c '{word}'", sum(word in line for line in lines))
    if variant == "files":
        return _answer(f"How many {where} are there?", f"{find} | wc -l", len(paths))
    if variant == "lines":
        return _answer(f"How many lines have the {where} in all?", f"{find} -exec cat {{}} + | wc -l", len(lines))
    if variant == "words":
        words = sum(len(line.split()) for line in lines)
        return _answer(f"How many words have the {where} in all?", f"{find} -exec cat {{}} + | wc -w", words)
    asked = f"How many of the {where} contain the word {word}?"
    number = sum(word in build.text(path) for path in paths)
    return _answer(asked, f"{find} -exec grep -l '{word}' {{}} + | wc -l", number)


def log(build: TaskBuilder) -> TaskDraft:
    """Read a log: the most frequent address, the number of requests by status, the slowest request."""
    variant = build.variant(("most", "statuses", "slowest"))
    path = f"{build.place()}/access.log"
    addresses = [f"10.0.{build.between(0, 9)}.{number}" for number in range(1, 3 + build.count())]
    size = 3 * build.between(*build.level.lines)
    times = sorted(build.between(0, 86399) for _ in range(size))
    spent = build.some(range(3, 900 + size), size)
    rows = [
        (
            f"{time // 3600:02}:{time // 60 % 60:02}:{time % 60:02}",
            build.one(addresses),
            build.one(("200", "200", "200", "301", "404", "500")),
            f"/{build.word()}",
            str(duration),
        )
        for time, duration in zip(times, spent, strict=True)
    ]
    counts = Counter(row[1] for row in rows)
    best = counts.most_common(1)[0][0]
    rows += [(rows[-1][0], best, "200", "/", str(2000 + number)) for number in range(2)]  # so no tie
    build.add(path, [" ".join(row) for row in rows])
    build.add(f"{build.top}/access.log.old", [" ".join(row) for row in build.some(rows, size // 2)])
    build.distract((".txt", ".md"))
    form = f"Each line of {path} holds time, address, status, page and milliseconds of a request."
    if variant == "most":
        command = f"awk '{{print $2}}' {path} | sort | uniq -c | sort -rn | head -n 1"
        return _answer(f"{form} Which address made the most requests?", command, best)
    if variant == "slowest":
        slow = [row for row in rows if row[2] != "200"] or rows
        chosen = "whose status is not 200" if slow is not rows else "in it"
        command = f"awk '{'$3 != 200 ' if slow is not rows else ''}{{print $5, $4}}' {path} | sort -rn | head -n 1"
        page = max(slow, key=lambda row: int(row[4]))[3]
        return _answer(f"{form} Which page had the slowest request {chosen}?", command, page)
    lines = [f"{status} {number}" for status, number in sorted(Counter(row[2] for row in rows).items())]
    made = f"{build.top}/statuses.txt"
    asked = (
        f"{form} Write to {made} each status and how often it occurs, such as '200 7', one a line, sorted by status."
    )
    command = f"awk '{{n[$3]++}} END {{for (s in n) print s, n[s]}}' {path} | sort > {made}"
    return TaskDraft.of_lines(asked, made, lines, command)


def sum_(build: TaskBuilder) -> TaskDraft:
    """Compute the sum or maximum of a column."""
    variant = build.variant(("city", "all", "largest"))
    city, *others = build.some(CITIES, 4)
    total, largest, paths = 0, 0, []
    most = build.level.lines[1] * build.level.files[1]
    numbers = build.some(range(1, 5000 + most), most)
    for number in range(build.count()):
        rows = []
        for line in range(build.between(*build.level.lines)):
            where = city if not number and not line else build.one([city, *others])
            amount = numbers.pop()
            rows.append(f"{build.person()},{where},{amount}")
            total += amount * (where == city or variant == "all")
            largest = max(largest, amount * (where == city))
        paths.append(build.add(f"{build.place()}/{build.name()}.csv", ["name,city,amount", *rows]))
    build.distract((".bak", ".tsv"), [f"Old,{city},{build.between(1, 99)}"])
    find = f"find {build.top} -name '*.csv' -exec cat {{}} +"
    form = (
        f"The files below {build.top} whose names end in .csv have a line of heads and the columns name, city, amount."
    )
    if variant == "all":
        command = f"{find} | awk -F, '$3 != \"amount\" {{s += $3}} END {{print s}}'"
        return _answer(f"{form} What is the sum of all amounts?", command, total)
    if variant == "largest":
        command = f"{find} | awk -F, '$2 == \"{city}\" {{print $3}}' | sort -n | tail -n 1"
        return _answer(f"{form} What is the largest amount of the city {city}?", command, largest)
    command = f"{find} | awk -F, '$2 == \"{city}\" {{s += $3}} END {{print s}}'"
    return _answer(f"{form} What is the sum of the amounts of the city {city}?", command, total)


def _answer(asked: str, command: str, answer: object) -> TaskDraft:
    return TaskDraft(f"{asked} {_KEEP}", (command,), answer=str(answer))
