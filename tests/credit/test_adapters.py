"""Other trainers' arrays, lists and frames: to the table, back to their tokens, and refused when they do not fit."""

import json
from pathlib import Path

import numpy as np
import pytest

from turncredit.credit import Advantages, BadTable, Steps, gigpo, grpo, rloo, tempo
from turncredit.credit.adapters import from_frame, from_sequences, from_trl, from_verl, with_advantages
from turncredit.credit.adapters.packed import runs

# Two tasks; in the first, a wins in two turns and b loses in one. Rows in no order, padding on the right.
VERL = {
    "uid": np.array(["g", "h", "g", "g", "h"], dtype=object),
    "traj_uid": np.array(["a", "c", "b", "a", "d"], dtype=object),
    "turn": np.array([1, 0, 0, 0, 0]),
    "rewards": np.array([1.0, 5.0, 0.0, 0.0, 7.0]),
    "anchor_obs": np.array(["door", "hall", "hall", "hall", "hall"], dtype=object),
    "response_mask": np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 0, 0], [1, 1, 0]]),
}
ROWS = [
    {"task": "g", "trajectory": "a", "turn": 1, "reward": 1.0, "state": "door"},
    {"task": "h", "trajectory": "c", "turn": 0, "reward": 5.0, "state": "hall"},
    {"task": "g", "trajectory": "b", "turn": 0, "reward": 0.0, "state": "hall"},
    {"task": "g", "trajectory": "a", "turn": 0, "reward": 0.0, "state": "hall"},
    {"task": "h", "trajectory": "d", "turn": 0, "reward": 7.0, "state": "hall"},
]


def test_a_row_a_turn_there_and_back():
    packed = from_verl(**VERL)
    wanted = gigpo(Steps.from_rows(ROWS)).values
    assert gigpo(packed.steps).values.tolist() == wanted.tolist()
    assert packed.tokens(gigpo(packed.steps)).tolist() == (wanted[:, None] * VERL["response_mask"]).tolist()
    assert packed.steps.column("tokens").tolist() == [2, 1, 3, 1, 2]


PEER = json.loads((Path(__file__).parent / "verl_agent_gigpo.json").read_text())["cases"]


@pytest.mark.parametrize("case", [case for case in PEER if case["agrees"]], ids=lambda case: case["name"])
def test_the_published_figures_come_out_of_the_trainers_own_arrays(case):
    """Rows as that trainer hands them to its advantage function; turns are numbered where it has shuffled its rows."""
    count = len(case["reward"])
    copies = [case["copies"].get(str(row), -1) for row in range(count)]
    mask = np.arange(3) <= np.arange(count)[:, None] % 3
    packed = from_verl(
        uid=case["task"], traj_uid=case["trajectory"], rewards=case["reward"], anchor_obs=case["state"],
        is_action_valid=[row not in case["invalid"] for row in range(count)], duplicate_of_row=copies,
        turn=case["turn"] if "shuffled" in case["name"] else None, response_mask=mask,
    )  # fmt: skip
    found = packed.tokens(gigpo(packed.steps, compat="verl-agent", **case["options"]))
    assert found == pytest.approx(np.asarray(case["expected"]["advantage"])[:, None] * mask, rel=1e-4, abs=1e-4)
    assert packed.gather(found) == pytest.approx(case["expected"]["advantage"], rel=1e-4, abs=1e-4)


def test_rewards_on_tokens_are_summed_over_the_trained_tokens_of_the_row():
    mask, rng = VERL["response_mask"].astype(bool), np.random.default_rng(0)
    on_tokens = np.where(mask, rng.normal(size=mask.shape), 100.0)
    packed = from_verl(**{**VERL, "rewards": None, "token_level_rewards": on_tokens})
    wanted = [
        sum(value for value, inside in zip(*row, strict=True) if inside) for row in zip(on_tokens, mask, strict=True)
    ]
    assert packed.steps.reward.tolist() == pytest.approx(wanted, abs=1e-12)
    on_tokens[~mask] = np.nan  # what lies there is nobody's
    again = from_verl(**{**VERL, "rewards": None, "token_level_rewards": on_tokens})
    assert again.steps.reward.tolist() == packed.steps.reward.tolist()


