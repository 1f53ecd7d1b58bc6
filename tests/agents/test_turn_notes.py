"""Notes that are shown turn by turn: which ones, where they are stored, and forks of episodes that showed some."""

from __future__ import annotations

from collections.abc import Sequence

from toys.corridor import Corridor
from toys.tokens import Bytes
from toys.wanderer import Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.files.trajectory_files import from_json, to_json
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.prompts.hints import TurnNotes, hinted, similar, without_hint
from turncredit.agents.rollouts.forks import Fork
from turncredit.agents.rollouts.group_rounds import EpisodeOrder, GroupSpec
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Trajectory

ROOM = "You are in room 2. There is a key."


def test_the_notes_of_a_turn_are_those_about_the_most_similar_texts() -> None:
    good = ((ROOM, "Take it."), ("You are in room 3. There is a key.", "Look."), ("A dragon sleeps.", "Run."))
    notes = TurnNotes(((1, good), (1, (("You are in room 2. There is a kea.", "Mind the bird."),))), alike=0.85)
    assert notes.about(ROOM) == "Take it.\nMind the bird."
    assert notes.about("You are in room 3. There is a key.") == "Look.\nMind the bird."
    assert notes.about("A door.") == ""
    assert TurnNotes(((2, good),), alike=0.85).about(ROOM) == "Take it.\nLook."
    assert TurnNotes(((2, good),), alike=0.85, longest=9).about(ROOM) == "Take it.\n"
    assert TurnNotes(((0, good),)).about(ROOM) == ""


def test_a_faster_similarity_is_the_same_above_its_bound() -> None:
    texts = [ROOM, "You are in room 3.", "A dragon sleeps.", "", "You are in room 2. There is no key."]
    for one in texts:
        for other in texts:
            exact = similar(one, other)
            fast = similar(one, other, least=0.6)
            assert fast == exact if exact >= 0.6 else fast < 0.6


def grown(notes: TurnNotes) -> tuple[Trajectory, ...]:
    """Two episodes with notes and one without, and forks of the first and of the last."""

    def grow(number: int, members: Sequence[Trajectory]) -> list[EpisodeOrder]:
        if number == 0:
            return [EpisodeOrder(2, notes=notes), EpisodeOrder(1)]
        if number == 1:
            return [EpisodeOrder(1, Fork(members[at], 2)) for at in (0, 2)]
        return []

    sampler = Wanderer(tokenizer=Bytes(), parser="bare")
    (group,) = rollout(Agent(max_turns=6), sampler, [GroupSpec("open-4-2", 1, 3, grow=grow)], make=Corridor)
    return group.trajectories


def test_episodes_show_notes_where_they_belong_and_forks_show_those_of_their_parents() -> None:
    plain = grown(TurnNotes(()))[0]
    seen = list(dict.fromkeys(turn.observation for turn in plain.turns))
    notes = TurnNotes(((1, tuple((text, f"Note {number}.") for number, text in enumerate(seen))),), alike=0.99)
    members = grown(notes)
    shown = 0
    for member in members:
        noted = member.notes
        assert noted == ("#2" not in member.id)
        assert member.plain != (noted or member.fork_of is not None)
        for turn in member.turns:
            text = without_hint(turn.observation)
            assert turn.observation == hinted(text, notes.about(text) if noted else "")
            shown += turn.observation != text
        assert from_json(to_json(member)) == member
        assert member.stop != "error"
        dialogue = Dialogue(Agent(max_turns=6), Bytes())  # an audit builds the prompts again, without the notes
        for turn in member.turns:
            view = dialogue.view_of(turn)
            assert dialogue.prompt(view).ids == turn.prompt
            dialogue.add(view, turn.text, turn.action, turn.response)
    assert shown
    assert sum(member.fork_of is not None for member in members) == 2
