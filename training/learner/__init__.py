"""The learner: gradients, log-probabilities, optimizers, LoRA, memory and ranks."""