def test_an_empty_response_has_the_reward_that_was_paid_for_it():
    """verl writes the reward at the last token of a response, which is the last column where there is none."""
    mask, paid = [[1, 1, 0], [0, 0, 0], [1, 0, 0]], [[0, 1.0, 9.0], [0, 0, -1.0], [0.5, 9.0, 9.0]]
    verl = from_verl(uid=[0] * 3, traj_uid=[0, 1, 2], response_mask=mask, token_level_rewards=paid)
    assert verl.steps.reward.tolist() == [1.0, -1.0, 0.5]
    wanted = pytest.approx(np.array([[1.25, 1.25, 0.0], [0.0] * 3, [0.5, 0.0, 0.0]]))  # minus the mean of the others
    assert verl.tokens(rloo(verl.steps)) == wanted
    paid = [[0, 1.0, 0.0], [0, 0, -1.0], [0.5, 0.0, 0.0]]
    rows = from_sequences(uid=[0] * 3, response_mask=mask, token_level_rewards=paid)
    assert rows.steps.reward.tolist() == [1.0, -1.0, 0.5]
    assert rows.steps.column("tokens").tolist() == [2, 0, 1]
    assert rows.tokens(rloo(rows.steps)) == wanted


def test_without_turns_the_order_of_rows_is_time():
    packed = from_verl(uid=[0, 0, 0, 0], traj_uid=["a", "b", "a", "a"], rewards=[0, 0, 0, 1.0],
                       response_mask=np.ones((4, 1)))  # fmt: skip
    assert packed.steps.turn.tolist() == [0, 0, 1, 2]
    with pytest.raises(BadTable, match="are both turn 0 of trajectory 'a'"):
        from_verl(**{**VERL, "turn": np.zeros(5, dtype=int)})


def test_rows_that_are_not_active_get_nothing_and_change_nothing():
    longer = {name: np.concatenate([column[:2], column[1:2], column[2:]]) for name, column in VERL.items()}
    longer["rewards"][2], longer["traj_uid"][2] = 1e9, "finished"
    active = np.array([True, True, False, True, True, True])
    packed = from_verl(**longer, active_masks=active)
    assert len(packed.steps) == 5
    found = packed.tokens(gigpo(packed.steps))
    assert not found[2].any()
    usual = from_verl(**VERL)
    assert found[active].tolist() == usual.tokens(gigpo(usual.steps)).tolist()
    assert packed.mask(gigpo(packed.steps))[2].tolist() == [False] * 3


def test_copies_are_marked_by_rows_of_the_batch():
    """The copy of row 3 stands behind an inactive row, so that the table's row numbers differ from the batch's."""
    longer = {name: np.concatenate([column, column[:1], column[3:4]]) for name, column in VERL.items()}
    longer["traj_uid"][5] = "finished"
    packed = from_verl(**longer, active_masks=[1, 1, 1, 1, 1, 0, 1], duplicate_of_row=[-1] * 6 + [3])
    assert packed.steps.source.tolist() == [0, 1, 2, 3, 4, 3]
    usual = gigpo(Steps.from_rows(ROWS)).values
    assert gigpo(packed.steps).values.tolist() == [*usual.tolist(), usual[3]]
    without_turns = {name: column for name, column in longer.items() if name != "turn"}
    again = from_verl(**without_turns, active_masks=[1, 1, 1, 1, 1, 0, 1], duplicate_of_row=[-1] * 6 + [3])
    assert again.steps.turn.tolist() == [0, 0, 0, 1, 0, 1]
    with pytest.raises(BadTable, match="refers to an inactive row"):
        from_verl(**longer, active_masks=[1, 1, 1, 1, 1, 0, 1], duplicate_of_row=[-1] * 6 + [5])
    with pytest.raises(BadTable, match="must be a row number"):
        from_verl(**longer, duplicate_of_row=[-1] * 6 + [70])


