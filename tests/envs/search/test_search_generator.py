"""Generated worlds: disjoint splits, consistent passages, questions with one answer."""

import pytest

from turncredit.envs.search.env import SearchEnv
from turncredit.envs.search.generator import PRESETS, Entity, QuestionGenerator, world
from turncredit.envs.search.generator.relations import KINDS, RELATIONS, SORTS, VALUES
from turncredit.envs.search.reader_demonstrator import ReaderDemonstrator, parse_question
from turncredit.envs.search.sources import GeneratedQuestions


@pytest.mark.parametrize("level", ["tiny", "small"])
def test_no_name_is_in_worlds_of_both_splits(level):
    names = {
        split: {entity.name for number in range(8) for entity in world(split, level, number).entities}
        for split in ("train", "held_out")
    }
    assert not names["train"] & names["held_out"]


@pytest.mark.parametrize("level", ["tiny", "small", "medium"])
def test_worlds_are_of_their_size_and_names_are_unique(level):
    about = world("held_out", level)
    assert len(about.corpus) == PRESETS[level].passages
    assert len({entity.name for entity in about.entities}) == len(about.entities)
    for entity in about.entities:
        text = about.corpus[entity.id].text
        assert text.endswith(".")
        assert "{" not in text
        for relation in entity.told:
            reached = entity.truth[relation.name]
            assert (reached.name if isinstance(reached, Entity) else reached) in text


def test_times_fit_together():
    for entity in world("train", "small").entities:
        if entity.kind == "work":
            assert int(entity.truth["released"]) - int(entity.truth["author"].truth["birth"]) >= 22
        if "teacher" in entity.truth:
            assert int(entity.truth["teacher"].truth["birth"]) <= int(entity.truth["birth"])


@pytest.mark.parametrize("level", ["tiny", "small", "medium"])
def test_answers_follow_from_the_gold_passages_and_from_no_question(level):
    generator = QuestionGenerator("train", f"{level}+worlds=2")
    lengths = set()
    for id in generator.ids(40):
        generated = generator.get(id)
        lengths.add(len(generated.hops))
        assert generated.question.gold == tuple(hop.entity.id for hop in generated.hops)
        for hop, after in zip(generated.hops, generated.hops[1:], strict=False):
            assert hop.leads_to is after.entity
        assert all(hop.relation in hop.entity.told for hop in generated.hops)
        answer = generated.question.answers[0]
        assert answer in generated.world.corpus[generated.question.gold[-1]].text
        assert answer not in generated.question.text
        assert len(set(generated.question.gold)) == len(generated.hops)
    assert lengths == set(range(PRESETS[level].hops[0], PRESETS[level].hops[1] + 1))


@pytest.mark.parametrize("level", ["tiny", "small", "medium"])
def test_a_question_comes_apart_in_one_way_the_one_in_which_it_was_made(level):
    generator = QuestionGenerator("held_out", f"{level}+worlds=2")
    for id in generator.ids(150):
        generated = generator.get(id)
        name, steps = parse_question(generated.question.text)
        assert name == generated.hops[0].entity.name
        assert [step.relation.name for step in steps] == [hop.relation.name for hop in generated.hops]


@pytest.mark.parametrize(("level", "form", "count"), [("tiny", "brackets", 100), ("small+worlds=4", "tags", 60)])
def test_a_reader_who_knows_no_more_than_the_agent_wins(level, form, count):
    env = SearchEnv(GeneratedQuestions(level=level, split="held_out"), form=form)
    won = 0
    for task in env.task_ids(count):
        observation, info = env.reset(options={"task": task})
        reader = ReaderDemonstrator()
        reader.start(observation)
        for _ in range(5):
            observation, _, over, _, info = env.step(reader.act(observation, info["admissible_actions"]))
            if over:
                break
        won += info["won"]
    assert won >= 0.95 * count


@pytest.mark.parametrize("level", ["tiny", "small+worlds=4"])
def test_the_expert_finds_every_gold_passage_through_the_search(level):
    env = SearchEnv(GeneratedQuestions(level=level, split="held_out"))
    found = 0
    for task in env.task_ids(60):
        env.reset(options={"task": task})
        shown = set()
        for action in env.plan():
            *_, info = env.step(action)
            shown |= set(info["state"].removeprefix("read=").split(","))
        assert info["won"]
        found += set(env.task.question.gold) <= shown
    assert found >= 57


def test_words_of_relations_fit_their_kinds():
    assert {one.subject for one in RELATIONS} == set(KINDS)
    for one in RELATIONS:
        assert one.object in (*KINDS, *VALUES, "year")
        assert bool(one.phrases) == (one.object in KINDS)
        assert all(text.count("{s}") == 1 for text in (*one.says, *one.asks, *one.phrases))
        assert all(text.count("{o}") == 1 for text in (*one.says, *one.mentions))
        assert all(text.endswith("?") for text in one.asks)
        assert not one.phrases or one.phrases[0].endswith("{s}")
        if one.subject not in SORTS:
            assert "{kind}" not in "".join((*one.says, *one.asks, *one.phrases))
