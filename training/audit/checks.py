"""The checks of an audit that look at stored trajectories, each a function in a list.

A check of trajectories receives the audited run with the agent that played, the iteration and one trajectory, and
yields (turn, sentence) for every problem. A check of iterations receives what is kept of all trajectories of an
iteration, and yields (trajectory id, sentence). A new check is a function and an entry in `TRAJECTORY_CHECKS` or
`ITERATION_CHECKS`.
"""

import math
import reprlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from turncredit.agents.agent import Agent
from turncredit.agents.errors import StoreError
from turncredit.agents.models.tokenization import AnswerEnd, answer_text, codec_of
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.rollouts.episode import storable
from turncredit.agents.rollouts.rollout_stream import QUARANTINE_ERRORS, is_replacement
from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.engines.token_requests import ROUNDING
from turncredit.training.batch.batch import Batch, pack
from turncredit.training.config.run import Run
from turncredit.training.config.seeds import Seeds
from turncredit.training.learner.untyped import PolicyTokenizer
from turncredit.training.run_folder.metrics import Event
from turncredit.training.sampling.sampling_files import SamplingFiles
from turncredit.training.types import State

Found = Iterator[tuple[int | None, str]]
"""Index of a turn (None: the whole trajectory), and what is wrong with it."""

OfIteration = Iterator[tuple[str | None, str]]
"""Id of a trajectory (None: the whole iteration), and what is wrong with it."""


@dataclass(frozen=True)
class AuditedRun:
    """What the checks know about a run.

    Attributes:
        run: the configuration.
        agent: builds prompts and parses answers; its chat template needs the tokenizer.
        tokenizer: of the checkpoints; None if there is none.
        vocabulary: number of rows of the model's embedding; 0 if there is no checkpoint.
        ends: ids that end a response.
        finished: the event of every finished iteration, by its number.
        sampling: what each iteration was made of.
        stores_finish: whether the run stored how its answers ended, which earlier versions did not.
        imported: whether the episodes are those of another program.
    """

    run: Run
    agent: Agent
    tokenizer: PolicyTokenizer
    vocabulary: int
    ends: frozenset[int]
    finished: Mapping[int, Event]
    sampling: SamplingFiles
    stores_finish: bool = True
    imported: bool = False

    @property
    def end(self) -> AnswerEnd | None:
        """What the run's chat template writes at the end of an answer."""
        return Dialogue(self.agent, self.tokenizer).end

    def of_task(self, task: str) -> "AuditedRun":
        """Return what the checks know about a task: in a mixture, each part has an agent of its own."""
        agent = self.agent.for_task(task)
        return self if agent is self.agent else replace(self, agent=agent)


@dataclass(frozen=True, slots=True)
class TrajectoryCheck:
    """A check of one trajectory."""

    name: str
    asks: str
    find: Callable[[AuditedRun, int, Trajectory], Found]
    possible: Callable[[AuditedRun], str] = lambda _: ""
    """Returns why the check cannot be done; empty if it can."""


def _needs_tokenizer(audited: AuditedRun) -> str:
    return "" if audited.tokenizer is not None else "no checkpoint is kept, and with it no tokenizer"


def _needs_run(audited: AuditedRun) -> str:
    return "the episodes were imported, and the settings of their run are unknown" if audited.imported else ""


def _needs_prompts(audited: AuditedRun) -> str:
    return _needs_run(audited) or _needs_tokenizer(audited)


def _needs_finish(audited: AuditedRun) -> str:
    return _needs_prompts(audited) or (
        "" if audited.stores_finish else "the run was made by a version that did not store how answers ended"
    )


# -- numbers --


def bad_numbers(audited: AuditedRun, _: int, trajectory: Trajectory) -> Found:
    """Yield turns with wrong ids, log-probabilities or rewards."""
    for number, turn in enumerate(trajectory.turns):
        yield from ((number, text) for text in _bad_numbers(turn, audited.vocabulary))


def _bad_numbers(turn: Turn, vocabulary: int) -> Iterator[str]:
    if not turn.prompt or not turn.response:
        yield f"the {'prompt' if not turn.prompt else 'response'} has no token ids"
    wrong = [token for token in (*turn.prompt, *turn.response) if token < 0 or (vocabulary and token >= vocabulary)]
    if wrong:
        yield f"the token id {wrong[0]} is not in the model's vocabulary of {vocabulary}"
    if len(turn.logprobs) != len(turn.response):
        yield f"{len(turn.response)} tokens were sampled, but there are {len(turn.logprobs)} log-probabilities"
    bad = [value for value in turn.logprobs if not (math.isfinite(value) and value <= ROUNDING)]
    if bad:
        yield f"a log-probability must be finite and at most 0, got {bad[0]}"
    if not math.isfinite(turn.reward):
        yield f"the reward must be finite, got {turn.reward}"


