"""Loggers: metrics and sample episodes of a run sent to TensorBoard, trackio, Weights & Biases or OpenTelemetry.

    loggers = ["tensorboard", "trackio", "wandb", "otel"]

A resumed run continues the same run of each logger, and sends no iteration twice. A logger that fails (no network, a
full disk) is switched off with one warning, and the run goes on. Accounts, servers and offline modes are configured as
the packages' own documentation says, for example WANDB_MODE=offline.

Not included: images, and files of the run.
"""

import os
import re
import secrets
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from turncredit.agents.files.json_files import write_json
from turncredit.installation import needs
from turncredit.processes import tracing
from turncredit.tools.bounded_input import read_json
from turncredit.training.errors import TrainingError
from turncredit.training.run_folder.sample_episodes import SampleEpisode

EPISODES = "episodes"
"""Name under which loggers show episodes."""
PROJECT = "turncredit"
"""The project of a run that names none."""
FILE = "loggers.json"
"""The file in the run's folder with the name of the run in each logger."""
CONNECT_SECONDS = 30


class Logger(Protocol):
    """Receives the numbers of a run."""

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Log numbers by name, such as "train/loss", at an iteration; iterations never decrease."""

    def show(self, samples: Sequence[SampleEpisode], iteration: int) -> None:
        """Log episodes of an iteration, after its numbers."""

    def close(self) -> None:
        """Write what is left."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """What a logger is told about a run.

    Attributes:
        folder: of the run.
        name: of the run in the logger.
        project: that the run belongs to; empty: none is named.
        config: the run's configuration.
        purge: iteration from which earlier events are discarded after a resumption; None: they are kept.
    """

    folder: Path
    name: str
    project: str
    config: Mapping[str, object]
    purge: int | None


class TensorBoardLogger:
    """Event files in RUN/tensorboard."""

    def __init__(self, run: LoggedRun) -> None:
        """Open a file of events."""
        from torch.utils.tensorboard import SummaryWriter

        self._board = SummaryWriter(str(run.folder / "tensorboard"), purge_step=run.purge)

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Add the numbers as scalars."""
        for name, value in values.items():
            self._board.add_scalar(name, value, iteration)

    def show(self, samples: Sequence[SampleEpisode], iteration: int) -> None:
        """Add the episodes as texts."""
        for number, sample in enumerate(samples):
            facts = ", ".join(f"{name} {value}" for name, value in sample.facts.items())
            text = "\n".join(f"    {line}" for line in sample.text.splitlines())  # indented: not read as Markdown
            self._board.add_text(f"{EPISODES}/{number}", f"{facts}\n\n{text}", iteration)

    def close(self) -> None:
        """Flush and close the file."""
        self._board.close()


class TrackioLogger:
    """A run in the local database of trackio, or where its environment variables say."""

    def __init__(self, run: LoggedRun) -> None:
        """Start or continue the run of this name."""
        import trackio

        with redirect_stdout(sys.stderr):
            self._run = trackio.init(
                run.project or PROJECT,
                name=run.name,
                config=dict(run.config),
                resume="allow",
                embed=False,
                auto_log_cpu=False,
            )

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Log the numbers as one step."""
        self._run.log(dict(values), step=iteration)

    def show(self, samples: Sequence[SampleEpisode], iteration: int) -> None:
        """Log the episodes as traces, with the advantages among their metadata."""
        import trackio

        traces = {
            f"{EPISODES}/{number}": trackio.Trace(
                messages=sample.messages,
                metadata={**sample.facts, "iteration": iteration, "advantages": list(sample.advantages)},
            )
            for number, sample in enumerate(samples)
        }
        self._run.log(traces, step=iteration)

    def close(self) -> None:
        """Write what is left."""
        with redirect_stdout(sys.stderr):
            self._run.finish()


class WandbLogger:
    """A run of Weights & Biases, online or (WANDB_MODE=offline) in RUN/wandb; WANDB_PROJECT may name its project."""

    def __init__(self, run: LoggedRun) -> None:
        """Start or continue the run of this name."""
        import wandb

        settings = wandb.Settings(init_timeout=CONNECT_SECONDS, silent=True, console="off")
        self._run = wandb.init(
            project=run.project or os.environ.get("WANDB_PROJECT") or PROJECT,
            name=run.name,
            id=run.name,
            resume="allow",
            dir=str(run.folder),
            config=dict(run.config),
            settings=settings,
        )

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Log the numbers as one step."""
        self._run.log(dict(values), step=iteration)

    def show(self, samples: Sequence[SampleEpisode], iteration: int) -> None:
        """Log the episodes as a table, one row each."""
        import wandb

        rows = [{"iteration": iteration, **sample.facts, "conversation": sample.text} for sample in samples]
        table = wandb.Table(columns=list(rows[0]), data=[list(row.values()) for row in rows])
        self._run.log({EPISODES: table}, step=iteration)

    def close(self) -> None:
        """Upload or write what is left."""
        self._run.finish()