def test_numbers_of_tokens_are_averaged_over_each_turns_own():
    logprobs = np.where(VERL["response_mask"], [[-1.0, -3.0, -5.0]], np.nan)
    packed = from_verl(**VERL, old_log_probs=logprobs, entropys=-logprobs)
    assert packed.steps.column("logprob").tolist() == [-2.0, -1.0, -3.0, -1.0, -2.0]
    assert packed.steps.column("entropy").tolist() == [2.0, 1.0, 3.0, 1.0, 2.0]


def test_tensors_come_in_as_they_are():
    torch = pytest.importorskip("torch")
    tensors = {
        "response_mask": torch.tensor(VERL["response_mask"]), "rewards": torch.tensor(VERL["rewards"]).bfloat16(),
        "turn": torch.tensor(VERL["turn"]), "active_masks": torch.ones(5, dtype=torch.bool),
        "old_log_probs": torch.zeros((5, 3), requires_grad=True),
    }  # fmt: skip
    packed = from_verl(**{**VERL, **tensors})
    assert packed.tokens(gigpo(packed.steps)).tolist() == from_verl(**VERL).tokens(gigpo(packed.steps)).tolist()


@pytest.mark.parametrize(("change", "said"), [
    ({"rewards": None}, "pass exactly one of rewards"),
    ({"token_level_rewards": np.zeros((5, 3))}, "pass exactly one of rewards"),
    ({"rewards": np.zeros(4)}, r"rewards must have shape \(5,\), got \(4,\)"),
    ({"uid": ["g"] * 4}, "uid must have 5 values, one per row, got 4"),
    ({"uid": "ggggg"}, "uid must have one value per row, got str"),
    ({"response_mask": np.ones(5)}, "response_mask must have 2 dimensions"),
    ({"response_mask": np.full((5, 3), 2)}, "response_mask must be True or False"),
    ({"active_masks": np.ones(4)}, "active_masks must have 5 rows"),
    ({"is_action_valid": [1, 1, 1, 1, 7]}, "'valid' must be True or False"),
    ({"old_log_probs": np.full((5, 3), np.nan)}, "old_log_probs must be finite, but 9 of 15"),
    ({"vaild": [True] * 5}, "did you mean 'valid'"),
])  # fmt: skip
def test_batches_that_do_not_fit_are_refused_by_name(change, said):
    with pytest.raises(BadTable, match=said):
        from_verl(**{**VERL, **change})


def test_an_empty_batch():
    packed = from_verl(uid=[], traj_uid=[], rewards=[], response_mask=np.zeros((0, 4)), anchor_obs=[])
    assert packed.tokens(gigpo(packed.steps)).shape == (0, 4)
    packed = from_sequences(uid=[], rewards=[], response_mask=np.zeros((0, 4)))
    assert packed.tokens(grpo(packed.steps)).shape == (0, 4)
    packed = from_trl([], [], [], num_generations=4)
    assert packed.tokens(grpo(packed.steps)).shape == (0, 1)


# --- the way back ----------------------------------------------------------------------------------------------------


def test_weights_and_dropped_turns_reach_the_tokens():
    packed = from_sequences(uid=[0], response_mask=[[1, 0, 1, 1]], rewards=[1.0])
    advantages = Advantages.of(
        packed.steps, np.array([3.0, 4.0]), keep=np.array([False, True]), weight=np.array([1.0, 0.5])
    )
    assert packed.tokens(advantages).tolist() == [[0.0, 0.0, 2.0, 2.0]]
    assert packed.mask(advantages).tolist() == [[False, False, True, True]]
    assert packed.spread(np.array([3.0, 4.0])).tolist() == [[3.0, 0.0, 4.0, 4.0]]
    assert packed.gather(np.array([[3.0, np.nan, 4.0, 6.0]])).tolist() == [3.0, 5.0]
    with pytest.raises(BadTable, match="this batch has 2 turns, got 3 values"):
        packed.spread(np.zeros(3))
    with pytest.raises(BadTable, match=r"values must have shape \(1, 4\)"):
        packed.gather(np.zeros((2, 4)))


