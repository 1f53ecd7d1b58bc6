"""Families that make or change texts: lists of files, merged lists, columns, replaced words, comparisons."""

from __future__ import annotations

from turnwise.envs.bash.filetree import file
from turnwise.envs.bash.generator.builder import TaskBuilder
from turnwise.envs.bash.generator.draft import TaskDraft
from turnwise.envs.bash.generator.words import CITIES

__all__ = ["columns", "compare", "find", "merge", "replace"]

_ENDINGS = (".txt", ".log", ".md", ".note")


def find(scene: TaskBuilder) -> TaskDraft:
    """A list of the files with something in common: name, contents or size."""
    top, what = scene.top, scene.variant(("name", "contents", "size", "empty"))
    ending, *others = scene.some(_ENDINGS, 4)
    word = scene.word()
    paths = scene.scatter(ending, needed=[f"{scene.word()} {word}"])
    scene.distract(others, [word])
    every = sorted(scene.files)
    where = "Paths begin with the name of that folder, stand one a line and are sorted by bytes."
    if what == "name":
        chosen, test, which = sorted(paths), f"-name '*{ending}'", f"whose names end in {ending}"
    elif what == "contents":
        chosen = [path for path in every if word in scene.text(path)]
        test, which = f"-exec grep -q '{word}' {{}} \\; -print", f"that contain the word {word}"
    elif what == "empty":
        chosen = sorted(scene.add(path, "") for path in scene.some(every, max(1, len(every) // 3)))
        test, which = "-size 0", "that are empty"
    else:
        sizes = sorted(len(node.data) for node in scene.files.values())
        bound = sizes[len(sizes) // 2]
        chosen = [path for path in every if len(scene.files[path].data) > bound]
        chosen = chosen or [scene.add(f"{top}/{scene.name()}.big", "x" * (bound + 1) + "\n")]
        test, which = f"-size +{bound}c", f"of more than {bound} bytes"
    made = "found.txt"
    asked = f"Write the paths of all files below {top} {which} to {made}. {where}"
    return TaskDraft.of_lines(asked, made, chosen, f"find {top} -type f {test} | sort > {made}")


def merge(scene: TaskBuilder) -> TaskDraft:
    """Several lists made into one."""
    top, what = scene.top, scene.variant(("once", "sorted", "numbers", "repeated"))
    pool = [scene.line() for _ in range(scene.level.lines[1] + 2)]
    most = scene.level.lines[1] * scene.level.files[1]
    numbers = scene.some(range(1, 10_000 + most), most)
    lists: list[list[str]] = []
    for _ in range(scene.count()):
        size = scene.between(*scene.level.lines)
        drawn = [str(numbers.pop()) for _ in range(size)] if what == "numbers" else scene.some(pool, size)
        if len(lists) == 1 and what == "repeated":
            drawn.append(lists[0][0])
        lists.append(drawn)
        scene.add(f"{scene.place()}/{scene.name()}.list", drawn)
    scene.distract((".old", ".txt"), pool)
    every = [line for lines in lists for line in lines]
    made, given = f"{top}/all.txt", f"find {top} -name '*.list' -exec cat {{}} +"
    which = f"the lines of all files below {top} whose names end in .list"
    if what == "numbers":
        asked = f"Write {which} to {made}: they are numbers, and the largest comes first."
        return TaskDraft.of_lines(asked, made, sorted(every, key=int, reverse=True), f"{given} | sort -rn > {made}")
    if what == "sorted":
        asked = f"Write {which} to {made}, sorted by bytes; a line that occurs several times stays so often."
        return TaskDraft.of_lines(asked, made, sorted(every), f"{given} | sort > {made}")
    if what == "repeated":
        again = sorted({line for line in every if every.count(line) > 1})
        asked = f"Of {which}, write those that occur more than once to {made}, each once, sorted by bytes."
        return TaskDraft.of_lines(asked, made, again, f"{given} | sort | uniq -d > {made}")
    asked = f"Write {which} to {made}, each different line once, sorted by bytes."
    return TaskDraft.of_lines(asked, made, sorted(set(every)), f"{given} | sort -u > {made}")


def columns(scene: TaskBuilder) -> TaskDraft:
    """Some columns of some rows of a table."""
    top, what = scene.top, scene.variant(("two", "where", "swapped"))
    source, made = f"{scene.place()}/people.csv", f"{top}/out.csv"
    cities = scene.some(CITIES, 4)
    size = 2 + scene.between(*scene.level.lines)
    rows = [
        (str(100 + number), scene.person(), cities[number] if number < 4 else scene.one(cities), scene.between(18, 80))
        for number in range(size)
    ]
    scene.add(source, ["id,name,city,age", *(",".join(map(str, row)) for row in rows)])
    scene.distract((".csv", ".txt"), ["id,name,city,age"])
    form = f"The table {source} has a line of heads and the columns id, name, city, age, separated by commas."
    if what == "where":
        city = cities[0]
        lines = [f"{row[1]},{row[3]}" for row in rows if row[2] == city]
        asked = f"{form} Write name,age of the people of {city} to {made}, in the same order, without heads."
        command = f'awk -F, \'$3 == "{city}" {{print $2 "," $4}}\' {source} > {made}'
        return TaskDraft.of_lines(asked, made, lines, command)
    if what == "swapped":
        lines = [f"{row[2]};{row[1]}" for row in rows]
        asked = f"{form} Write city;name of all people to {made}, in the same order, without heads."
        command = f"awk -F, 'NR > 1 {{print $3 \";\" $2}}' {source} > {made}"
        return TaskDraft.of_lines(asked, made, lines, command)
    lines = ["name,city", *(f"{row[1]},{row[2]}" for row in rows)]
    asked = f"{form} Write the columns name and city to {made}, with the heads."
    return TaskDraft.of_lines(asked, made, lines, f"cut -d, -f2,3 {source} > {made}")


def replace(scene: TaskBuilder) -> TaskDraft:
    """A word put in the place of another, a line dropped or added, in some files only."""
    top, what = scene.top, scene.variant(("word", "delete", "append"))
    old, new = scene.some(("amber7", "port-81", "host_a", "beta2", "key-x", "mode_b", "zone-9"), 2)
    given = [f"{scene.word()} {old}", f"{old} {scene.word()} {old}"]
    paths = scene.scatter(".conf", needed=given)
    for path in paths[1:]:
        if scene.chance(0.5):
            scene.add(path, [*scene.text(path).splitlines(), f"{scene.word()} {old}"])
    scene.distract((".conf.bak", ".txt"), given)
    which, run = f"all files below {top} whose names end in .conf", f"find {top} -name '*.conf' -exec sed -i"
    made = {}
    for path in paths:
        lines = scene.text(path).splitlines()
        if what == "word":
            lines = [line.replace(old, new) for line in lines]
        elif what == "delete":
            lines = [line for line in lines if old not in line]
        else:
            lines = [*lines, f"# {new}"]
        made[path] = file("".join(f"{line}\n" for line in lines))
    if what == "word":
        return TaskDraft(f"In {which}, replace every {old} by {new}.", (f"{run} 's/{old}/{new}/g' {{}} +",), made=made)
    if what == "delete":
        return TaskDraft(
            f"In {which}, delete every line that contains {old}.", (f"{run} '/{old}/d' {{}} +",), made=made
        )
    loop = f"find {top} -name '*.conf' | while IFS= read -r f; do echo '# {new}' >> \"$f\"; done"
    return TaskDraft(f"Append the line '# {new}' to {which}.", (loop,), made=made)


def compare(scene: TaskBuilder) -> TaskDraft:
    """Two folders side by side."""
    what = scene.variant(("missing", "differ", "copy"))
    top = scene.top
    old, new = f"{top}/old", f"{top}/new"
    missing, differ = [], []
    for number in range(max(3, scene.count())):
        name, lines = f"{scene.name()}{scene.one(_ENDINGS)}", scene.lines()
        scene.add(f"{old}/{name}", lines)
        if number == 0 or (number > 1 and scene.chance(0.3)):
            missing.append(name)
        elif number == 1 or scene.chance(0.4):
            differ.append(name)
            scene.add(f"{new}/{name}", [*lines[:-1], f"{lines[-1]} {scene.word()}"])
        else:
            scene.add(f"{new}/{name}", lines)
    for _ in range(scene.level.distractors):
        scene.add(f"{new}/{scene.name()}{scene.one(_ENDINGS)}", scene.lines())
    each = f'for f in {old}/*; do n=$(basename "$f");'
    if what == "copy":
        made = {f"{new}/{name}": scene.files[f"{old}/{name}"] for name in missing}
        asked = f"Copy every file of {old} of which {new} has none of that name to {new}."
        return TaskDraft(asked, (f'{each} [ -e "{new}/$n" ] || cp "$f" "{new}/$n"; done',), made=made)
    path = f"{top}/{what}.txt"
    if what == "missing":
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
