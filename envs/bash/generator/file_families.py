"""Families that move files about: renaming, moving, modes, archives, trees of folders, cleaning up."""

from __future__ import annotations

from pathlib import PurePosixPath

from turnwise.envs.bash.filetree import FileNode, file, to_tar
from turnwise.envs.bash.generator.builder import TaskBuilder
from turnwise.envs.bash.generator.draft import TaskDraft
from turnwise.envs.bash.generator.words import INNER, WORDS

__all__ = ["archive", "clean", "modes", "move", "rename", "tree"]

_ENDINGS = (".txt", ".log", ".md", ".note")
_EACH = "| sort | while IFS= read -r f; do"


def rename(scene: TaskBuilder) -> TaskDraft:
    """Names after a pattern."""
    top, what = scene.top, scene.variant(("ending", "prefix", "capitals"))
    old, new, *others = scene.some(_ENDINGS, 4)
    paths = scene.scatter(old)
    scene.distract(others)
    given = f"find {top} -type f -name '*{old}' {_EACH}"
    which = f"every file below {top} whose name ends in {old}"
    if what == "ending":
        names = {path: path.removesuffix(old) + new for path in paths}
        asked, loop = f"Rename {which} so that it ends in {new} instead.", f'mv "$f" "${{f%{old}}}{new}"'
    elif what == "prefix":
        mark = f"{scene.word()}-"
        names = {path: str(PurePosixPath(path).with_name(mark + PurePosixPath(path).name)) for path in paths}
        asked = f"Put {mark} in front of the name of {which}; it stays in its folder."
        loop = f'mv "$f" "$(dirname "$f")/{mark}$(basename "$f")"'
    else:
        names = {path: str(PurePosixPath(path).with_name(PurePosixPath(path).name.upper())) for path in paths}
        asked = f"Rename {which} so that its whole name, with the ending, is in capitals; it stays in its folder."
        loop = 'mv "$f" "$(dirname "$f")/$(basename "$f" | tr \'a-z\' \'A-Z\')"'
    return TaskDraft(asked, (f"{given} {loop}; done",), made=_moved(scene, names), gone=tuple(names))


def move(scene: TaskBuilder) -> TaskDraft:
    """Files put into folders by their ending, their year or their first letter."""
    top, what = scene.top, scene.variant(("ending", "year", "letter"))
    names: dict[str, str] = {}
    for number in range(max(3, scene.count())):
        name = scene.name()
        if what == "ending":
            ending = _ENDINGS[number % 3]
            path, inner = f"{name}{ending}", ending[1:]
        elif what == "year":
            year = str(scene.between(2019, 2023))
            path, inner = f"{name}-{year}-{scene.between(1, 12):02}.txt", year
        else:
            path, inner = f"{name}.txt", name[0]
        scene.add(f"{top}/{path}", scene.lines())
        names[f"{top}/{path}"] = f"{top}/{inner}/{path}"
    for _ in range(scene.level.distractors if what != "ending" else 0):
        scene.add(f"{top}/{scene.name()}.pdf", scene.lines())
    if what == "ending":
        asked = (
            f"Move every file of {top} into a folder of {top} that is called as its name ends: a.txt into {top}/txt."
        )
        loop = f'for f in {top}/*.*; do d="{top}/${{f##*.}}"; mkdir -p "$d"; mv "$f" "$d/"; done'
    elif what == "year":
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
    return TaskDraft(asked, (loop,), made=_moved(scene, names), gone=tuple(names))


def modes(scene: TaskBuilder) -> TaskDraft:
    """Rights of files."""
    top, what = scene.top, scene.variant(("scripts", "keys", "open"))
    ending, mode = {"scripts": (".sh", 0o755), "keys": (".key", 0o600), "open": (".txt", 0o644)}[what]
    before = {"scripts": 0o644, "keys": 0o664, "open": 0o666}[what]
    paths = scene.scatter(ending)
    for path in paths:
        scene.files[path] = scene.files[path]._replace(mode=before)
    scene.distract([other for other in (".sh", ".key", ".txt", ".cfg") if other != ending])
    for path in sorted(scene.files.keys() - set(paths)):
        scene.files[path] = scene.files[path]._replace(mode=scene.one((0o644, 0o664, 0o600, 0o755)))
    made = {path: scene.files[path]._replace(mode=mode) for path in paths}
    which = f"every file below {top} whose name ends in {ending}"
    asked = f"Give {which} the mode {mode:o}."
    return TaskDraft(
        asked, (f"find {top} -type f -name '*{ending}' -exec chmod {mode:o} {{}} +",), made=made, modes=True
    )


