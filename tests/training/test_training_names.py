"""The names of `turnwise.training`: every objective is one, and none is loaded before it is asked for."""

import subprocess
import sys

import pytest

import turnwise.training


def test_every_objective_is_a_name_of_training():
    pytest.importorskip("torch")
    from turnwise.training.objectives import objectives

    for name, entry in objectives().items():
        assert getattr(turnwise.training, name) is entry.function
        assert name in turnwise.training.__all__
    assert turnwise.training.objectives.objectives is objectives


def test_importing_training_does_not_load_torch():
    code = "import sys, turnwise.training; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.parametrize(("name", "meant"), [("tis", "tis_token"), ("icepop", "icepop"), ("mis", "mis_sequence")])
def test_a_correction_is_no_objective_and_says_so(name, meant):
    pytest.importorskip("torch")
    from turnwise.training.objectives import get

    with pytest.raises(
        turnwise.training.ConfigError, match=f'not an objective but a correction; set objective.correction = "{meant}"'
    ):
        get(name)
