"""Adapters for other trainers: from their arrays and lists to the table of turns, and from advantages back to tokens.

from turncredit.credit import gigpo
from turncredit.credit.adapters import from_verl
packed = from_verl(uid=..., traj_uid=..., rewards=..., anchor_obs=..., response_mask=...)
advantages = packed.tokens(gigpo(packed.steps))          # float64 [B, L]
"""

from turncredit.credit.adapters.frames import from_frame, with_advantages
from turncredit.credit.adapters.packed import PackedSteps
from turncredit.credit.adapters.sequences import from_sequences
from turncredit.credit.adapters.trl import from_trl
from turncredit.credit.adapters.trl_trainer import turn_advantages
from turncredit.credit.adapters.verl import from_verl

__all__ = ["PackedSteps", "from_frame", "from_sequences", "from_trl", "from_verl", "turn_advantages", "with_advantages"]