# -- versions --


def wrong_versions(audited: AuditedRun, iteration: int, trajectory: Trajectory) -> Found:
    """Yield turns that other weights sampled than those at the beginning of the iteration, version iteration - 1.

    With asynchronous rollouts they may be older, and newer in groups from before the run was resumed.
    """
    newest, last, exact = iteration - 1, 0, not audited.run.train.asynchronous
    for number, turn in enumerate(trajectory.turns):
        if turn.version < last:
            yield number, f"sampled by version {turn.version} after a turn by version {last}"
        elif exact and turn.version != newest:
            kind = "older" if turn.version < newest else "newer"
            yield number, f"sampled by version {turn.version}, {kind} than version {newest} of this iteration"
        if turn.switches and (exact or not _in_order(turn)):
            yield number, f"its {len(turn.response)} tokens have versions that cannot be: {list(turn.switches)}"
        last = turn.switches[-1][1] if turn.switches else turn.version


def _in_order(turn: Turn) -> bool:
    """Whether new weights took over within the response, each time newer ones."""
    pairs = [(0, turn.version), *turn.switches]
    rising = all(start < at and old < new for (start, old), (at, new) in pairwise(pairs))
    return rising and pairs[-1][0] < len(turn.response)


# -- prompts --


def wrong_prompts(audited: AuditedRun, _: int, trajectory: Trajectory) -> Found:
    """Yield the first turn whose prompt is not what the agent builds from the turns before it."""
    dialogue = Dialogue(audited.agent, audited.tokenizer)
    for number, turn in enumerate(trajectory.turns):
        if audited.agent.prompt.template.lists and turn.admissible is None:
            yield number, "the template lists the admissible actions, which are not stored"
            return
        view = dialogue.view_of(turn)
        rebuilt = dialogue.prompt(view).ids
        if rebuilt != turn.prompt:
            before = _sequence(trajectory.turns[number - 1]) if number and audited.agent.prompt.appends else ()
            yield number, _first_difference(audited, turn.prompt, rebuilt, before)
            return
        dialogue.add(view, turn.text, turn.action, turn.response)


def _sequence(turn: Turn) -> tuple[int, ...]:
    return turn.prompt + turn.response


def _first_difference(
    audited: AuditedRun, recorded: tuple[int, ...], rebuilt: tuple[int, ...], before: tuple[int, ...]
) -> str:
    """Return a sentence about the first token in which a prompt differs from the one that the agent builds."""
    pairs = enumerate(zip(recorded, rebuilt, strict=False))
    at = next((index for index, (token, other) in pairs if token != other), min(len(recorded), len(rebuilt)))
    difference = "does not extend the turn before" if at < len(before) else "is not the one that the agent builds"
    shown = codec_of(audited.tokenizer).decode(recorded[max(0, at - 8) : at])
    tail = f"; the tokens before it read {shown!r}" if shown else ""
    return (
        f"the prompt {difference}: token {at} of {len(recorded)} is {_token(audited, recorded, at)}, expected "
        f"{_token(audited, rebuilt, at)}{tail}"
    )


def _token(audited: AuditedRun, ids: tuple[int, ...], at: int) -> str:
    return f"{ids[at]} ({codec_of(audited.tokenizer).decode([ids[at]])!r})" if at < len(ids) else "missing"


# -- masks --


def wrong_masks(_: AuditedRun, __: int, trajectory: Trajectory) -> Found:
    """Yield turns whose sampled tokens are not exactly those that carry loss once the trajectory is packed."""
    if not trajectory.finished:
        return  # errors are not trained on
    for merge in (True, False):
        try:
            batch = pack([Group(trajectory.task, (trajectory,))], merge=merge)
        except ValueError as error:
            yield None, f"the trajectory cannot be packed: {error}"
            return
        yield from _uncovered(batch, trajectory, "merged" if merge else "unmerged")


