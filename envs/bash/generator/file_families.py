"""Families that reorganize files: renaming, moving, file modes, archives, creating folders, deleting."""

from __future__ import annotations

from pathlib import PurePosixPath

from turncredit.envs.bash.filetree import FileNode, file, text_file, to_tar
from turncredit.envs.bash.generator.builder import ENDINGS, INNER, TaskBuilder, TaskDraft

__all__ = ["archive", "clean", "modes", "move", "rename", "tree"]

_EACH = "| sort | while IFS= read -r f; do"


def rename(build: TaskBuilder) -> TaskDraft:
    """Rename files by a pattern."""
    top, variant = build.top, build.variant(("ending", "prefix", "capitals"))
    old, new, *others = build.some(ENDINGS, 4)
    paths = build.scatter(old)
    build.distract(others)
    listing = f"find {top} -type f -name '*{old}' {_EACH}"
    which = f"every file below {top} whose name ends in {old}"
    if variant == "ending":
        names = {path: path.removesuffix(old) + new for path in paths}
        asked, loop = f"Rename {which} so that it ends in {new} instead.", f'mv "$f" "${{f%{old}}}{new}"'
    elif variant == "prefix":
        mark = f"{build.word()}-"
        names = {path: str(PurePosixPath(path).with_name(mark + PurePosixPath(path).name)) for path in paths}
        asked = f"Put {mark} in front of the name of {which}; it stays in its folder."
        loop = f'mv "$f" "$(dirname "$f")/{mark}$(basename "$f")"'
    else:
        names = {path: str(PurePosixPath(path).with_name(PurePosixPath(path).name.upper())) for path in paths}
        asked = f"Rename {which} so that its whole name, with the ending, is in capitals; it stays in its folder."
        loop = 'mv "$f" "$(dirname "$f")/$(basename "$f" | tr \'a-z\' \'A-Z\')"'
    return TaskDraft(asked, (f"{listing} {loop}; done",), made=_moved(build, names), gone=tuple(names))


def move(build: TaskBuilder) -> TaskDraft:
    """Move files into folders by ending, year or first letter."""
    top, variant = build.top, build.variant(("ending", "year", "letter"))
    names: dict[str, str] = {}
    for number in range(max(3, build.count())):
        name = build.name()
        if variant == "ending":
            ending = ENDINGS[number % 3]
            path, inner = f"{name}{ending}", ending[1:]
        elif variant == "year":
            year = str(build.between(2019, 2023))
            path, inner = f"{name}-{year}-{build.between(1, 12):02}.txt", year
        else:
            path, inner = f"{name}.txt", name[0]
        build.add(f"{top}/{path}", build.lines())
        names[f"{top}/{path}"] = f"{top}/{inner}/{path}"
    for _ in range(build.level.distractors if variant != "ending" else 0):
        build.add(f"{top}/{build.name()}.pdf", build.lines())
    if variant == "ending":
        asked = (
            f"Move every file of {top} into a folder of {top} that is called as its name ends: a.txt into {top}/txt."
        )
        loop = f'for f in {top}/*.*; do d="{top}/${{f##*.}}"; mkdir -p "$d"; mv "$f" "$d/"; done'
    elif variant == "year":
        asked = (
            f"The names of the files of {top} that end in .txt hold a year and a month. Move each of them into a "
            f"folder of {top} that is called as its year: a-2020-07.txt into {top}/2020."
        )
        loop = f'for f in {top}/*.txt; do y=${{f%-*}}; y=${{y##*-}}; mkdir -p "{top}/$y"; mv "$f" "{top}/$y/"; done'
    else:
        asked = (
            f"Move every file of {top} whose name ends in .txt into a folder of {top} that is called as the first "
            f"letter of its name: nut.txt into {top}/n."
        )
        loop = f'for f in {top}/*.txt; do n=$(basename "$f" | cut -c1); mkdir -p "{top}/$n"; mv "$f" "{top}/$n/"; done'
    return TaskDraft(asked, (loop,), made=_moved(build, names), gone=tuple(names))


def modes(build: TaskBuilder) -> TaskDraft:
    """Change file modes."""
    top, variant = build.top, build.variant(("scripts", "keys", "open"))
    ending, mode = {"scripts": (".sh", 0o755), "keys": (".key", 0o600), "open": (".txt", 0o644)}[variant]
    before = {"scripts": 0o644, "keys": 0o664, "open": 0o666}[variant]
    paths = build.scatter(ending)
    for path in paths:
        build.files[path] = build.files[path]._replace(mode=before)
    build.distract([other for other in (".sh", ".key", ".txt", ".cfg") if other != ending])
    for path in sorted(build.files.keys() - set(paths)):
        build.files[path] = build.files[path]._replace(mode=build.one((0o644, 0o664, 0o600, 0o755)))
    made = {path: build.files[path]._replace(mode=mode) for path in paths}
    which = f"every file below {top} whose name ends in {ending}"
    asked = f"Give {which} the mode {mode:o}."
    return TaskDraft(
        asked, (f"find {top} -type f -name '*{ending}' -exec chmod {mode:o} {{}} +",), made=made, modes=True
    )


