"""The date that a chat template writes: a value of the run, so that it does not change from day to day."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path

from turncredit.agents.errors import ModelError
from turncredit.agents.models.model_folder import load_tokenizer
from turncredit.agents.prompts.chat_template import DATE, reads_clock
from turncredit.training.config.run import Run


def with_date(run: Run, policy: Path | None) -> Run:
    """Return a run with `agent.chat.date`, if its policy's chat template writes the date and none is set.

    A run that is resumed has the date of the day on which it was begun, so that its prompts stay the same.

    Args:
        run: the configuration.
        policy: folder of the model of policy.model, for a run that begins; None for a new model and for a run that is
            resumed.
    """
    chat = run.agent.chat
    if chat is False or (isinstance(chat, Mapping) and DATE in chat):
        return run
    day = _recorded(run.folder / "run.toml") if policy is None else _today(policy)
    if day is None:
        return run
    options = {**(chat if isinstance(chat, Mapping) else {}), DATE: day}
    return run.model_copy(update={"agent": run.agent.model_copy(update={"chat": options})})


def _today(policy: Path) -> str | None:
    try:
        tokenizer = load_tokenizer(policy)
    except ModelError:  # the warm start says so
        return None
    return date.today().isoformat() if reads_clock(tokenizer) else None


def _recorded(file: Path) -> str | None:
    """Return the date in the file of a run that is resumed."""
    chat = Run.load(file).agent.chat if file.is_file() else False
    return str(chat[DATE]) if isinstance(chat, Mapping) and DATE in chat else None