def _uncovered(batch: Batch, trajectory: Trajectory, how: str) -> Found:
    covered = 0
    for number, turn in enumerate(trajectory.turns):
        rows, columns = np.nonzero(batch.turn == number)
        if len(set(rows.tolist())) != 1:
            yield number, f"the response lies in {len(set(rows.tolist()))} sequences of the {how} batch, expected 1"
            continue
        row, start = int(rows[0]), int(columns[0])
        tokens = tuple(batch.tokens[row, columns].tolist())
        if tokens != turn.response or tuple(batch.tokens[row, :start].tolist()) != turn.prompt:
            yield number, f"the {how} batch has other tokens than the prompt and the response of the turn"
        elif not batch.mask[row, columns[columns > 0]].all():
            yield number, f"the mask of the {how} batch leaves out tokens that were sampled"
        elif not np.array_equal(batch.old[row, columns[columns > 0]], turn.logprobs[int(start == 0) :], equal_nan=True):
            yield number, f"the {how} batch has other log-probabilities than the turn"
        covered += int((columns > 0).sum())
    if int(batch.mask.sum()) > covered:
        yield None, f"the mask of the {how} batch covers {int(batch.mask.sum())} tokens, but {covered} were sampled"


# -- texts --


def wrong_texts(audited: AuditedRun, _: int, trajectory: Trajectory) -> Found:
    """Yield turns whose text is not what their ids decode to, without the end token."""
    for number, turn in enumerate(trajectory.turns):
        text = storable(answer_text(codec_of(audited.tokenizer).decode, turn.response, audited.ends, audited.end))
        if text != turn.text:
            at = next((k for k, (a, b) in enumerate(zip(text, turn.text, strict=False)) if a != b), None)
            at = min(len(text), len(turn.text)) if at is None else at
            yield (
                number,
                f"the ids decode to {_excerpt(text, at)}, but the recorded text is {_excerpt(turn.text, at)}",
            )


