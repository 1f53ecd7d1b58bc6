"""Adapters on any layer, with tied embeddings and without: what is merged, and what is refused before it is trained."""

import copy
import warnings

import peft
import pytest
import torch
from test_lora_runs import IDS, TEXTS, make_run, save_base

from turncredit.agents.errors import ModelError, SamplerError
from turncredit.agents.models.lora_folders import attach, save_adapter
from turncredit.agents.models.model_folder import load_model
from turncredit.agents.models.weights import named_tensors, shared_embedding
from turncredit.engines.transformers.module_copy import copy_model
from turncredit.training import ConfigError, train
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.policy import build_policy, save_policy

torch.set_num_threads(1)
RANK, ALPHA = 4, 8.0


@pytest.fixture(scope="module")
def tied(tmp_path_factory):
    return save_base(tmp_path_factory.mktemp("tied"))


@pytest.fixture(scope="module")
def untied(tmp_path_factory):
    """The same weights, held twice."""
    folder = tmp_path_factory.mktemp("untied")
    model, tokenizer = build_policy(TEXTS, vocab=280, hidden=32, layers=1, heads=1, context=400)
    config = copy.deepcopy(model.config)
    config.tie_word_embeddings = False
    twice = type(model)(config)
    twice.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()})
    save_policy(twice.eval(), tokenizer, folder)
    return folder


