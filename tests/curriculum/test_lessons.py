"""Lessons: how the library changes, who writes lessons, and which group rules show them or replay episodes."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_annotation import GROUPS, Judge, annotations
from test_experience import episode

from turncredit.agents.prompts.hints import TurnNotes
from turncredit.credit import BadOption
from turncredit.curriculum import GroupRule, Growth, OpenGroup
from turncredit.curriculum.annotators.catalogue import get_annotator
from turncredit.curriculum.annotators.teachers import edits_in
from turncredit.curriculum.errors import BadSetting, CurriculumError
from turncredit.curriculum.group_rules.catalogue import get_group_rule
from turncredit.curriculum.growth import decide
from turncredit.curriculum.lessons import Lesson, LessonEdit, LessonLibrary, nearest
from turncredit.curriculum.stored_episodes import Index, StoredEpisode


def texts(library):
    return [lesson.text for lesson in library.lessons]


def test_edits_are_applied_in_order():
    library = LessonLibrary()
    library.apply([LessonEdit("add", "look first"), LessonEdit("add", "take one thing"), LessonEdit("add", "  ")], 0)
    library.apply([LessonEdit("update", "look twice", "L0"), LessonEdit("delete", id="L1")], 1)
    assert [(lesson.id, lesson.text, lesson.iteration) for lesson in library.lessons] == [("L0", "look twice", 1)]
    library.apply([LessonEdit("update", "of an unknown id", "L9")], 2)
    assert [lesson.id for lesson in library.lessons] == ["L0", "L2"]


def test_lessons_that_say_the_same_are_one():
    library = LessonLibrary()
    library.apply(
        [LessonEdit("add", "open the drawer first", score=1.0), LessonEdit("add", "open the drawer first!", score=3.0)],
        0,
    )
    assert [(lesson.text, lesson.score) for lesson in library.lessons] == [("open the drawer first", 3.0)]
    library.apply([LessonEdit("add", "open the drawer first", kind="warning")], 0)
    assert len(library.lessons) == 2


def test_the_least_worthy_leaves():
    library = LessonLibrary(most=2)
    library.apply([LessonEdit("add", word * 9, score=score) for word, score in (("a", 2.0), ("b", 1.0), ("c", 1.0))], 0)
    assert texts(library) == ["aaaaaaaaa", "ccccccccc"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "update", "delete"]),
            st.text(max_size=9),
            st.sampled_from(["L0", "L1", "x", ""]),
            st.floats(-1, 1),
        ),
        max_size=20,
    )
)
def test_a_library_is_bounded_and_survives_a_checkpoint(edits):
    library = LessonLibrary(most=3)
    library.apply([LessonEdit(operation, text, name, score=score) for operation, text, name, score in edits], 0)
    assert len(library.lessons) <= 3
    assert len({lesson.id for lesson in library.lessons}) == len(library.lessons)
    resumed = LessonLibrary(most=3)
    resumed.load_state(json.loads(json.dumps(library.state())))
    assert resumed == library


def test_the_nearest_lessons_come_first():
    lessons = [Lesson("L0", "one", key="a red door"), Lesson("L1", "two", key="a blue cup"), Lesson("L2", "three")]
    assert [lesson.id for lesson in nearest(lessons, "a red door", 2)] == ["L0", "L1"]
    assert [lesson.id for lesson in nearest(lessons, "a red door", 3, alike=0.9)] == ["L0", "L2"]


def test_impossible_libraries_are_refused():
    with pytest.raises(BadSetting, match=r"alike in \(0, 1\]; got most=1, alike=2"):
        LessonLibrary(most=1, alike=2)


# -- who writes them --


def test_training_free_grpo_compares_mixed_groups_alone(tmp_path):
    def answer(text):
        if "Summarize" in text:
            return "It opened the door."
        if "Proposals" in text:
            return 'Fine: [{"operation": "ADD", "text": "Doors: open them."}, {"operation": "delete", "id": "[L7]"}]'
        assert "Attempt that succeeded" in text
        assert "Attempt that failed" in text
        return "Doors: open them first.\nno lesson"

    judge = Judge(answer)
    notes, _ = annotations(tmp_path, judge, get_annotator("training_free_grpo")).of(GROUPS, [Lesson("L7", "old")])
    assert notes[0].edits == (LessonEdit("add", "Doors: open them."), LessonEdit("delete", id="L7"))
    assert len(judge.texts) == 4, "two summaries, a comparison and a merge; the group that won has nothing to compare"
    assert "[L7] old" in judge.texts[-1]


def test_proposals_are_added_where_the_merge_cannot_be_read(tmp_path):
    judge = Judge(lambda text: "Doors: open them." if "Proposals" not in text else "I merged them.")
    notes, _ = annotations(tmp_path, judge, get_annotator("training_free_grpo")).of(GROUPS)
    assert notes[0].edits == (LessonEdit("add", "Doors: open them."),)
    assert edits_in('[{"operation": 3}]') == ()
    assert edits_in("[1]") is None


@pytest.mark.parametrize("name", ["training_free_grpo", "reflect"])
@pytest.mark.parametrize("words", [0, -3, 2.5])
def test_a_limit_of_words_is_a_positive_whole_number(tmp_path, name, words):
    judge = Judge(lambda text: pytest.fail("nothing is asked"))
    with pytest.raises(BadOption, match="words must be an integer >= 1"):
        annotations(tmp_path, judge, get_annotator(name, words=words)).of(GROUPS)


def test_warnings_are_about_the_last_state(tmp_path):
    notes, _ = annotations(tmp_path, Judge(lambda text: "Look first."), get_annotator("reflect")).of(GROUPS)
    assert notes[0].edits == (LessonEdit("add", "Look first.", kind="warning", key="a door", score=1.0),)


def test_failed_attempts_are_kept_by_task(tmp_path):
    notes, costs = annotations(tmp_path, None, get_annotator("attempts")).of(GROUPS)
    (edit,) = notes[0].edits
    assert (edit.kind, edit.key) == ("attempt", "a")
    assert costs["questions"] == 0


# -- who shows them --

LESSONS = (Lesson("L0", "look", score=1.0), Lesson("L1", "take", score=2.0), Lesson("L2", "lost", "attempt", "a"))


def group(rewards=(), stored=(), round=None, **more):
    members = tuple(episode(f"a#{n}@7", reward) for n, reward in enumerate(rewards))
    return OpenGroup(
        "a", 4, len(members) and 1 if round is None else round, members, stored=Index(tuple(stored)), **more
    )


def test_lessons_are_the_hint_of_every_episode():
    (order,) = get_group_rule("lessons", most=1)(group(lessons=LESSONS)).more
    assert (order.episodes, order.hint) == (4, "Lessons from earlier attempts:\n- take")
    assert get_group_rule("lessons")(group()) == Growth()
    assert get_group_rule("lessons")(group([1.0], lessons=LESSONS)) == Growth()


def test_a_failed_attempt_is_shown_where_a_task_is_seldom_won():
    rule = get_group_rule("self_reflection")
    (order,) = rule(group(lessons=LESSONS, record={"success": 0.25})).more
    assert order.hint.endswith("\nlost")
    assert rule(group(lessons=LESSONS, record={"success": 0.75})) == Growth()
    assert rule(group(lessons=LESSONS)) == Growth()
    assert rule(group(lessons=LESSONS, options={"reflect": True})).more


# -- stored episodes --

STORED = [StoredEpisode("s0", "a", 0, 1.0, 0.5, True, 3, 9), StoredEpisode("s1", "a", 0, 0.0, -0.5, False, 3, 9)]


def test_a_stored_success_replaces_a_failure():
    growth = get_group_rule("arpo_gui")(group([0.0, 0.0, 0.0], STORED))
    assert growth.replay == ("s0",)
    assert growth.keep == growth.counted == {"a#1@7", "a#2@7"}
    assert get_group_rule("arpo_gui")(group([1.0, 0.0], STORED)) == Growth()
    assert get_group_rule("arpo_gui")(group([0.0, 0.0])) == Growth()


def test_the_opposite_outcome_joins_a_group_that_ended_alike():
    rule = get_group_rule("r3_ccr")
    assert rule(group([0.0, 0.0], STORED)).replay == ("s0",)
    assert rule(group([1.0, 1.0], STORED)).replay == ("s1",)
    assert rule(group([1.0, 0.0], STORED)) == Growth()


def test_stored_episodes_take_the_place_of_a_group_that_teaches_nothing():
    growth = get_group_rule("ssb", share=1.0)(group([1.0, 1.0], STORED))
    assert (growth.replay, growth.keep, growth.counted) == (("s0", "s1"), frozenset(), frozenset())
    assert get_group_rule("ssb", share=0.0)(group([1.0, 1.0], STORED)) == Growth()


def test_what_several_rules_replay_is_joined_and_checked():
    rules = [get_group_rule("r3_ccr"), get_group_rule("arpo_gui")]
    assert decide(rules, group([0.0, 0.0], STORED)).replay == ("s0",)
    wrong = GroupRule("mine", "Mine", None, "our reading", "", lambda group: Growth(replay=("s9",)))
    with pytest.raises(CurriculumError, match="replays 's9', which is not stored for the task"):
        wrong(group([0.0], STORED))


@pytest.mark.parametrize("name", ["arpo_gui", "r3_ccr", "ssb", "lessons", "self_reflection"])
def test_the_same_group_gets_the_same_answer(name):
    rule = get_group_rule(name)
    for rewards in ([], [0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0]):
        answers = [
            rule(group(rewards, STORED, lessons=LESSONS, record={"success": 0.0}, rng=np.random.default_rng(5)))
            for _ in range(2)
        ]
        assert answers[0] == answers[1]


def test_lessons_are_shown_at_turns_like_their_states() -> None:
    """Golden lessons and experience on one shelf, warnings on another; those about everything are left out."""
    rule = get_group_rule("slea")
    told = (
        Lesson("L0", "Go on.", "experience", "A hall.", 1.0),
        Lesson("L1", "Wait.", "golden", "A hall.", 2.0),
        Lesson("L2", "Not there.", "warning", "A cave.", 0.0),
        Lesson("L3", "Be quick.", "experience", "", 9.0),
    )
    (request,) = rule(OpenGroup("t", 4, lessons=told)).more
    assert request.episodes == 4
    assert request.notes == TurnNotes(
        ((2, (("A hall.", "Wait."), ("A hall.", "Go on."))), (1, (("A cave.", "Not there."),))), 0.85, 800
    )
    assert not rule(OpenGroup("t", 4, lessons=told[3:])).more
    assert not rule(OpenGroup("t", 4, 1, lessons=told)).more
