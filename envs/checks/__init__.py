"""The parts of the conformance check; its front is `turnwise.envs.check`."""