def adapted(folder, **options):
    """A peft model around the model of a folder, whose adapter changes something."""
    config = peft.LoraConfig(**{"r": RANK, "lora_alpha": ALPHA, "task_type": "CAUSAL_LM"} | options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(load_model(folder), config).eval()
    config.base_model_name_or_path = str(folder)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


def written(model, folder):
    """The folder of an adapter as peft itself writes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    return folder


def plain_logits(model, folder):
    """Of a model with an adapter on its output layer: (W + alpha / r B A) h in plain torch, the embedding unchanged."""
    base = load_model(folder)
    own = {name: parameter.detach() for name, parameter in model.named_parameters() if "lora_" in name}
    (a,) = (value for name, value in own.items() if "lm_head.lora_A" in name)
    (b,) = (value for name, value in own.items() if "lm_head.lora_B" in name)
    with torch.no_grad():
        hidden = base.model(input_ids=IDS).last_hidden_state
        return hidden @ (base.lm_head.weight + ALPHA / RANK * b @ a).T


def close(model, logits):
    with torch.no_grad():
        torch.testing.assert_close(model(IDS).logits, logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("base", ["tied", "untied"])
def test_an_adapter_on_the_output_layer_that_was_made_elsewhere_is_merged_into_it_alone(base, request, tmp_path):
    folder = request.getfixturevalue(base)
    model = adapted(folder, target_modules=["lm_head"])
    wanted = plain_logits(model, folder)
    close(model, wanted)
    merged = load_model(written(model, tmp_path / "adapter"))
    close(merged, wanted)
    assert not shared_embedding(merged)
    assert not merged.config.tie_word_embeddings
    _, tokenizer = build_policy(TEXTS, vocab=280, hidden=32, layers=1, heads=1, context=400)
    save_policy(merged, tokenizer, tmp_path / "whole")
    again = load_model(tmp_path / "whole")
    close(again, wanted)
    assert torch.equal(again.get_input_embeddings().weight, load_model(folder).get_input_embeddings().weight)


MEMBERS = {
    "embedding": {"target_modules": ["embed_tokens"]},
    "whole output layer": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    "whole embedding": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]},
    "both": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
    "norm": {"target_modules": ["q_proj"], "modules_to_save": ["norm"]},
    "rows": {"target_modules": ["q_proj"], "trainable_token_indices": [3, 4]},
    "DoRA": {"target_modules": ["q_proj"], "use_dora": True},
    "parameter": {"target_modules": ["q_proj"], "target_parameters": ["lm_head.weight"]},
}


@pytest.mark.parametrize("options", MEMBERS.values(), ids=MEMBERS)
@pytest.mark.parametrize("base", ["tied", "untied"])
def test_whatever_an_adapter_changes_is_in_the_merged_model_and_in_its_folder(base, options, request, tmp_path):
    model = adapted(request.getfixturevalue(base), **options)
    with torch.no_grad():
        wanted = model(IDS).logits
    merged = load_model(written(model, tmp_path / "adapter"))
    close(merged, wanted)
    _, tokenizer = build_policy(TEXTS, vocab=280, hidden=32, layers=1, heads=1, context=400)
    save_policy(merged, tokenizer, tmp_path / "whole")
    close(load_model(tmp_path / "whole"), wanted)


BEYOND = {name: MEMBERS[name] for name in ("whole output layer", "whole embedding", "norm", "rows", "DoRA")}
BEYOND["biases"] = {"target_modules": ["q_proj"], "bias": "all"}
BEYOND["own bias"] = {"target_modules": ["q_proj"], "lora_bias": True}


@pytest.mark.parametrize("options", BEYOND.values(), ids=BEYOND)
def test_what_is_more_than_lora_is_neither_written_nor_copied_nor_loaded_into_engines(options, untied, tmp_path):
    model = adapted(untied, **options)
    (tmp_path / "adapter").mkdir()
    for use in (
        lambda: save_adapter(model, tmp_path / "adapter"),
        lambda: copy_model(model, torch.device("cpu"), torch.float32),
        lambda: list(named_tensors(model)),
    ):
        with pytest.raises(SamplerError, match=r"only plain LoRA adapters .* and this one has"):
            use()
    assert not list((tmp_path / "adapter").iterdir())
    folder = written(model, tmp_path / "theirs")
    with pytest.raises(ModelError, match="cannot be trained: only plain LoRA"):
        attach(load_model(untied), folder, trainable=True)


def test_prompt_tuning_is_no_adapter_that_can_be_merged(untied):
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    model = peft.get_peft_model(load_model(untied), config)
    with pytest.raises(SamplerError, match="this one is of the type PROMPT_TUNING"):
        list(named_tensors(model))


@pytest.mark.parametrize(
    "options", [{"target_modules": ["lm_head"]}, MEMBERS["embedding"], MEMBERS["parameter"]], ids=str
)
def test_one_of_two_layers_that_share_their_weights_is_not_trained_alone(options, tied, untied):
    """An engine would get one matrix for both, and a checkpoint would load as another model."""
    model = adapted(tied, **options)
    for use in (lambda: copy_model(model, torch.device("cpu"), torch.float32), lambda: list(named_tensors(model))):
        with pytest.raises(SamplerError, match="share their weights, so an adapter on"):
            use()
    free = adapted(untied, **options)
    with torch.no_grad():
        close(copy_model(free, torch.device("cpu"), torch.float32), free(IDS).logits)


def test_targets_of_a_run_are_checked_before_anything_is_trained(tied, untied, tmp_path):
    options = LoraOptions.of({"rank": 4, "targets": ["q_proj", "lm_head"]})
    with pytest.raises(ConfigError, match=r"policy\.lora\.targets: the model's embedding and output layer share"):
        add_adapter(load_model(tied), options)
    assert hasattr(add_adapter(load_model(untied), options).get_base_model().lm_head, "base_layer")
    run = make_run(tmp_path / "run", tied, 'policy.lora.targets=["q_proj","lm_head"]')
    with pytest.raises(ConfigError, match="an adapter on lm_head alone cannot be added to them; leave it out of the"):
        train(run)
    assert not hasattr(add_adapter(load_model(tied), LoraOptions()).get_base_model().lm_head, "base_layer")


def test_a_run_with_an_adapter_on_the_output_layer_ends_as_the_model_that_was_trained(untied, tmp_path):
    train(make_run(tmp_path / "run", untied, 'policy.lora.targets=["q_proj","lm_head"]'))
    trained = attach(load_model(untied), tmp_path / "run/checkpoints/000002")
    wanted = plain_logits_of_run(trained)
    close(load_model(tmp_path / "run/final"), wanted)
    close(load_model(tmp_path / "run/checkpoints/000002"), wanted)


def plain_logits_of_run(model):
    """Every adapted matrix as W + alpha / r B A, put into a model of its own."""
    base = copy.deepcopy(model.get_base_model())
    plain = load_model(model.peft_config["default"].base_model_name_or_path)
    with torch.no_grad():
        for name, layer in base.named_modules():
            if hasattr(layer, "base_layer"):
                a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
                plain.get_submodule(name).weight += 8.0 / 4 * b @ a
        return plain(IDS).logits
