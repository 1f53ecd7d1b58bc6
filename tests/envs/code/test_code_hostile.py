"""Programs that leave hostile files behind: every step returns, and the next one works."""

from collections.abc import Iterator

import pytest
from toys.sandboxes import LOCAL, needed

from turncredit.envs.code import CodeEnv

pytestmark = pytest.mark.waits

PROGRAMS = {
    "holes": "for n in range(60): open(f'h{n}', 'wb').truncate(8 << 20)",
    "names": "import os\nopen('a', 'wb').write(bytes(1 << 20))\nfor n in range(200): os.link('a', f'b{n}')",
    "deep": "import os\nwhile True: os.mkdir('d'); os.chdir('d')",
    "many": "for n in range(100_000): open(f'{n}', 'w').close()",
    "times": "import os\nopen('a', 'w').close(); os.utime('a', (2**40, 2**40))",
    "names of any bytes": "for name in (b'\\xff\\n', b'x' * 255, b'-rf', b'a\\x1b[2J'): open(name, 'w').write('x')",
    "links": "import os\nos.symlink('x' * 4000, 'long'); os.symlink('/etc', 'etc'); os.symlink('.', 'self')",
    "modes": "import os\nos.makedirs('a/b'); os.chmod('a/b', 0); os.chmod('a', 0); os.chmod('.', 0)",
    "its own files": "import glob, os\nfor name in glob.glob('*.py'): os.remove(name); os.makedirs(f'{name}/{name}')",
    "the end": "import os\nos.kill(-1, 9)",
}


@pytest.fixture(scope="module", params=[*LOCAL, pytest.param("docker", marks=pytest.mark.slow)])
def env(request: pytest.FixtureRequest) -> Iterator[CodeEnv]:
    needed(request.param)
    env = CodeEnv(sandbox=request.param)
    yield env
    env.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_step_returns_and_the_next_one_works(env: CodeEnv, name: str) -> None:
    env.reset(seed=3)
    observation, _, over, _, info = env.step(f"run\n{PROGRAMS[name]}")
    assert observation
    assert not over
    assert isinstance(info["state"], str)
    assert env.step("run\nprint('on')")[0].splitlines()[0] == "on"
    assert "tests pass" in env.step("test")[0]