def _excerpt(text: str, at: int, width: int = 40) -> str:
    start = max(0, at - width // 2)
    return ("..." if start else "") + repr(text[start : start + width]) + ("..." if start + width < len(text) else "")


def wrong_actions(audited: AuditedRun, _: int, trajectory: Trajectory) -> Found:
    """Yield turns whose action is not the one in their text, and unparsable answers that earned something."""
    for number, turn in enumerate(trajectory.turns):
        action = audited.agent.parse(turn.text, sampled=bool(turn.response)).action
        if action != turn.action:
            yield number, f"the answer contains the action {action!r}, but {turn.action!r} is recorded"
        elif action is None and (turn.valid or turn.reward):
            yield number, f"the answer has no action, but is recorded as valid={turn.valid} with reward {turn.reward:g}"


# -- how answers and episodes ended --


def wrong_endings(audited: AuditedRun, _: int, trajectory: Trajectory) -> Found:
    """Yield answers that did not end in the way that is recorded, and episodes that were stopped at another limit."""
    if trajectory.teacher:
        return  # its answers ended as those of another model do
    most = audited.agent.max_turns
    if len(trajectory.turns) > most or (trajectory.stop == "turns" and len(trajectory.turns) != most):
        yield None, f"ended as {trajectory.stop!r} after {len(trajectory.turns)} turns, with a limit of {most}"
    if (trajectory.error is not None) != (trajectory.stop in {"error", "tokens", "answer"}):
        yield None, f"ended as {trajectory.stop!r} with the error message {trajectory.error!r}"
    for number, turn in enumerate(trajectory.turns):
        problem = _wrong_ending(audited, turn)
        if problem:
            yield number, problem


def _wrong_ending(audited: AuditedRun, turn: Turn) -> str:
    agent, count, end = audited.agent, len(turn.response), audited.end
    ends = audited.ends if end is None else audited.ends | end.tokens
    ended = bool(turn.response) and turn.response[-1] in ends
    stopped = ended or any(stop in turn.text for stop in agent.stop)
    if not stopped and end is not None and end.stop:
        stopped = end.text in codec_of(audited.tokenizer).decode(turn.response)
    if count > agent.max_tokens:
        return f"the answer has {count} tokens, more than the limit of {agent.max_tokens}"
    if any(token in ends for token in turn.response[:-1]):
        return "the answer continues after an end token"
    if turn.finish == "length" and (stopped or count < agent.max_tokens):
        return f"recorded as cut at the limit, but it has {count} of {agent.max_tokens} tokens" + (
            " and an end" if stopped else ""
        )
    if turn.finish == "stop" and not stopped:
        return f"recorded as ended by itself, but its {count} tokens contain neither an end token nor a stop string"
    return ""


TRAJECTORY_CHECKS: tuple[TrajectoryCheck, ...] = (
    TrajectoryCheck("numbers", "ids in the vocabulary, one finite log-probability <= 0 a token, rewards", bad_numbers),
    TrajectoryCheck("versions", "every turn is by weights that its iteration may have", wrong_versions, _needs_run),
    TrajectoryCheck("prompts", "every prompt is the one that the agent builds", wrong_prompts, _needs_prompts),
    TrajectoryCheck("masks", "loss on sampled tokens, and on nothing else", wrong_masks),
    TrajectoryCheck("texts", "ids decode to the recorded text", wrong_texts, _needs_tokenizer),
    TrajectoryCheck("actions", "the recorded action is the one in the text", wrong_actions, _needs_run),
    TrajectoryCheck("endings", "answers and episodes ended as recorded", wrong_endings, _needs_finish),
)


# -- whole iterations --


@dataclass(frozen=True, slots=True)
class EpisodeEnd:
    """What is kept of a trajectory until its iteration is complete."""

    id: str
    task: str
    seed: int
    won: bool
    reward: float
    turns: int
    finished: bool
    fork_of: str | None = None
    fork_turn: int = 0
    fork_tokens: int = 0
    plain: bool = True
    digests: tuple[bytes, ...] = ()
    """Of each turn, where forks may take it over."""
    answers: tuple[bytes, ...] = ()
    """Of each turn, its tokens and their log-probabilities, where forks may begin inside it."""

    @classmethod
    def of(cls, trajectory: Trajectory) -> "EpisodeEnd":
        """Return what is kept of a trajectory."""
        return cls(
            trajectory.id,
            trajectory.task,
            trajectory.seed,
            trajectory.won,
            trajectory.reward,
            len(trajectory.turns),
            trajectory.finished,
            trajectory.fork_of,
            trajectory.fork_turn or 0,
            trajectory.fork_tokens,
            trajectory.plain,
            tuple(map(_digest, trajectory.turns)),
            tuple(map(_answer, trajectory.turns)),
        )


def _digest(turn: Turn) -> bytes:
    """Return what is equal where a fork took a turn over: ids, log-probabilities, versions, texts, action, reward."""
    facts = (
        (turn.prompt, turn.response, turn.logprobs, turn.versions),
        (turn.observation, turn.text, turn.action, turn.state, turn.reward),
    )
    return blake2b(repr(facts).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _answer(turn: Turn) -> bytes:
    """Return the hashes of an answer's tokens and of their log-probabilities, 16 bytes for each token."""
    pairs = zip(turn.response, turn.logprobs, strict=False)  # another check finds that one of them is longer
    return np.array([(hash(token), hash(logprob)) for token, logprob in pairs], dtype=np.int64).tobytes()


@dataclass(frozen=True, slots=True)
class IterationCheck:
    """A check of all episodes of a finished iteration."""

    name: str
    asks: str
    find: Callable[[AuditedRun, int, Sequence[EpisodeEnd]], OfIteration]


def wrong_groups(audited: AuditedRun, iteration: int, episodes: Sequence[EpisodeEnd]) -> OfIteration:
    """Yield ids that occur twice or belong to another task or seed, and groups that are not complete.

    A group may lack members if its task failed so often that the rollout gave it up, and have more than its size if
    failed ones were replaced. With asynchronous rollouts, it may have begun in another iteration.
    """
    try:
        entries = audited.sampling.read(iteration)
    except StoreError as error:
        yield None, str(error)
        return
    if entries is not None and (audited.run.sampling.groups or audited.run.sampling.tasks != "uniform"):
        yield from _wrong_members(entries, episodes)
        return
    section = audited.run.train
    # groups without a turn are replaced by later ones: at most as many as AsynchronousRollouts lets there be
    begun = range(2 * section.iterations + 1) if section.asynchronous else [iteration - 1]
    seeds = {Seeds(audited.run.seed).of("rollout", number) for number in begun}
    failed = Counter(trajectory.task for trajectory in episodes if not trajectory.finished)
    given_up = {task for task, count in failed.items() if count >= QUARANTINE_ERRORS}
    for name, times in Counter(trajectory.id for trajectory in episodes).items():
        if times > 1:
            yield name, f"{times} trajectories have this id"
    for trajectory in episodes:
        task, _, suffix = trajectory.id.rpartition("#")
        if task != trajectory.task or suffix.partition("@")[2] != str(trajectory.seed) or trajectory.seed not in seeds:
            expected = "" if section.asynchronous else f" (seed {min(seeds)} in this iteration)"
            yield (
                trajectory.id,
                f"the id does not belong to task {trajectory.task} and seed {trajectory.seed}{expected}",
            )
    first = [trajectory for trajectory in episodes if not is_replacement(trajectory.id)]
    for task, count in Counter(trajectory.task for trajectory in first).items():
        if count % section.group_size and task not in given_up:
            yield None, f"task {task} has {count} trajectories, expected groups of {section.group_size}"
    if len(first) != section.groups * section.group_size and not given_up:
        yield None, f"{len(first)} trajectories are stored, expected {section.groups} x {section.group_size}"


def _wrong_members(entries: Sequence[State], episodes: Sequence[EpisodeEnd]) -> OfIteration:
    """Yield episodes that are not of the groups that were written down, and members that are missing or twice."""
    groups = {name: (entry["task"], entry["seed"]) for entry in entries for name in entry["members"]}
    stored = Counter(episode.id for episode in episodes)
    for name in groups.keys() - stored.keys():
        yield name, "it is a member of a group of this iteration, and is not stored"
    for episode in episodes:
        if stored[episode.id] > 1:
            yield episode.id, f"{stored[episode.id]} trajectories have this id"
        if groups.get(episode.id) != (episode.task, episode.seed):
            yield episode.id, f"no group of this iteration has such a member of task {episode.task}"


def wrong_metrics(audited: AuditedRun, iteration: int, episodes: Sequence[EpisodeEnd]) -> OfIteration:
    """Yield metrics of the iteration that differ from those of the stored trajectories; means leave forks out."""
    event = audited.finished[iteration]
    ended = [trajectory for trajectory in episodes if trajectory.finished and trajectory.plain]
    count = max(1, len(ended))
    stored = {
        "episodes": len(episodes),
        "success": sum(trajectory.won for trajectory in ended) / count,
        "reward": sum(trajectory.reward for trajectory in ended) / count,
        "turns": sum(trajectory.turns for trajectory in ended) / count,
    }
    for name, value in stored.items():
        told = event.get(name)
        if told is not None and not _is_close(told, value):
            shown = f"{told:g}" if isinstance(told, float) else reprlib.repr(told)
            yield None, f"metrics.jsonl says {name} {shown}, the stored trajectories say {value:g}"


def _is_close(told: object, value: float) -> bool:
    """Return whether a value of a file, which may be anything, is a number up to rounding."""
    try:
        return isinstance(told, int | float) and math.isclose(told, value, rel_tol=1e-9, abs_tol=1e-9)
    except OverflowError:  # an integer that no float holds
        return False


def wrong_forks(_: AuditedRun, __: int, episodes: Sequence[EpisodeEnd]) -> OfIteration:
    """Yield forks whose parent is missing, or whose turns before the fork are not the parent's."""
    by_id = {episode.id: episode for episode in episodes}
    for fork in episodes:
        if fork.fork_of is None:
            continue
        parent = by_id.get(fork.fork_of)
        if parent is None:
            yield fork.id, f"its parent {fork.fork_of} is not stored in this iteration"
        elif (parent.task, parent.seed) != (fork.task, fork.seed):
            yield fork.id, f"its parent {fork.fork_of} has another task or seed"
        elif fork.fork_turn > parent.turns:
            yield fork.id, f"it begins at turn {fork.fork_turn} of {fork.fork_of}, which has {parent.turns} turns"
        else:
            pairs = zip(fork.digests[: fork.fork_turn], parent.digests, strict=False)
            changed = next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), None)
            if changed is not None:
                yield fork.id, f"turn {changed}, before its fork at {fork.fork_turn}, is not that of {fork.fork_of}"
            elif not _begins_like(fork, parent):
                yield (
                    fork.id,
                    f"turn {fork.fork_turn} does not begin with the first {fork.fork_tokens} tokens of {fork.fork_of}",
                )


def _begins_like(fork: EpisodeEnd, parent: EpisodeEnd) -> bool:
    """Return whether the answer inside which an episode begins has the beginning of its parent's."""
    if not fork.fork_tokens or fork.turns == fork.fork_turn:  # the episode failed before it had an answer there
        return True
    size, answers = 16 * fork.fork_tokens, parent.answers[fork.fork_turn : fork.fork_turn + 1]
    return any(len(answer) > size and fork.answers[fork.fork_turn][:size] == answer[:size] for answer in answers)


ITERATION_CHECKS: tuple[IterationCheck, ...] = (
    IterationCheck("forks", "forks begin with the turns of their parents", wrong_forks),
    IterationCheck("groups", "ids are unique, groups complete", wrong_groups),
    IterationCheck("metrics", "metrics are those of the stored trajectories", wrong_metrics),
)
