"""A chat template writes the date of the run's first day, in resumed runs, audits and benchmarks too."""

import datetime
import tomllib

import pytest
import torch
import toys.corridor
from toys.tokens import CHATML

import turncredit.agents.prompts.chat_template as chat_module
import turncredit.training.config.template_date as date_module
from turncredit.agents.agent import Agent
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.evaluation.benchmark import BenchmarkFolder, agent_settings
from turncredit.evaluation.suite import SuitePanel, pin
from turncredit.training import Run, train
from turncredit.training.audit import audit
from turncredit.training.learner.policy import build_policy, save_policy

torch.set_num_threads(1)
DATED = "{{ strftime_now('%d %b %Y') }}\n" + CHATML


@pytest.fixture
def live(monkeypatch):
    """Return a function that sets the date."""

    def live(day):
        today = datetime.date.fromisoformat(day)
        fake = type("Date", (datetime.date,), {"today": classmethod(lambda cls: today)})
        monkeypatch.setattr(chat_module, "date", fake)
        monkeypatch.setattr(date_module, "date", fake)

    return live


@pytest.fixture
def policy(tmp_path):
    model, tokenizer = build_policy(["You are in room 1."] * 3, vocab=280, hidden=16, layers=1, heads=1, context=900)
    tokenizer.chat_template = DATED
    save_policy(model, tokenizer, tmp_path / "policy")
    return tokenizer


def run_of(folder, *words):
    table = {
        "threads": 1,
        "trajectory_format": ".jsonl",
        "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3]}},
        "agent": {"max_turns": 2, "max_tokens": 4},
        "policy": {"model": str(folder / "policy"), "context": 900},
        "train": {"iterations": 1, "groups": 1, "group_size": 2},
        "checkpoints": {"every": 1},
        "evaluation": {"episodes": 0},
    }
    return Run.parse(table, [f'output="{folder / "run"}"', *words])


def test_a_run_keeps_the_date_of_its_first_day(policy, live, tmp_path):
    live("2031-02-03")
    train(run_of(tmp_path))
    recorded = tomllib.loads((tmp_path / "run/run.toml").read_text(encoding="utf-8"))
    assert recorded["agent"]["chat"] == {"date": "2031-02-03"}
    live("2031-02-04")
    train(run_of(tmp_path, "train.iterations=2"), resume=True)
    files = sorted((tmp_path / "run/trajectories").glob("*.jsonl"))
    starts = {policy.decode(one.turns[0].prompt)[:11] for file in files for one in read_trajectories(file)}
    assert len(files) == 2
    assert starts == {"03 Feb 2031"}
    assert audit(tmp_path / "run").passed


def test_a_date_that_is_set_is_kept_and_other_templates_have_none(policy, live, tmp_path):
    live("2031-02-03")
    given = run_of(tmp_path, 'agent.chat={date="2020-01-01"}')
    assert date_module.with_date(given, tmp_path / "policy") == given
    off = run_of(tmp_path, "agent.chat=false")
    assert date_module.with_date(off, tmp_path / "policy") == off
    options = run_of(tmp_path, "agent.chat={keep_history=true}")
    dated = date_module.with_date(options, tmp_path / "policy")
    assert dated.agent.chat == {"keep_history": True, "date": "2031-02-03"}
    policy.chat_template = CHATML
    policy.save_pretrained(tmp_path / "policy")
    assert date_module.with_date(run_of(tmp_path), tmp_path / "policy") == run_of(tmp_path)


def test_a_benchmark_goes_on_with_the_date_of_its_first_day(policy, live, tmp_path):
    pinned = pin(SuitePanel("rooms", toys.corridor.ID, 2))
    live("2031-02-03")
    folder = BenchmarkFolder(tmp_path / "bench", {"player": "p"})
    folder.episodes(pinned, agent_settings(folder.dated(pinned, Agent(chat=policy))))
    folder.close()
    live("2031-02-04")
    folder = BenchmarkFolder(tmp_path / "bench", {"player": "p"})
    agent = folder.dated(pinned, Agent(chat=policy))
    assert str(agent.chat_template.date) == "2031-02-03"
    folder.episodes(pinned, agent_settings(agent))
    folder.close()
    policy.chat_template = CHATML
    assert "date" not in agent_settings(Agent(chat=policy))
