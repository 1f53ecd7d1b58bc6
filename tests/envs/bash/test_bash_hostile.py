"""Commands that leave hostile files or answers behind: every step returns, and the next one works."""

import gzip
from collections.abc import Iterator

import pytest
from toys.hostile_archives import END, member, pax
from toys.sandboxes import LOCAL, needed, needs_box

from turncredit.envs.bash import BashEnv, shell
from turncredit.envs.bash.grading import _archive_contents
from turncredit.envs.errors import EnvError

pytestmark = pytest.mark.waits

FORGE = """n=$(tr '\\0' '\\n' < /proc/$$/cmdline | grep -aE '^[0-9a-f]{16}$'); trap - EXIT; """
COMMANDS = {
    "holes": "for n in $(seq 60); do truncate -s 8M hole$n; done",
    "names": "head -c 8M /dev/zero > a; for n in $(seq 300); do ln a a$n; done",
    "deep": "python3 -c \"import os\nwhile True: os.mkdir('d'); os.chdir('d')\"",
    "many": "mkdir m; cd m; for n in $(seq 3000); do : > $n; done",
    "full": "head -c 64M /dev/zero > /tmp/x; head -c 64M /dev/zero > y",
    "times": "touch -d '9999-12-31' a; touch -d '1900-01-01' b; touch -d @99999999999 c",
    "names of any bytes": "touch $'\\xff\\n\\t' \"$(printf 'x%.0s' $(seq 255))\" ./-rf",
    "a long link": "ln -s $(printf 'x%.0s' $(seq 4000)) long",
    "modes": "mkdir -p a/b; chmod 000 a/b a .",
    "a pipe": "mkfifo pipe 2>/dev/null; ln -s /dev/zero zero",
    "a long folder": FORGE + "printf '%s at /x%0150000d\\n' $n 0 >&9",
    "a folder with a null": FORGE + "printf '%s at /wo\\0rk\\n' $n >&9",
    "a folder of odd characters": FORGE + "printf '%s at /\\xff\\x1b\\n' $n >&9",
    "another root": FORGE + "printf '%s root /\\n%s at /etc\\n' $n $n >&9",
    "all control lines": FORGE + "for w in root at lost syntax; do printf '%s %s\\n' $n $w >&9; done",
    "closed streams": "exec 9>&- 1>&- 2>&-",
    "a flood": "yes >&9",
    "the end": "kill -9 -1",
}


@pytest.fixture(scope="module", params=[*LOCAL, pytest.param("docker", marks=pytest.mark.slow)])
def env(request: pytest.FixtureRequest) -> Iterator[BashEnv]:
    needed(request.param)
    env = BashEnv(sandbox=request.param, memory=False, seconds=4)
    yield env
    env.close()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_step_returns_and_the_next_one_works(env: BashEnv, name: str) -> None:
    env.reset(seed=3)
    observation, _, over, _, info = env.step(COMMANDS[name])
    assert observation
    assert not over
    assert isinstance(info["state"], str)
    env.step("ls -la | head -5")
    assert env.step("cd /work && echo on")[0].rstrip().startswith("on")
    other = BashEnv(sandbox="auto", memory=False, seconds=4)
    try:
        assert other.restore(env.snapshot())[1]["state"] == env.get_info(True)["state"]
    finally:
        other.close()


@needs_box
def test_a_long_folder_would_make_every_later_step_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: without the limit on its length."""
    monkeypatch.setattr(shell, "_LONGEST_PATH", 1 << 30)
    env = BashEnv(memory=False)
    env.reset(seed=3)
    env.step(COMMANDS["a long folder"])
    with pytest.raises(EnvError, match="an argument must have"):
        env.step("ls")
    env.close()


def test_archives_of_the_agent_are_read_under_limits() -> None:
    assert _archive_contents(member(b"./a", b"x") + END) == {"a": b"x"}
    assert _archive_contents(gzip.compress(member(b"d/a", b"x") + END)) == {"d/a": b"x"}
    bomb = gzip.compress(bytes(64 << 20))
    for data in (
        member(b"n", b"x\0", b"L") * 5000 + member(b"x") + END,
        pax(GNU__sparse__realsize=b"9999999999", GNU__sparse__major=b"1") + member(b"a") + END,
        member(b"a", kind=b"2", link=b"/etc/passwd") + END,
        gzip.compress(b"no archive"),
        b"\x1f\x8b" + b"x" * 100,
        b"",
    ):
        assert _archive_contents(data) is None
    assert _archive_contents(bomb) == {}
