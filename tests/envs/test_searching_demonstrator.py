"""The searching demonstrator plays from texts alone, wins, and looks where things usually are."""

import random
from pathlib import Path

import pytest
from household_games import fresh, originals

from turncredit.envs.errors import EnvError
from turncredit.envs.household.engine import World
from turncredit.envs.household.expert import plan
from turncredit.envs.household.searching_demonstrator import ParsedTask, SearchingDemonstrator, prior_of, read_task


def episode(world: World, searcher: SearchingDemonstrator, most: int = 50, noise: float = 0.0, seed: int = 0) -> int:
    """Number of steps until the searcher wins; `most` + 1 when it does not."""
    rng = random.Random(seed)
    text = world.reset()
    searcher.start(text)
    for step in range(most):
        admissible = world.admissible()
        action = searcher.act(text, admissible)
        assert action in admissible
        text = world.step(rng.choice(admissible) if rng.random() < noise else action)
        if world.won:
            return step + 1
    return most + 1


@pytest.mark.parametrize("preset", ["tiny", "small", "medium", "large"])
def test_the_searcher_wins_generated_games(preset: str):
    steps = [episode(fresh("train", index, preset), SearchingDemonstrator(), most=120) for index in range(30)]
    assert max(steps) <= 120


def test_the_searcher_searches_and_the_expert_does_not():
    worlds = [fresh("train", index, "small") for index in range(40)]
    assert sum(episode(world, SearchingDemonstrator()) for world in worlds) > 1.2 * sum(
        len(plan(_reset(world))) for world in worlds
    )


def _reset(world: World) -> World:
    world.reset()
    return world


def test_knowing_where_things_are_usually_found_saves_steps():
    worlds = [fresh("train", index, "small+strays=0.0") for index in range(60)]
    informed = sum(episode(world, SearchingDemonstrator()) for world in worlds)
    ignorant = sum(episode(world, SearchingDemonstrator(prior={})) for world in worlds)
    assert informed < ignorant


def test_the_searcher_recovers_from_other_peoples_actions():
    won = [
        episode(fresh("train", index, "small"), SearchingDemonstrator(), most=150, noise=0.3, seed=index)
        for index in range(40)
    ]
    assert sum(steps <= 150 for steps in won) >= 38


def test_the_same_episode_is_played_the_same_way():
    first, second = (episode(fresh("train", 5, "medium"), SearchingDemonstrator(), most=100) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("sentence", "task"),
    [
        ("put a mug in desk.", ParsedTask("mug", "desk")),
        ("put some book on bed.", ParsedTask("book", "bed")),
        ("put a hot egg in sink.", ParsedTask("egg", "sink", "heat")),
        ("cool some pan and put it in stoveburner.", ParsedTask("pan", "stoveburner", "cool")),
        ("clean some cloth and put it in bathtubbasin.", ParsedTask("cloth", "bathtubbasin", "clean")),
        ("put two cd in safe.", ParsedTask("cd", "safe", count=2)),
        ("find two pen and put them in drawer.", ParsedTask("pen", "drawer", count=2)),
        ("look at laptop under the desklamp.", ParsedTask("laptop", "desklamp", light=True)),
        ("examine the bowl with the desklamp.", ParsedTask("bowl", "desklamp", light=True)),
    ],
)
def test_all_phrasings_are_read(sentence: str, task: ParsedTask):
    assert read_task(sentence) == task


def test_other_sentences_are_refused():
    with pytest.raises(EnvError, match="template goals"):
        read_task("Chill the mug, please.")
    with pytest.raises(EnvError, match="first observation"):
        SearchingDemonstrator().start("You arrive at bed 1.")


def test_priors_say_where_things_lie():
    prior = prior_of(fresh("train", index, "small").game for index in range(150))
    assert max(prior["egg"], key=prior["egg"].__getitem__) == "fridge"
    assert prior["book"].get("fridge", 0) == 0


def test_the_searcher_wins_original_games(data_dir: Path):
    games = list(originals(data_dir, 100, 7))
    prior = prior_of(originals(data_dir, 100, 8))
    steps = [episode(World(game), SearchingDemonstrator(prior), most=200) for game in games]
    assert sum(count <= 200 for count in steps) >= 0.97 * len(games)
