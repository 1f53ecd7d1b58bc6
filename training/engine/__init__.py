"""The engine of a run: the sampler for the learner's model, and the probe that compares both."""