def archive(scene: TaskBuilder) -> TaskDraft:
    """Files packed, or unpacked."""
    top, what = scene.top, scene.variant(("pack", "unpack"))
    ending, *others = scene.some(_ENDINGS, 4)
    if what == "pack":
        paths = scene.scatter(ending)
        scene.distract(others)
        made = {"packed.tar.gz": file(to_tar({path: scene.files[path] for path in paths}))}
        asked = (
            f"Pack all files below {top} whose names end in {ending}, and no others, into packed.tar.gz (tar, "
            f"compressed by gzip), with their paths from {top} on."
        )
        command = f"find {top} -type f -name '*{ending}' -exec tar -czf packed.tar.gz {{}} +"
        return TaskDraft(asked, (command,), made=made, archives=("packed.tar.gz",))
    inside = {}
    for _ in range(scene.count()):
        inside[f"{scene.place('data')}/{scene.name()}{ending}"] = file("".join(f"{line}\n" for line in scene.lines()))
    scene.files[f"{top}/saved.tar"] = file(to_tar(inside))
    scene.distract(others)
    made = {f"{top}/restored/{path}": node for path, node in inside.items()}
    asked = f"Unpack {top}/saved.tar into the new folder {top}/restored, and then delete {top}/saved.tar."
    commands = (f"mkdir {top}/restored", f"tar -xf {top}/saved.tar -C {top}/restored", f"rm {top}/saved.tar")
    return TaskDraft(asked, commands, made=made, gone=(f"{top}/saved.tar",))


def tree(scene: TaskBuilder) -> TaskDraft:
    """Folders and files made after a list."""
    top, what = scene.top, scene.variant(("files", "folders", "written"))
    plan, site = f"{top}/plan.txt", f"{top}/site"
    paths: list[str] = []
    for _ in range(scene.count()):
        inner = scene.some(INNER, scene.between(0, max(1, scene.level.depth)))
        paths.append("/".join([*inner, f"{scene.one(WORDS)}-{scene.name()}"]))
    scene.add(plan, paths)
    scene.distract((".txt", ".old"))
    each = "while IFS= read -r p; do"
    if what == "folders":
        asked = f"Each line of {plan} is the path of a folder. Make all of them below {site}."
        made = {f"{site}/{path}": FileNode("folder", 0o755, b"") for path in paths}
        return TaskDraft(asked, (f'{each} mkdir -p "{site}/$p"; done < {plan}',), made=made)
    start = f'{each} mkdir -p "{site}/$(dirname "$p")";'
    if what == "files":
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


def clean(scene: TaskBuilder) -> TaskDraft:
    """Files deleted: by ending, empty ones, or second copies."""
    top, what = scene.top, scene.variant(("ending", "empty", "copies"))
    scene.scatter(".txt")
    scene.distract((".log", ".md", ".tmp.txt"))
    every = sorted(scene.files)
    if what == "ending":
        gone = scene.scatter(".tmp")
        asked, command = f"Delete all files below {top} whose names end in .tmp.", f"find {top} -name '*.tmp' -type f"
    elif what == "empty":
        gone = [scene.add(path, "") for path in scene.some(every, max(1, len(every) // 3))]
        asked, command = f"Delete all empty files below {top}.", f"find {top} -type f -size 0"
    else:
        gone = [scene.add(f"{path}.copy", scene.text(path)) for path in scene.some(every[1:], max(1, len(every) // 2))]
        scene.add(f"{every[0]}.copy", [*scene.text(every[0]).splitlines(), scene.line()])
        asked = (
            f"Some files below {top} have a second file beside them, of the same name with .copy at the end. Delete it "
            f"where its contents are those of the first, and keep it where they differ."
        )
        loop = f'find {top} -name \'*.copy\' {_EACH} cmp -s "$f" "${{f%.copy}}" && rm "$f"; done'
        return TaskDraft(asked, (loop,), gone=tuple(gone))
    return TaskDraft(asked, (f"{command} -exec rm {{}} +",), gone=tuple(gone))


def _moved(scene: TaskBuilder, names: dict[str, str]) -> dict[str, FileNode]:
    return {new: scene.files[old] for old, new in names.items()}