def test_runs():
    row, start, place = runs(np.array([[0, 1, 1, 0, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]], dtype=bool))
    assert row.tolist() == [0, 0, 2]
    assert start.tolist() == [1, 4, 0]
    assert place.tolist() == [[-1, 0, 0, -1, 1], [-1] * 5, [2, -1, -1, -1, -1]]


# --- a row a conversation --------------------------------------------------------------------------------------------

TALK = {"uid": ["g", "g"], "response_mask": np.array([[0, 1, 1, 0, 1, 0], [1, 0, 1, 0, 1, 0]])}


def test_runs_of_trained_tokens_are_turns():
    packed = from_sequences(**TALK, rewards=[1.0, 0.0], state=[["s", "t"], ["s", "t", "u"]])
    assert packed.steps.turn.tolist() == [0, 1, 0, 1, 2]
    assert packed.steps.trajectory.tolist() == [0, 0, 1, 1, 1]
    assert packed.steps.reward.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]
    assert packed.steps.column("tokens").tolist() == [2, 1, 1, 1, 1]
    found = packed.tokens(gigpo(packed.steps, scale="none", gamma=1.0))
    assert found.tolist() == [[0.0, 1.0, 1.0, 0.0, 1.0, 0.0], [-1.0, 0.0, -1.0, 0.0, -0.5, 0.0]]


def test_a_reward_on_an_answer_belongs_to_the_turn_before():
    paid = np.array([[0.5, 0, 1, 2, 0, 4], [0, 0, 0, 3, 0, 0.0]])
    packed = from_sequences(**TALK, token_level_rewards=paid)
    assert packed.steps.reward.tolist() == [3.5, 4.0, 0.0, 3.0, 0.0]
    assert packed.steps.reward.sum() == paid.sum()
    half = from_sequences(**TALK, token_level_rewards=paid, active_masks=[False, True])
    assert half.steps.reward.tolist() == [0.0, 3.0, 0.0]
    other = from_sequences(**TALK, token_level_rewards=paid, active_masks=[True, False])
    assert other.steps.reward.tolist() == [3.5, 4.0]
    assert (other.place[1] == -1).all()


def test_columns_of_conversations_are_lists_a_row_or_one_value():
    packed = from_sequences(
        **TALK,
        turn_rewards=[[1.0, 2.0], [3.0, 4.0, 5.0]],
        tree=["x", "y"],
        value=[[0.1, 0.2], np.array([0.3, 0.4, 0.5])],
    )
    assert packed.steps.reward.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert packed.steps.column("value").tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert [packed.steps.names["tree"][code] for code in packed.steps.column("tree")] == ["x", "x", "y", "y", "y"]
    averaged = from_sequences(**TALK, rewards=[0, 0], old_log_probs=[[9, -1, -2, 9, -3, 9], [-4, 9, -5, 9, -6, 9]])
    assert averaged.steps.column("logprob").tolist() == [-1.5, -3.0, -4.0, -5.0, -6.0]


@pytest.mark.parametrize(("change", "said"), [
    ({}, "pass exactly one of .* got none"),
    ({"rewards": [0, 0], "turn_rewards": [[0, 0], [0, 0, 0]]}, "got rewards and turn_rewards"),
    ({"turn_rewards": [[0.0], [0, 0, 0]]}, "row 0 of turn_rewards has 1 values, but 2 turns"),
    ({"rewards": [0, 0], "state": [["s", "t"], ["s"]]}, "row 1 of state has 1 values, but 3 turns"),
    ({"turn_rewards": [[0, 0], [0]], "response_mask": [[0, 0], [1, 1]], "state": [["s"], ["s"]]},
     "row 0 of state has 1 values, but 2 turns"),
    ({"rewards": [0, 0], "stat": [1, 1]}, "did you mean 'state'"),
])  # fmt: skip
def test_conversations_that_do_not_fit_are_refused_by_name(change, said):
    with pytest.raises(BadTable, match=said):
        from_sequences(**{**TALK, **change})


