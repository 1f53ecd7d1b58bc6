"""Evaluations before training that several runs share, so that each policy is measured once.

    FOLDER/KEY/result.json    an evaluation; KEY is a digest of everything that decides its episodes

The runs of an ablation begin with the same weights and play the same panel. The first one measures, and runs that come
to the same evaluation meanwhile wait for it.

Not included: evaluations after updates, whose weights no two runs share.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from turncredit.agents.errors import EvaluationError
from turncredit.agents.files.folder_lock import locked
from turncredit.agents.json_types import JsonObject
from turncredit.evaluation.panels import Panel, panel_json
from turncredit.evaluation.results import EvaluationResult
from turncredit.tools.bounded_input import read_json
from turncredit.training.config.run import Run
from turncredit.training.config.versions import describe
from turncredit.training.run_folder.checkpoint import MANIFEST, Checkpoints

__all__ = ["SharedEvaluations"]

RESULT = "result.json"
_TRAINING_ONLY = ("state.json", "trainer.pt", "optimizer/")
"""Files of a checkpoint that sampling does not read."""
_TOKENIZER = "tokenizer_config.json"
_ORIGIN = ("is_local", "local_files_only", "name_or_path")
"""Options of a tokenizer that only say where transformers loaded it from."""


@dataclass(frozen=True, slots=True)
class SharedEvaluations:
    """The evaluations before training in a folder that runs share.

    Attributes:
        folder: of the evaluations.
        run: the run that asks for one; its first checkpoint holds the weights.
    """

    folder: Path
    run: Run

    def result(
        self, panel: Panel, name: str, measure: Callable[[], EvaluationResult], report: Callable[[str], object]
    ) -> EvaluationResult:
        """Return the evaluation of the run's first checkpoint on a panel; it is measured unless the folder has it.

        Args:
            panel: the tasks.
            name: of the result.
            measure: plays the panel.
            report: called with a sentence before this process waits for another one that measures.

        Raises:
            Interrupted: Ctrl-C while the panel is played; nothing is kept then.
            StoreError: the folder cannot be written or locked.
        """
        folder = self.folder / self.key(panel)

        def tell(process: str) -> None:
            report(f"waiting for process {process}, which evaluates the same weights on the same tasks")

        with locked(folder, "evaluating for", on_wait=tell):
            stored = _read(folder / RESULT)
            if stored is not None:
                return replace(stored, name=name)
            result = measure()
            result.save(folder / RESULT)
            return result

    def key(self, panel: Panel) -> str:
        """Return 32 hexadecimal digits of what decides the episodes: panel, weights, and how they are sampled.

        Args:
            panel: the tasks.
        """
        decisive = {"panel": panel_json(panel), "weights": self._weights(), **_sampling(self.run), **describe()}
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode("ascii")).hexdigest()[:32]

    def _weights(self) -> JsonObject:
        """Return size and SHA-256 of the files that a sampler reads, by name."""
        folder = Checkpoints(self.run.folder / "checkpoints").path(0)
        files = {
            name: entry for name, entry in read_json(folder / MANIFEST).items() if not name.startswith(_TRAINING_ONLY)
        }
        options = read_json(folder / _TOKENIZER) if files.pop(_TOKENIZER, None) else {}
        return {**files, _TOKENIZER: {key: value for key, value in options.items() if key not in _ORIGIN}}


def _sampling(run: Run) -> JsonObject:
    """Return the keys of a run that decide the episodes of its evaluations, beside weights and panel."""
    evaluated = {"temperature": run.evaluation.temperature}  # which replaces that of the agent
    return {
        "agent": run.agent.model_dump() | evaluated,
        "env": run.env.model_dump(),
        "policy": run.policy.model_dump(exclude={"model", "new"}),
        "sampler": run.sampler.model_dump(),
        "cluster": run.cluster.model_dump(),
        "concurrency": run.train.concurrency,
        "copied": bool(run.train.staleness.updates),  # whether the sampler has weights of its own
        "experts": run.train.routing_replay,
        "processes": run.processes,
        "threads": run.threads,
        "seed": run.seed,
    }


def _read(path: Path) -> EvaluationResult | None:
    """Return a stored result; None if there is none that can be read."""
    try:
        return EvaluationResult.load(path) if path.is_file() else None
    except EvaluationError:
        return None