def archive(build: TaskBuilder) -> TaskDraft:
    """Pack or unpack an archive."""
    top, variant = build.top, build.variant(("pack", "unpack"))
    ending, *others = build.some(ENDINGS, 4)
    if variant == "pack":
        paths = build.scatter(ending)
        build.distract(others)
        made = {"packed.tar.gz": file(to_tar({path: build.files[path] for path in paths}))}
        asked = (
            f"Pack all files below {top} whose names end in {ending}, and no others, into packed.tar.gz (tar, "
            f"compressed by gzip), with their paths from {top} on."
        )
        command = f"find {top} -type f -name '*{ending}' -exec tar -czf packed.tar.gz {{}} +"
        return TaskDraft(asked, (command,), made=made, archives=("packed.tar.gz",))
    inside = {}
    for _ in range(build.count()):
        inside[f"{build.place('data')}/{build.name()}{ending}"] = text_file(build.lines())
    build.files[f"{top}/saved.tar"] = file(to_tar(inside))
    build.distract(others)
    made = {f"{top}/restored/{path}": node for path, node in inside.items()}
    asked = f"Unpack {top}/saved.tar into the new folder {top}/restored, and then delete {top}/saved.tar."
    commands = (f"mkdir {top}/restored", f"tar -xf {top}/saved.tar -C {top}/restored", f"rm {top}/saved.tar")
    return TaskDraft(asked, commands, made=made, gone=(f"{top}/saved.tar",))


def tree(build: TaskBuilder) -> TaskDraft:
    """Create the folders and files in a list."""
    top, variant = build.top, build.variant(("files", "folders", "written"))
    plan, site = f"{top}/plan.txt", f"{top}/site"
    paths: list[str] = []
    for _ in range(build.count()):
        inner = build.some(INNER, build.between(0, max(1, build.level.depth)))
        paths.append("/".join([*inner, f"{build.word()}-{build.name()}"]))
    build.add(plan, paths)
    build.distract((".txt", ".old"))
    each = "while IFS= read -r p; do"
    if variant == "folders":
        asked = f"Each line of {plan} is the path of a folder. Make all of them below {site}."
        made = {f"{site}/{path}": FileNode("folder", 0o755, b"") for path in paths}
        return TaskDraft(asked, (f'{each} mkdir -p "{site}/$p"; done < {plan}',), made=made)
    start = f'{each} mkdir -p "{site}/$(dirname "$p")";'
    if variant == "files":
        asked = (
            f"Each line of {plan} is a path. Make an empty file of that path below {site}, with the folders it needs."
        )
        return TaskDraft(
            asked, (f'{start} : > "{site}/$p"; done < {plan}',), made={f"{site}/{path}": file("") for path in paths}
        )
    asked = (
        f"Each line of {plan} is a path. Make a file of that path below {site}, with the folders it needs; its only "
        f"line is the path as it stands in {plan}."
    )
    made = {f"{site}/{path}": file(f"{path}\n") for path in paths}
    return TaskDraft(asked, (f'{start} echo "$p" > "{site}/$p"; done < {plan}',), made=made)


def clean(build: TaskBuilder) -> TaskDraft:
    """Delete files by ending, empty files, or copies."""
    top, variant = build.top, build.variant(("ending", "empty", "copies"))
    build.scatter(".txt")
    build.distract((".log", ".md", ".tmp.txt"))
    every = sorted(build.files)
    if variant == "ending":
        gone = build.scatter(".tmp")
        asked, command = f"Delete all files below {top} whose names end in .tmp.", f"find {top} -name '*.tmp' -type f"
    elif variant == "empty":
        gone = [build.add(path, "") for path in build.some(every, max(1, len(every) // 3))]
        asked, command = f"Delete all empty files below {top}.", f"find {top} -type f -size 0"
    else:
        gone = [build.add(f"{path}.copy", build.text(path)) for path in build.some(every[1:], max(1, len(every) // 2))]
        build.add(f"{every[0]}.copy", [*build.text(every[0]).splitlines(), build.line()])
        asked = (
            f"Some files below {top} have a second file beside them, of the same name with .copy at the end. Delete it "
            f"where its contents are those of the first, and keep it where they differ."
        )
        loop = f'find {top} -name \'*.copy\' {_EACH} cmp -s "$f" "${{f%.copy}}" && rm "$f"; done'
        return TaskDraft(asked, (loop,), gone=tuple(gone))
    return TaskDraft(asked, (f"{command} -exec rm {{}} +",), gone=tuple(gone))


def _moved(build: TaskBuilder, names: dict[str, str]) -> dict[str, FileNode]:
    return {new: build.files[old] for old, new in names.items()}