@pytest.mark.parametrize("silent", [[1], [0], [0, 2], [1, 2, 3], [0, 1, 2, 3]])
def test_a_row_without_trained_tokens_counts_in_its_group_and_shifts_nobody(silent):
    mask, outcome = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0]]), [1.0, 1.0, 0.0, 0.0]
    mask[silent] = 0
    packed = from_sequences(uid=[0] * 4, response_mask=mask, rewards=outcome)
    found = packed.tokens(grpo(packed.steps, scale="none"))
    wanted = (np.array(outcome) - 0.5)[:, None] * mask  # the mean of all four, whoever is trained
    assert found.tolist() == wanted.tolist()
    by_turn = [[0.0, 1.0], [2.0], [3.0], [4.0]]
    packed = from_sequences(uid=[0] * 4, response_mask=mask, turn_rewards=by_turn, state=[["s", "t"], "s", "s", "s"])
    assert packed.steps.reward.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert packed.steps.trajectory.tolist() == [0, 0, 1, 2, 3]
    assert packed.steps.turn.tolist() == [0, 1, 0, 0, 0]
    numbers = packed.spread(np.arange(1.0, 6.0))
    assert numbers.tolist() == (mask * np.array([[1, 0, 2], [3, 3, 0], [0, 4, 4], [5, 0, 0]])).tolist()
    inactive = np.array([row not in silent for row in range(4)])
    packed = from_sequences(uid=[0] * 4, response_mask=mask, rewards=outcome, active_masks=inactive)
    assert len(packed.steps) == sum(2 if row == 0 else 1 for row in range(4) if row not in silent)


# --- TRL's lists -----------------------------------------------------------------------------------------------------


def said(*parts):
    roles = {"a": "assistant", "t": "tool"}
    return [{"role": roles[part[0]], "content": part[1:]} for part in parts]


def test_one_turn_completions():
    packed = from_trl(["p"] * 2 + ["q"] * 2, list("wxyz"), [1.0, 0.0, 4.0, 0.0], num_generations=2)
    assert packed.tokens(rloo(packed.steps)).tolist() == [[1.0], [-1.0], [4.0], [-4.0]]
    assert [packed.steps.names["action"][code] for code in packed.steps.column("action")] == list("wxyz")
    masked = from_trl(["p"] * 2, ["w", "x"], [1.0, 0.0], num_generations=2, completion_mask=[[1, 1], [1, 0]])
    assert masked.tokens(rloo(masked.steps)).tolist() == [[1.0, 1.0], [-1.0, 0.0]]


def test_the_same_prompt_twice_is_two_groups():
    packed = from_trl(["p"] * 4, list("wxyz"), [1.0, 0.0, 5.0, 5.0], num_generations=2)
    assert packed.tokens(rloo(packed.steps)).ravel().tolist() == [1.0, -1.0, 0.0, 0.0]


def test_conversations_have_a_turn_for_each_message_of_the_assistant():
    """Both call the same tool and hear the same; then one is right and the other wrong."""
    talks = [said("acall", "t4", "ayes"), said("acall", "t4", "ano")]
    mask = np.array([[1, 1, 0, 1], [1, 1, 0, 1]])
    prompt = [{"role": "user", "content": "?"}]
    packed = from_trl([prompt] * 2, talks, [1.0, 0.0], num_generations=2, completion_mask=mask)
    assert packed.steps.turn.tolist() == [0, 1, 0, 1]
    assert packed.steps.reward.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert packed.steps.column("state").tolist() == [0, 1, 0, 1]
    found = packed.tokens(tempo(packed.steps, scale="none"))
    assert found.tolist() == [[0.5, 0.5, 0.0, 1.0], [-0.5, -0.5, 0.0, -1.0]]