class OpenTelemetryLogger:
    """Spans of the run, sent to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names; metrics are events of them."""

    def __init__(self, run: LoggedRun) -> None:
        """Send spans from now on."""
        tracing.start({"turncredit.run": run.name})

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Add the numbers to the span in progress."""
        numbers = {f"turncredit.{name.replace('/', '.')}": value for name, value in values.items()}
        tracing.event("metrics", {"turncredit.iteration": iteration, **numbers})

    def show(self, samples: Sequence[SampleEpisode], iteration: int) -> None:
        """Send no texts."""

    def close(self) -> None:
        """Send what is left."""
        tracing.stop()


EXTRAS = {"otel": "otel"}
"""The extra that installs a logger, where it is not `log`."""
LOGGERS: dict[str, Callable[[LoggedRun], Logger]] = {
    "tensorboard": TensorBoardLogger,
    "trackio": TrackioLogger,
    "wandb": WandbLogger,
    "otel": OpenTelemetryLogger,
}


class GuardedLogger:
    """A logger that is switched off with one warning when it fails.

    Args:
        name: of the logger.
        open_logger: makes it.
        sent: names of numbers with their iteration that an earlier session of the run has sent already.
    """

    def __init__(
        self, name: str, open_logger: Callable[[], Logger], sent: frozenset[tuple[str, int]] = frozenset()
    ) -> None:
        self.name, self._sent = name, sent
        self._iterations = {iteration for _, iteration in sent}
        self._logger: Logger | None = None
        try:
            self._logger = open_logger()
        except ModuleNotFoundError as error:
            raise TrainingError(
                needs(f"the logger {name} needs {error.name}, which is not installed", EXTRAS.get(name, "log"))
            ) from error
        except Exception as error:  # each package has its own exceptions
            self._switch_off(error)

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Log what was not sent before."""
        new = {name: value for name, value in values.items() if (name, iteration) not in self._sent}
        if self._logger is None or not new:
            return
        try:
            self._logger.log(new, iteration)
        except Exception as error:
            self._switch_off(error)

    def show(self, samples: Sequence[SampleEpisode], iteration: int) -> None:
        """Log episodes of an iteration whose numbers were not sent before."""
        if self._logger is None or not samples or iteration in self._iterations:
            return
        try:
            self._logger.show(samples, iteration)
        except Exception as error:
            self._switch_off(error)

    def close(self) -> None:
        """Write what is left."""
        logger, self._logger = self._logger, None
        try:
            if logger is not None:
                logger.close()
        except Exception as error:
            self._switch_off(error)

    def _switch_off(self, error: Exception) -> None:
        self._logger = None
        text = " ".join(str(error).split())[:300]
        warnings.warn(
            f"the logger {self.name} failed and is switched off; metrics.jsonl has all metrics "
            f"({type(error).__name__}: {text})",
            stacklevel=2,
        )


def open_loggers(
    names: Sequence[str],
    folder: Path,
    *,
    name: str,
    project: str = "",
    config: Mapping[str, object],
    purge: int | None = None,
    sent: frozenset[tuple[str, int]] = frozenset(),
) -> list[Logger]:
    """Return the loggers of a run, which continue what they logged in an earlier session of the same run.

    Args:
        names: of `LOGGERS`; a name that is given twice counts once.
        folder: of the run.
        name: of the run; each logger gets it with a suffix, since runs in several folders may share a name.
        project: that the run belongs to; empty: that of the logger's environment, else "turncredit".
        config: the run's configuration.
        purge: iteration from which TensorBoard discards earlier events; None keeps them.
        sent: names of numbers with their iteration in the metrics of earlier sessions.

    Raises:
        TrainingError: the package of a logger is not installed.
    """
    identifiers = _read(folder)
    before = set(identifiers)
    plain = re.sub(r"[^\w.-]+", "-", name)[:80]  # Weights & Biases refuses other characters in an id
    suffixed = next(iter(identifiers.values()), f"{plain}-{secrets.token_hex(4)}")
    run = LoggedRun(folder.absolute(), suffixed, project, config, purge)
    opened: list[Logger] = []
    for key in dict.fromkeys(names):
        repeated = sent if key in before and key != "tensorboard" else frozenset()
        opened.append(GuardedLogger(key, partial(LOGGERS[key], run), repeated))
        identifiers[key] = suffixed
    if identifiers.keys() != before:
        write_json(folder / FILE, identifiers, indent=2)
    return opened


def _read(folder: Path) -> dict[str, str]:
    path = folder / FILE
    return dict(read_json(path)) if path.is_file() else {}
