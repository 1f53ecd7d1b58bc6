"""The truth about credit by playing: forks of stored episodes, the file that keeps them, and gradients.

`turncredit.credit.truth` has the numbers, which need no environment and no model. The playing lives here because it
needs a run: its checkpoint, its environment and its agent, and for gradients its learner.
"""