def test_a_completion_that_is_masked_out_counts_in_its_group_and_shifts_nobody():
    talks = [said("acall", "t4", "ayes"), said("acall", "t4", "ano"), said("ax"), said("ay")]
    mask = np.array([[0, 0, 0], [1, 0, 1], [1, 1, 0], [1, 0, 0]])
    packed = from_trl(["p"] * 4, talks, [1.0, 0.0, 0.0, 0.0], num_generations=4, completion_mask=mask)
    assert packed.place.tolist() == [[-1, -1, -1], [2, -1, 3], [4, 4, -1], [5, -1, -1]]
    assert packed.tokens(grpo(packed.steps, scale="none"))[1:, 0].tolist() == [-0.25] * 3


def test_several_reward_functions():
    rewards = [[1.0, None], [0.0, 0.5]]
    packed = from_trl(["p"] * 2, ["x", "y"], rewards, num_generations=2, reward_weights=[2.0, 1.0])
    assert packed.steps.reward.tolist() == [2.0, 0.5]
    assert packed.steps.column("multi").tolist() == [[1.0, 0.0], [0.0, 0.5]]


@pytest.mark.parametrize(("arguments", "options", "message"), [
    ((["p"] * 3, list("xyz"), [0.0] * 3), {}, "num_generations must divide the number of completions, 3"),
    ((["p", "q"], list("xy"), [0.0] * 2), {}, "prompt 1 differs from prompt 0"),
    ((["p"] * 2, list("xyz"), [0.0] * 2), {}, "completions must have 2 values"),
    ((["p"] * 2, list("xy"), [0.0] * 3), {}, r"rewards must have shape \(2,\) or \(2, K\), got \(3,\)"),
    ((["p"] * 2, list("xy"), [0.0, None]), {}, "completion 1 has no reward"),
    ((["p"] * 2, list("xy"), ["a", "b"]), {}, "rewards must be numbers"),
    ((["p"] * 2, list("xy"), [0.0] * 2), {"reward_weights": [1.0, 2.0]}, r"reward_weights must have shape \(1,\)"),
    ((["p"] * 2, [said("t4"), said("ax")], [0.0] * 2), {}, "completion 0 has no assistant message"),
    ((["p"] * 2, [["x"], said("ax")], [0.0] * 2), {}, "each a mapping with a role"),
    ((["p"] * 2, [said("ax", "t", "ay"), said("ax")], [0.0] * 2), {}, "several turns need completion_mask"),
    ((["p"] * 2, list("xy"), [0.0] * 2), {"completion_mask": [[1, 0, 1], [1, 1, 1]]},
     "row 0 of completion_mask has 2 runs of tokens, but 1 assistant turns"),
])  # fmt: skip
def test_lists_that_do_not_fit_are_refused_by_name(arguments, options, message):
    with pytest.raises(BadTable, match=message):
        from_trl(*arguments, **{"num_generations": 2, **options})


# --- frames ----------------------------------------------------------------------------------------------------------

FRAME = {
    "uid": ["g", "g", "g"], "trajectory": [1, 1, 2], "turn": [0, 1, 0], "reward": [0.0, 1.0, 0.0],
    "state": ["x", None, "x"], "valid": [True, True, False], "seconds": [1.5, 2.5, 3.5], "r1": [1.0, 2.0, 3.0],
    "r2": [4.0, 5.0, 6.0],
}  # fmt: skip
NAMES = {"task": "uid", "multi": ["r1", "r2"]}


@pytest.fixture(params=["pandas", "polars"])
def library(request):
    return pytest.importorskip(request.param)


