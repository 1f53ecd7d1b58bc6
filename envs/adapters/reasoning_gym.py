"""Questions of reasoning-gym (package `reasoning_gym`), one turn each: the answer ends the episode with its score.

Source: Reasoning Gym (Stojanovski et al. 2025, arXiv:2505.24760).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from turncredit.envs.adapters.games import PER_SPLIT, SPLITS, GameOutcome, SeededGame
from turncredit.envs.errors import EnvError, NoExpert, UnknownOption
from turncredit.envs.info import Info
from turncredit.envs.validation import integer
from turncredit.installation import needs
from turncredit.registry import suggest

__all__ = ["ReasoningGymEnv"]

_MISSING: Final = "questions of reasoning-gym need the package reasoning_gym"
_SIZE: Final = PER_SPLIT * len(SPLITS)
_AGENT: Final = {
    "prompt": "conversation",
    "template": {"system": "You answer a question.\n\n", "ask": "\n\nYour answer:"},
    "parser": "with-thoughts",
}


class _Dataset(Protocol):
    def __getitem__(self, number: int) -> Mapping[str, object]: ...
    def score_answer(self, answer: str, entry: Mapping[str, object]) -> float: ...


class ReasoningGymEnv(SeededGame):
    """Answer generated questions.

    Args:
        dataset: name of a dataset such as "chain_sum", or a list of names, which take turns from task to task.
        split: "train" or "held_out".
        seed: seed of the datasets.
        options: further arguments of the datasets.
        render_mode: None or "ansi".

    Raises:
        UnknownOption: there is no such dataset, or an argument is invalid.
        EnvError: reasoning_gym is not installed.
    """

    metadata = SeededGame.metadata | {"agent": _AGENT}
    EXAMPLE_ACTION = "42"

    def __init__(
        self,
        dataset: str | Sequence[str] = "chain_sum",
        split: str = "train",
        *,
        seed: int = 0,
        options: Mapping[str, object] | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__("questions", split, render_mode)
        names = [dataset] if isinstance(dataset, str) else list(dataset)
        if not names:
            raise UnknownOption("dataset must be a name or a non-empty list of names")
        settings = {"seed": integer("seed", seed), "size": _SIZE, **(options or {})}
        self._datasets = [(name, _dataset(name, settings)) for name in names]
        self._entry: Mapping[str, object] = {}
        self._current = self._datasets[0]

    def begin(self, seed: int) -> GameOutcome:
        self._current = self._datasets[seed % len(self._datasets)]
        self._entry = self._current[1][seed]
        return GameOutcome(str(self._entry["question"]))

    def move(self, action: str) -> GameOutcome:
        if not action.strip():
            return GameOutcome("The answer is empty.", valid=False, counted=False)
        score = min(1.0, max(0.0, float(self._current[1].score_answer(action, self._entry))))
        return GameOutcome("The answer was given.", score, over=True, score=score, won=score >= 1.0)

    def plan(self) -> list[str]:
        """Return the answer of the dataset; [] after the end.

        Raises:
            NoExpert: the dataset knows no answer.
        """
        if self.is_over():
            return []
        answer = self._entry.get("answer")
        if not isinstance(answer, str):
            raise NoExpert(f"{self._current[0]} knows no answer")
        return [answer]

    def get_info(self, valid: bool) -> Info:
        info = super().get_info(valid)
        info["task_type"], info["free_actions"] = self._current[0], [] if self.is_over() else ["..."]
        return info


def _dataset(name: str, settings: Mapping[str, object]) -> _Dataset:
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as missing:
        raise EnvError(needs(_MISSING, "reasoning-gym")) from missing
    if name not in DATASETS:
        raise UnknownOption(f"unknown dataset {name!r}{suggest(str(name), sorted(DATASETS))}")
    try:
        dataset: _Dataset = reasoning_gym.create_dataset(name, **settings)
    except (TypeError, ValueError, AssertionError) as error:
        raise UnknownOption(f"the dataset {name} cannot be made: {error}") from error
    return dataset
