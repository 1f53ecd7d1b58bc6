"""Actions of the shell environment: commands, submissions and invalid text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs.bash.actions import LONGEST, ShellCommand, Submission, parse_action
from turncredit.envs.info import fits

COMMANDS = {
    "ls": "ls",
    "  ls -l \n": "ls -l",
    "```bash\nls\nwc -l a\n```": "ls\nwc -l a",
    "```\nls\n```\n": "ls",
    "submitted=1": "submitted=1",
    "echo submit": "echo submit",
    "a\tb\r\nc": "a\tb\nc",
    "echo é語🙂": "echo é語🙂",
}
ENDS = {
    "submit": "",
    " submit ": "",
    "submit 12": "12",
    "submit\n12\n": "12",
    "submit  two words": "two words",
    "```\nsubmit 3\n```": "3",
}
WRONG = {
    "": "empty",
    " \n": "empty",
    "```\n```": "empty",
    "a\0b": r"'\\x00'",
    "a\x1bb": r"'\\x1b'",
    "x" * (LONGEST + 1): "8,000 characters, and this one has 8,001",
    "echo \ud800": "at character 5",
}


@pytest.mark.parametrize(("said", "command"), COMMANDS.items())
def test_commands_are_taken_as_they_stand(said: str, command: str) -> None:
    assert parse_action(said) == ShellCommand(command)


@pytest.mark.parametrize(("said", "answer"), ENDS.items())
def test_submit_ends_with_or_without_an_answer(said: str, answer: str) -> None:
    assert parse_action(said) == Submission(answer)


@pytest.mark.parametrize(("said", "words"), WRONG.items(), ids=range(len(WRONG)))
def test_what_is_no_action_is_told_why(said: str, words: str) -> None:
    found = parse_action(said)
    assert isinstance(found, str)
    assert words.replace("\\\\", "\\") in found


@given(st.text())
def test_any_text_is_an_action_or_a_reason(said: str) -> None:
    found = parse_action(said)
    assert isinstance(found, ShellCommand | Submission | str)
    if isinstance(found, ShellCommand):
        assert fits(found.text, ["..."])
        assert found.text