def test_a_frame_there_and_back(library):
    frame = library.DataFrame(FRAME)
    steps = from_frame(frame, NAMES)
    assert steps.names["state"] == ("x", None)
    assert steps.invalid.tolist() == [False, False, True]
    assert steps.column("multi").tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    result = gigpo(steps)
    by_hand = [{"task": "g", "trajectory": k, "turn": t, "reward": r, "state": s, "valid": v} for k, t, r, s, v in
               [(1, 0, 0.0, "x", True), (1, 1, 1.0, None, True), (2, 0, 0.0, "x", False)]]  # fmt: skip
    assert result.values.tolist() == gigpo(Steps.from_rows(by_hand)).values.tolist()
    out = with_advantages(frame, result, parts=True)
    assert type(out) is type(frame)
    assert out["advantage"].to_list() == result.values.tolist()
    assert out["advantage_keep"].to_list() == [True] * 3
    assert out["advantage_step"].to_list() == result.parts["step"].tolist()
    assert "advantage" not in frame.columns
    with pytest.raises(BadTable, match="the frame has 2 rows, but there are 3 advantages"):
        with_advantages(frame[:2], result)


def test_an_empty_frame(library):
    frame = library.DataFrame({name: FRAME[name][:0] for name in ("uid", "trajectory", "turn", "reward")})
    assert len(from_frame(frame, {"task": "uid"})) == 0


@pytest.mark.parametrize(("change", "names", "message"), [
    ({}, {}, r"the frame has no column 'task' .*columns=\{'task': ...\}"),
    ({}, {"task": "uidd"}, "the frame has no column 'uidd' for 'task'; did you mean 'uid'"),
    ({}, {"tusk": "uid"}, "unknown column 'tusk'; did you mean 'task'"),
    ({"reward": [0.0, None, 1.0]}, {"task": "uid"}, "column 'reward' .* has no value in 1 rows, the first is row 1"),
    ({"uid": ["g", None, "g"]}, {"task": "uid"}, "column 'uid' .* has no value in 1 rows"),
    ({"vaild": [True] * 3, "valid": None}, {"task": "uid"}, "unknown column 'vaild'; did you mean 'valid'"),
    ({"turn": ["a", "b", "c"]}, {"task": "uid"}, "column 'turn'"),
])  # fmt: skip
def test_frames_that_do_not_fit_are_refused_by_name(library, change, names, message):
    frame = library.DataFrame({name: column for name, column in {**FRAME, **change}.items() if column is not None})
    with pytest.raises(BadTable, match=message):
        from_frame(frame, names)


def test_what_is_no_frame_is_refused():
    with pytest.raises(BadTable, match="expects a pandas or polars DataFrame, got list"):
        from_frame([FRAME])
    polars = pytest.importorskip("polars")
    with pytest.raises(BadTable, match="got LazyFrame; collect it first"):
        from_frame(polars.DataFrame(FRAME).lazy(), NAMES)


def test_kinds_of_columns_that_frames_have(library):
    frame = library.DataFrame(FRAME)
    if library.__name__ == "pandas":
        frame = frame.astype({"uid": "category", "valid": "boolean", "turn": "Int64", "state": "string"})
        frame["multi"] = [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    else:
        frame = frame.with_columns(frame["uid"].cast(library.Categorical), multi=library.concat_list("r1", "r2"))
    steps = from_frame(frame, {"task": "uid"})
    plain = from_frame(library.DataFrame(FRAME), NAMES)
    assert steps.turn.tolist() == plain.turn.tolist()
    assert steps.column("state").tolist() == plain.column("state").tolist()
    assert steps.column("multi").tolist() == plain.column("multi").tolist()
    assert steps.invalid.tolist() == plain.invalid.tolist()


def test_masks_that_a_trainer_has_boxed():
    """What is no tensor travels through such batches as an array of objects."""
    boxed = {
        "is_action_valid": np.array([True, False, True, True, True], dtype=object),
        "active_masks": np.array([True, True, np.True_, np.False_, True], dtype=object),
    }
    packed, wanted = (
        from_verl(**VERL, **{k: v if box else v.astype(bool) for k, v in boxed.items()}) for box in (1, 0)
    )
    assert packed.steps.column("valid").tolist() == wanted.steps.column("valid").tolist() == [True, False, True, True]
    assert packed.place.tolist() == wanted.place.tolist()
    with pytest.raises(BadTable, match="active_masks must be True or False everywhere"):
        from_verl(**VERL, active_masks=np.array([True, None, True, True, True], dtype=object))
