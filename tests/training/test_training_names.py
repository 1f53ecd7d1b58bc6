"""The names of `turncredit.training`: every objective is one, and none is loaded before it is asked for."""

import subprocess
import sys

import pytest

import turncredit.training


def test_every_objective_is_a_name_of_training():
    pytest.importorskip("torch")
    from turncredit.training.objectives import objectives

    for name, entry in objectives().items():
        assert getattr(turncredit.training, name) is entry.function
        assert name in turncredit.training.__all__
    assert turncredit.training.objectives.objectives is objectives


def test_importing_training_does_not_load_torch():
    code = "import sys, turncredit.training; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.parametrize(("name", "meant"), [("tis", "tis_token"), ("icepop", "icepop"), ("mis", "mis_sequence")])
def test_a_correction_is_no_objective_and_says_so(name, meant):
    pytest.importorskip("torch")
    from turncredit.training.objectives import get

    with pytest.raises(
        turncredit.training.ConfigError,
        match=f'not an objective but a correction; set objective.correction = "{meant}"',
    ):
        get(name)
