"""The apps of the phone: one file each, listed in `turnwise.envs.android.registry`."""
