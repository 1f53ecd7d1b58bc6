"""Families that ask a question about the files: counting, logs, sums."""

from __future__ import annotations

from collections import Counter

from turnwise.envs.bash.generator.builder import TaskBuilder
from turnwise.envs.bash.generator.draft import TaskDraft
from turnwise.envs.bash.generator.words import CITIES

__all__ = ["count", "log", "sum_"]

_ENDINGS = (".txt", ".log", ".md", ".note")
_KEEP = "Change no file."


def count(scene: TaskBuilder) -> TaskDraft:
    """How many lines, words or files."""
    ending, *others = scene.some(_ENDINGS, 4)
    top, what = scene.top, scene.variant(("lines with", "files", "lines", "words", "files with"))
    word = scene.word()
    paths = scene.scatter(ending, needed=[f"{scene.word()} {word}", word])
    scene.distract(others, [word])
    find = f"find {top} -type f -name '*{ending}'"
    lines = [line for path in paths for line in scene.text(path).splitlines()]
    where = f"files below {top} whose names end in {ending}"
    if what == "lines with":
        asked = f"How many lines of the {where} contain the word {word}?"
        return _answer(asked, f"{find} -exec cat {{}} + | grep -c '{word}'", sum(word in line for line in lines))
    if what == "files":
        return _answer(f"How many {where} are there?", f"{find} | wc -l", len(paths))
    if what == "lines":
        return _answer(f"How many lines have the {where} in all?", f"{find} -exec cat {{}} + | wc -l", len(lines))
    if what == "words":
        words = sum(len(line.split()) for line in lines)
        return _answer(f"How many words have the {where} in all?", f"{find} -exec cat {{}} + | wc -w", words)
    asked = f"How many of the {where} contain the word {word}?"
    number = sum(word in scene.text(path) for path in paths)
    return _answer(asked, f"{find} -exec grep -l '{word}' {{}} + | wc -l", number)


def log(scene: TaskBuilder) -> TaskDraft:
    """What a log tells: the most frequent address, a count for each status, the first error."""
    what = scene.variant(("most", "statuses", "slowest"))
    path = f"{scene.place()}/access.log"
    addresses = [f"10.0.{scene.between(0, 9)}.{number}" for number in range(1, 3 + scene.count())]
    size = 3 * scene.between(*scene.level.lines)
    times = sorted(scene.between(0, 86399) for _ in range(size))
    spent = scene.some(range(3, 900 + size), size)
    rows = [
        (
            f"{time // 3600:02}:{time // 60 % 60:02}:{time % 60:02}",
            scene.one(addresses),
            scene.one(("200", "200", "200", "301", "404", "500")),
            f"/{scene.word()}",
            str(duration),
        )
        for time, duration in zip(times, spent, strict=True)
    ]
    counts = Counter(row[1] for row in rows)
    best = counts.most_common(1)[0][0]
    rows += [(rows[-1][0], best, "200", "/", str(2000 + number)) for number in range(2)]  # so that no other is as many
    scene.add(path, [" ".join(row) for row in rows])
    scene.add(f"{scene.top}/access.log.old", [" ".join(row) for row in scene.some(rows, size // 2)])
    scene.distract((".txt", ".md"))
    form = f"Each line of {path} holds time, address, status, page and milliseconds of a request."
    if what == "most":
        command = f"awk '{{print $2}}' {path} | sort | uniq -c | sort -rn | head -n 1"
        return _answer(f"{form} Which address made the most requests?", command, best)
    if what == "slowest":
        slow = [row for row in rows if row[2] != "200"] or rows
        chosen = "whose status is not 200" if slow is not rows else "in it"
        command = f"awk '{'$3 != 200 ' if slow is not rows else ''}{{print $5, $4}}' {path} | sort -rn | head -n 1"
        page = max(slow, key=lambda row: int(row[4]))[3]
        return _answer(f"{form} Which page had the slowest request {chosen}?", command, page)
    lines = [f"{status} {number}" for status, number in sorted(Counter(row[2] for row in rows).items())]
    made = f"{scene.top}/statuses.txt"
    asked = (
        f"{form} Write to {made} each status and how often it occurs, such as '200 7', one a line, sorted by status."
    )
    command = f"awk '{{n[$3]++}} END {{for (s in n) print s, n[s]}}' {path} | sort > {made}"
    return TaskDraft.of_lines(asked, made, lines, command)


def sum_(scene: TaskBuilder) -> TaskDraft:
    """The sum of a column."""
    what = scene.variant(("city", "all", "largest"))
    city, *others = scene.some(CITIES, 4)
    total, largest, paths = 0, 0, []
    most = scene.level.lines[1] * scene.level.files[1]
    numbers = scene.some(range(1, 5000 + most), most)
    for number in range(scene.count()):
        rows = []
        for place in range(scene.between(*scene.level.lines)):
            where = city if not number and not place else scene.one([city, *others])
            amount = numbers.pop()
            rows.append(f"{scene.person()},{where},{amount}")
            total += amount * (where == city or what == "all")
            largest = max(largest, amount * (where == city))
        paths.append(scene.add(f"{scene.place()}/{scene.name()}.csv", ["name,city,amount", *rows]))
    scene.distract((".bak", ".tsv"), [f"Old,{city},{scene.between(1, 99)}"])
    find = f"find {scene.top} -name '*.csv' -exec cat {{}} +"
    form = (
        f"The files below {scene.top} whose names end in .csv have a line of heads and the columns name, city, amount."
    )
    if what == "all":
        command = f"{find} | awk -F, '$3 != \"amount\" {{s += $3}} END {{print s}}'"
        return _answer(f"{form} What is the sum of all amounts?", command, total)
    if what == "largest":
        command = f"{find} | awk -F, '$2 == \"{city}\" {{print $3}}' | sort -n | tail -n 1"
        return _answer(f"{form} What is the largest amount of the city {city}?", command, largest)
    command = f"{find} | awk -F, '$2 == \"{city}\" {{s += $3}} END {{print s}}'"
    return _answer(f"{form} What is the sum of the amounts of the city {city}?", command, total)


def _answer(asked: str, command: str, answer: object) -> TaskDraft:
    return TaskDraft(f"{asked} {_KEEP}", (command,), answer=str(answer))
