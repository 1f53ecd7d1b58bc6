"""The parts of the conformance check; its front is `turncredit.envs.check`."""
