"""Adapters for other trainers: from their arrays and lists to the table of turns, and from advantages back to tokens.

from turnwise.credit import gigpo
from turnwise.credit.adapters import from_verl
packed = from_verl(uid=..., traj_uid=..., rewards=..., anchor_obs=..., response_mask=...)
advantages = packed.tokens(gigpo(packed.steps))          # float64 [B, L]
"""

from turnwise.credit.adapters.frames import from_frame, with_advantages
from turnwise.credit.adapters.packed import PackedSteps
from turnwise.credit.adapters.sequences import from_sequences
from turnwise.credit.adapters.trl import from_trl
from turnwise.credit.adapters.trl_trainer import turn_advantages
from turnwise.credit.adapters.verl import from_verl

__all__ = ["PackedSteps", "from_frame", "from_sequences", "from_trl", "from_verl", "turn_advantages", "with_advantages"]
