"""A run that names a part of another package for everything that can be chosen."""

import pytest
import toys.outside_parts
from test_training_loop import lines, make_run

from turncredit.training import ConfigError, train
from turncredit.training.parts import prepare

HERE = "toys.outside_parts"
PARTS = (
    f'agent.prompt="{HERE}:Recounting"',
    f'agent.template="{HERE}:TEMPLATE"',
    f'agent.parser="{HERE}:PARSER"',
    f'credit.method="{HERE}:last_turn"',
    "credit.options.scale=2.0",
    f'credit.token_transform={{name = "{HERE}:halved", by = 4.0}}',
    f'objective.name="{HERE}:squared"',
    "objective.options.factor=0.5",
)


def test_every_part_can_be_named_as_module_and_attribute(tmp_path):
    run = make_run(tmp_path / "run", *PARTS, "train.iterations=1", "evaluation.episodes=0")
    prepared = prepare(run)
    agent = prepared.agent(None)
    assert isinstance(agent.prompt, toys.outside_parts.Recounting)
    assert agent.prompt.template == toys.outside_parts.TEMPLATE
    assert prepared.credit.name == f"{HERE}:last_turn"
    train(run)
    (event,) = [event for event in lines(tmp_path / "run") if event["phase"] == "train"]
    assert event["transform_changed"] > 0
    assert event["updates"] > 0


@pytest.mark.parametrize("part", ["agent.prompt", "agent.template", "agent.parser", "credit.method", "objective.name"])
def test_a_part_that_is_missing_is_named(tmp_path, part):
    with pytest.raises(Exception, match=f"{HERE}:nothing") as caught:
        prepare(make_run(tmp_path / "run", f'{part}="{HERE}:nothing"'))
    assert "cannot be loaded" in str(caught.value)


def test_options_of_such_parts_are_checked(tmp_path):
    with pytest.raises(ConfigError, match="squared has no option 'fator'; did you mean 'factor'"):
        prepare(make_run(tmp_path / "run", *PARTS[:-1], "objective.options.fator=0.5"))
