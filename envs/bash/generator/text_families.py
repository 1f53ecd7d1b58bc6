"""Families that write or change text: lists of files, merged lists, table columns, replacements, comparisons."""

from __future__ import annotations

from turncredit.envs.bash.filetree import text_file
from turncredit.envs.bash.generator.builder import CITIES, ENDINGS, TaskBuilder, TaskDraft

__all__ = ["columns", "compare", "find", "merge", "replace"]


def find(build: TaskBuilder) -> TaskDraft:
    """List the files with a name, content or size."""
    top, variant = build.top, build.variant(("name", "contents", "size", "empty"))
    ending, *others = build.some(ENDINGS, 4)
    word = build.word()
    paths = build.scatter(ending, needed=[f"{build.word()} {word}"])
    build.distract(others, [word])
    every = sorted(build.files)
    where = "Paths begin with the name of that folder, stand one a line and are sorted by bytes."
    if variant == "name":
        chosen, test, which = sorted(paths), f"-name '*{ending}'", f"whose names end in {ending}"
    elif variant == "contents":
        chosen = [path for path in every if word in build.text(path)]
        test, which = f"-exec grep -q '{word}' {{}} \\; -print", f"that contain the word {word}"
    elif variant == "empty":
        chosen = sorted(build.add(path, "") for path in build.some(every, max(1, len(every) // 3)))
        test, which = "-size 0", "that are empty"
    else:
        sizes = sorted(len(node.data) for node in build.files.values())
        bound = sizes[len(sizes) // 2]
        chosen = [path for path in every if len(build.files[path].data) > bound]
        chosen = chosen or [build.add(f"{top}/{build.name()}.big", "x" * (bound + 1) + "\n")]
        test, which = f"-size +{bound}c", f"of more than {bound} bytes"
    made = "found.txt"
    asked = f"Write the paths of all files below {top} {which} to {made}. {where}"
    return TaskDraft.of_lines(asked, made, chosen, f"find {top} -type f {test} | sort > {made}")


def merge(build: TaskBuilder) -> TaskDraft:
    """Merge several lists into one."""
    top, variant = build.top, build.variant(("once", "sorted", "numbers", "repeated"))
    pool = [build.line() for _ in range(build.level.lines[1] + 2)]
    most = build.level.lines[1] * build.level.files[1]
    numbers = build.some(range(1, 10_000 + most), most)
    lists: list[list[str]] = []
    for _ in range(build.count()):
        size = build.between(*build.level.lines)
        drawn = [str(numbers.pop()) for _ in range(size)] if variant == "numbers" else build.some(pool, size)
        if len(lists) == 1 and variant == "repeated":
            drawn.append(lists[0][0])
        lists.append(drawn)
        build.add(f"{build.place()}/{build.name()}.list", drawn)
    build.distract((".old", ".txt"), pool)
    every = [line for lines in lists for line in lines]
    made, listing = f"{top}/all.txt", f"find {top} -name '*.list' -exec cat {{}} +"
    which = f"the lines of all files below {top} whose names end in .list"
    if variant == "numbers":
        asked = f"Write {which} to {made}: they are numbers, and the largest comes first."
        return TaskDraft.of_lines(asked, made, sorted(every, key=int, reverse=True), f"{listing} | sort -rn > {made}")
    if variant == "sorted":
        asked = f"Write {which} to {made}, sorted by bytes; a line that occurs several times stays so often."
        return TaskDraft.of_lines(asked, made, sorted(every), f"{listing} | sort > {made}")
    if variant == "repeated":
        again = sorted({line for line in every if every.count(line) > 1})
        asked = f"Of {which}, write those that occur more than once to {made}, each once, sorted by bytes."
        return TaskDraft.of_lines(asked, made, again, f"{listing} | sort | uniq -d > {made}")
    asked = f"Write {which} to {made}, each different line once, sorted by bytes."
    return TaskDraft.of_lines(asked, made, sorted(set(every)), f"{listing} | sort -u > {made}")


def columns(build: TaskBuilder) -> TaskDraft:
    """Extract columns and rows of a table."""
    top, variant = build.top, build.variant(("two", "where", "swapped"))
    source, made = f"{build.place()}/people.csv", f"{top}/out.csv"
    cities = build.some(CITIES, 4)
    size = 2 + build.between(*build.level.lines)
    rows = [
        (str(100 + number), build.person(), cities[number] if number < 4 else build.one(cities), build.between(18, 80))
        for number in range(size)
    ]
    build.add(source, ["id,name,city,age", *(",".join(map(str, row)) for row in rows)])
    build.distract((".csv", ".txt"), ["id,name,city,age"])
    form = f"The table {source} has a line of heads and the columns id, name, city, age, separated by commas."
    if variant == "where":
        city = cities[0]
        lines = [f"{row[1]},{row[3]}" for row in rows if row[2] == city]
        asked = f"{form} Write name,age of the people of {city} to {made}, in the same order, without heads."
        command = f'awk -F, \'$3 == "{city}" {{print $2 "," $4}}\' {source} > {made}'
        return TaskDraft.of_lines(asked, made, lines, command)
    if variant == "swapped":
        lines = [f"{row[2]};{row[1]}" for row in rows]
        asked = f"{form} Write city;name of all people to {made}, in the same order, without heads."
        command = f"awk -F, 'NR > 1 {{print $3 \";\" $2}}' {source} > {made}"
        return TaskDraft.of_lines(asked, made, lines, command)
    lines = ["name,city", *(f"{row[1]},{row[2]}" for row in rows)]
    asked = f"{form} Write the columns name and city to {made}, with the heads."
    return TaskDraft.of_lines(asked, made, lines, f"cut -d, -f2,3 {source} > {made}")


def replace(build: TaskBuilder) -> TaskDraft:
    """Replace a word, delete lines or append a line in some of the files."""
    top, variant = build.top, build.variant(("word", "delete", "append"))
    old, new = build.some(("amber7", "port-81", "host_a", "beta2", "key-x", "mode_b", "zone-9"), 2)
    needed = [f"{build.word()} {old}", f"{old} {build.word()} {old}"]
    paths = build.scatter(".conf", needed=needed)
    for path in paths[1:]:
        if build.chance(0.5):
            build.add(path, [*build.text(path).splitlines(), f"{build.word()} {old}"])
    build.distract((".conf.bak", ".txt"), needed)
    which, run = f"all files below {top} whose names end in .conf", f"find {top} -name '*.conf' -exec sed -i"
    made = {}
    for path in paths:
        lines = build.text(path).splitlines()
        if variant == "word":
            lines = [line.replace(old, new) for line in lines]
        elif variant == "delete":
            lines = [line for line in lines if old not in line]
        else:
            lines = [*lines, f"# {new}"]
        made[path] = text_file(lines)
    if variant == "word":
        return TaskDraft(f"In {which}, replace every {old} by {new}.", (f"{run} 's/{old}/{new}/g' {{}} +",), made=made)
    if variant == "delete":
        return TaskDraft(
            f"In {which}, delete every line that contains {old}.", (f"{run} '/{old}/d' {{}} +",), made=made
        )
    loop = f"find {top} -name '*.conf' | while IFS= read -r f; do echo '# {new}' >> \"$f\"; done"
    return TaskDraft(f"Append the line '# {new}' to {which}.", (loop,), made=made)


def compare(build: TaskBuilder) -> TaskDraft:
    """Compare two folders."""
    variant = build.variant(("missing", "differ", "copy"))
    top = build.top
    old, new = f"{top}/old", f"{top}/new"
    missing, differ = [], []
    for number in range(max(3, build.count())):
        name, lines = f"{build.name()}{build.one(ENDINGS)}", build.lines()
        build.add(f"{old}/{name}", lines)
        if number == 0 or (number > 1 and build.chance(0.3)):
            missing.append(name)
        elif number == 1 or build.chance(0.4):
            differ.append(name)
            build.add(f"{new}/{name}", [*lines[:-1], f"{lines[-1]} {build.word()}"])
        else:
            build.add(f"{new}/{name}", lines)
    for _ in range(build.level.distractors):
        build.add(f"{new}/{build.name()}{build.one(ENDINGS)}", build.lines())
    each = f'for f in {old}/*; do n=$(basename "$f");'
    if variant == "copy":
        made = {f"{new}/{name}": build.files[f"{old}/{name}"] for name in missing}
        asked = f"Copy every file of {old} of which {new} has none of that name to {new}."
        return TaskDraft(asked, (f'{each} [ -e "{new}/$n" ] || cp "$f" "{new}/$n"; done',), made=made)
    path = f"{top}/{variant}.txt"
    if variant == "missing":
        asked = (
            f"Write the names of the files of {old} that {new} does not have to {path}, one a line, sorted by bytes."
        )
        return TaskDraft.of_lines(
            asked, path, sorted(missing), f'{each} [ -e "{new}/$n" ] || echo "$n"; done | sort > {path}'
        )
    asked = (
        f"Write the names of the files that {old} and {new} both have, but with different contents, to {path}, one a "
        f"line, sorted by bytes."
    )
    test = f'[ ! -e "{new}/$n" ] || cmp -s "$f" "{new}/$n" || echo "$n"'
    return TaskDraft.of_lines(asked, path, sorted(differ), f"{each} {test}; done | sort > {path}")
