"""The page on objectives: its tables are those of the code, its example runs, its keys are keys."""

import re
import tomllib
from pathlib import Path
from typing import Any

from test_training_loop import make_run

from turncredit.training.config.run import Run
from turncredit.training.objectives.own_objectives import tried
from turncredit.training.objectives.tables import tables
from turncredit.training.parts import prepare

PAGE = (Path(__file__).resolve().parents[2] / "docs/objectives.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_code():
    for name, table in tables().items():
        (found,) = re.findall(rf"<!-- {name} -->\n(.*?)\n<!-- end -->", PAGE, flags=re.DOTALL)
        assert found == table, f"write the table of {name} anew, from turncredit.training.objectives.tables"


def test_the_example_runs(capsys):
    codes, names = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL), dict[str, Any]()
    exec(codes[0], names)
    assert 0.0 <= float(capsys.readouterr().out) <= 1.0
    exec("\n".join(codes[1:]), names)
    for name, scope in (("better", "token"), ("centred", "sequence")):
        function, needs = tried(names[name])
        assert (function.scope, needs) == (scope, ())


def test_the_keys_can_be_written_in_a_run(tmp_path):
    loss, correction, credit = (tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL))
    run = make_run(tmp_path)
    assert prepare(Run.parse(run.model_dump(exclude_unset=True) | correction)).objective.correction is not None
    table = run.model_dump(exclude_unset=True) | loss | credit
    setup = prepare(Run.parse(table))
    assert setup.token_transform.planning == ("first", "let me check")
    assert setup.token_transform.transform.name == "hicra"
    assert (setup.objective.name, setup.objective.together, setup.objective.mode) == ("gspo_token", "turn", "turn-mean")
