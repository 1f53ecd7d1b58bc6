"""The models of an audit: the weights of one version at a time, and the scores of its tokens."""

import gc
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from turncredit.agents.annealing import annealed
from turncredit.agents.models.model_folder import load_model, load_tokenizer
from turncredit.agents.trajectory import Trajectory
from turncredit.training.audit.findings import Place
from turncredit.training.audit.gaps import GapMeter
from turncredit.training.batch.batch import Batch
from turncredit.training.batch.scores import Scores
from turncredit.training.config.run import Run
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.threads import use_threads

CHUNK = 65536
"""Tokens that are read before they are scored together."""


@dataclass(slots=True)
class VersionScorer:
    """Scores the turns of a run under the weights that sampled them, one version after another.

    Attributes:
        run: the configuration; temperature and micro-batches are those of its updates.
        weights: the folder of every version that is kept.
        meter: receives the gaps.
        device: of the model, as torch names it.
        dtype: of the model.
        missing: versions that would have been needed, and are not kept.
    """

    run: Run
    weights: Mapping[int, Path]
    meter: GapMeter
    device: str
    dtype: str
    missing: set[int] = field(default_factory=set)
    _scorer: TokenScorer | None = None
    _iteration: int = 0
    _version: int = 0
    _chunk: list[Trajectory] = field(default_factory=list)
    _tokens: int = 0
    _seen: set[int] = field(default_factory=set)

    def begin(self, iteration: int, version: int | None = None) -> None:
        """Load the weights of a version; by default the newest ones that are kept of those which may have sampled.

        Args:
            iteration: whose trajectories will be added.
            version: of the weights.
        """
        if version is None:
            oldest = iteration - 1 - self.run.train.oldest
            version = next(
                (candidate for candidate in range(iteration - 1, oldest - 1, -1) if candidate in self.weights), -1
            )
            self._seen = set()
        self._iteration, self._version = iteration, version
        self._free()
        folder = self.weights.get(version)
        if folder is None:
            return
        model = load_model(folder, dtype=self.dtype, device=self.device)
        use_threads(self.run.threads, model)
        self._scorer = TokenScorer(model, tokenizer=load_tokenizer(folder))
        if self.run.train.routing_replay:
            self._scorer.replay_routing()

    def _free(self) -> None:
        """Let go of the model, since two may not fit into memory."""
        model = None if self._scorer is None else weakref.ref(self._scorer.model)
        self._scorer = None
        if model is not None and model() is not None:
            gc.collect()  # a cycle holds it, such as that of an error which was caught while it was loaded

    def add(self, trajectory: Trajectory) -> Iterator[tuple[Place, str]]:
        """Take a trajectory, and yield problems once enough tokens have come together."""
        self._seen.update(version for turn in trajectory.turns for version in turn.versions)
        if self._scorer is None or not self._scorable(trajectory):
            return
        self._chunk.append(trajectory)
        self._tokens += merged_tokens(trajectory)
        if self._tokens >= CHUNK:
            yield from self.flush()

    def _scorable(self, trajectory: Trajectory) -> bool:
        """Whether the policy sampled it, and it can read every token, each of which has a log-probability.

        Other checks say if not.
        """
        assert self._scorer is not None
        if trajectory.teacher:
            return False
        rows = int(self._scorer.model.get_input_embeddings().weight.shape[0])
        return all(
            len(turn.logprobs) == len(turn.versions) == len(turn.response) > 0 and min(ids) >= 0 and max(ids) < rows
            for turn in trajectory.turns
            for ids in [turn.prompt + turn.response]
        )

    def flush(self) -> Iterator[tuple[Place, str]]:
        """Score what was taken, and yield its problems."""
        chunk, self._chunk, self._tokens = self._chunk, [], 0
        if chunk and self._scorer is not None:
            yield from self.meter.measure(self._iteration, self._version, chunk, self._score)

    def others(self) -> list[int]:
        """Return the versions that sampled the iteration's other tokens, as far as their weights are kept."""
        self.missing |= self._seen - self.weights.keys()
        return sorted(self._seen & self.weights.keys() - {self._version})

    def _score(self, batch: Batch) -> Scores:
        assert self._scorer is not None
        temperature, _ = annealed(self.run.agent.temperature)
        return self._scorer.score(batch, temperature=temperature, micro_tokens=self.run.train.micro_batch.tokens)


def merged_tokens(trajectory: Trajectory) -> int:
    """Return the number of tokens of a trajectory once turns that extend the turn before are merged with it."""
    sequences = [turn.prompt + turn.response for turn in trajectory.turns]
    pairs = zip(sequences, trajectory.turns[1:], strict=False)
    extended = [turn.prompt[: len(before)] == before for before, turn in pairs]
    return sum(len(sequence) for sequence, more in zip(sequences, [*extended, False], strict=False) if not more)
