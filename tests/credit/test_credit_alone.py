"""Users of other trainers take credit alone: with numpy and nothing else installed, it imports and works."""

import subprocess
import sys
import textwrap

# A finder that knows only the standard library, numpy and turncredit.credit, as on a machine where nothing else is.
BLOCK = """
import sys

class Nothing:
    asked = []
    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        allowed = top in sys.stdlib_module_names or top == "numpy"
        ours = name in ("turncredit", "turncredit.registry") or f"{name}.".startswith("turncredit.credit.")
        if not allowed and not ours:
            # The standard library's copy asks for "org" on behalf of Jython, and numpy for older Pythons' packages.
            if top not in ("org", "pickle5", "backports_abc"):
                self.asked.append(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in [n for n in sys.modules if n.split(".")[0] in ("torch", "gymnasium", "pandas", "polars", "networkx")]:
    del sys.modules[name]
sys.meta_path.insert(0, Nothing())
"""


def run(code: str, *, alone: bool) -> str:
    """What a fresh interpreter prints."""
    program = (BLOCK if alone else "import sys\n") + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_finder_blocks():
    code = "\ntry:\n    import networkx\n    print('there')\nexcept ModuleNotFoundError:\n    print(Nothing.asked)"
    assert run(code, alone=True) == "['networkx']"


def test_importing_credit_loads_nothing_that_is_not_numpy():
    code = """
    import turncredit.credit, turncredit.credit.adapters, turncredit.credit.tokens, turncredit.credit.reference_tables
    tops = {name.split(".")[0] for name in sys.modules}
    print(sorted(tops & {"torch", "gymnasium", "pandas", "polars", "networkx", "pydantic", "scipy", "transformers"}))
    print(sorted({".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("turncredit.")}))
    """
    assert run(code, alone=False).splitlines() == ["[]", "['turncredit.credit', 'turncredit.registry']"]


def test_credit_works_where_only_numpy_is():
    code = """
    import numpy as np
    import turncredit.credit as credit
    from turncredit.credit.adapters import from_sequences, from_trl, from_verl

    turns = [(k, t) for k in (0, 1) for t in (0, 1)]
    rows = [dict(task="t", trajectory=k, turn=t, reward=float(k * t), state=f"room {t}") for k, t in turns]
    steps = credit.Steps.from_rows(rows)
    assert credit.gigpo(steps, similarity=0.9).values.any()
    assert credit.get("salt")(credit.Steps.from_rows([{**row, "action": 0} for row in rows])).values.any()
    for rule in credit.CATALOGUE:
        assert len(rule(credit.Steps.empty())) == 0, rule.name
    packed = from_verl(uid=[0, 0], traj_uid=[0, 1], rewards=[1, 0], response_mask=np.ones((2, 3)))
    assert packed.tokens(credit.grpo(packed.steps)).any()
    assert len(from_trl(["p"] * 2, ["x", "y"], [1, 0], num_generations=2).steps) == 2
    assert len(from_sequences(uid=[0], response_mask=[[1, 0, 1]], rewards=[1]).steps) == 2
    assert credit.tempo_tokens(np.array([[1], [2]]), np.ones((2, 1)), np.array([1.0, 0]), [0, 0]).any()
    print("worked", len(credit.rules()) >= len(credit.CATALOGUE), Nothing.asked)
    """
    assert run(code, alone=True) == "worked True []"
