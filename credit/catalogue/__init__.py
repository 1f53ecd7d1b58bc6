"""Our own credit rules, by families: name, title, arXiv id, evidence, when to use it, function, columns that it needs.

A new rule is one file, and one entry in the family that it belongs to.
"""

from turncredit.credit.catalogue import answers, baselines, branches, difficulty, memories, returns, roles, states
from turncredit.credit.catalogue.answers import *  # noqa: F403  # the functions, which turncredit.credit exports
from turncredit.credit.catalogue.baselines import *  # noqa: F403
from turncredit.credit.catalogue.branches import *  # noqa: F403
from turncredit.credit.catalogue.difficulty import *  # noqa: F403
from turncredit.credit.catalogue.memories import *  # noqa: F403
from turncredit.credit.catalogue.returns import *  # noqa: F403
from turncredit.credit.catalogue.roles import *  # noqa: F403
from turncredit.credit.catalogue.states import *  # noqa: F403
from turncredit.credit.registry import register

__all__: list[str] = []
__all__ += answers.__all__
__all__ += baselines.__all__
__all__ += branches.__all__
__all__ += difficulty.__all__
__all__ += memories.__all__
__all__ += returns.__all__
__all__ += roles.__all__
__all__ += states.__all__

CATALOGUE = (
    *baselines.RULES,
    *difficulty.RULES,
    *answers.RULES,
    *memories.RULES,
    *states.RULES,
    *branches.RULES,
    *returns.RULES,
    *roles.RULES,
)

for _rule in CATALOGUE:
    register(_rule)
