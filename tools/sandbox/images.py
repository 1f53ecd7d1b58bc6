"""Docker images of tasks: build one from a Dockerfile, read its settings, and read the files in one of its folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turncredit.tools.sandbox.containers import connect, sdk
from turncredit.tools.sandbox.docker_exec import first_line
from turncredit.tools.sandbox.errors import BoxFull, DockerUnavailable
from turncredit.tools.sandbox.rootfs import digest
from turncredit.tools.sandbox.untrusted_archives import FileEntry, TreeLimits, read_archive

__all__ = ["ImageFacts", "build_image", "image_facts", "image_files"]

_NAME: Final = "turncredit-task"


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What an image says about its containers.

    Args:
        workdir: where commands start; "/" if it does not say so.
        env: variables.
    """

    workdir: str
    env: dict[str, str]


def build_image(context: Path, seconds: float) -> str:
    """Return the name of the image of a folder with a Dockerfile; it is built once, and again when a file changes.

    Args:
        context: the folder.
        seconds: limit on each answer of the daemon meanwhile.

    Raises:
        DockerUnavailable: Docker cannot be used, or cannot build the image; names the step.
    """
    name = f"{_NAME}:{digest(context)}"
    client = connect()
    if client.images.list(name):
        return name
    step = ""
    client.api.timeout = seconds
    try:
        for event in client.api.build(path=str(context), tag=name, rm=True, forcerm=True, decode=True):
            line = str(event.get("stream", "")).strip()
            step = line if line.startswith("Step ") else step
            if "error" in event:
                raise DockerUnavailable(f"Docker cannot build the image: {step}: {first_line(event['error'])}")
    except (sdk().errors.DockerException, OSError) as error:
        raise DockerUnavailable(f"Docker cannot build the image: {first_line(error)}") from error
    return name


def image_facts(image: str) -> ImageFacts | None:
    """Return what an image says about its containers; None if there is no such image on this machine.

    Raises:
        DockerUnavailable: Docker cannot be used.
    """
    client = connect()
    try:
        config = client.images.get(image).attrs.get("Config") or {}
    except sdk().errors.NotFound:
        return None
    pairs = (str(entry).partition("=") for entry in config.get("Env") or ())
    return ImageFacts(str(config.get("WorkingDir") or "/"), {name: value for name, _, value in pairs})


def image_files(image: str, folder: str, limits: TreeLimits) -> list[FileEntry]:
    """Return the files in a folder of an image; [] if it has no such folder.

    Raises:
        DockerUnavailable: Docker cannot be used.
        SnapshotError: the folder holds what a box does not take.
        BoxFull: they exceed the limits.
    """
    client = connect()
    container = client.api.create_container(image, ["true"], network_disabled=True)["Id"]
    try:
        stream, _ = client.api.get_archive(container, f"{folder}/.")
        return read_archive(_bounded(stream, 2 * limits.bytes), limits, by_tar_program=True)
    except sdk().errors.NotFound:
        return []
    finally:
        client.api.remove_container(container, force=True)


def _bounded(stream: object, most: int) -> bytes:
    data = bytearray()
    for block in stream:  # type: ignore[attr-defined]
        data += block
        if len(data) > most:
            raise BoxFull(f"the files in the image have more than {most:,} bytes")
    return bytes(data)
