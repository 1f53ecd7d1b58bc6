"""Which modules of tests take minutes, so that a worker begins with them."""

LONGEST = (
    "test_cluster_losses",
    "test_demo_iterations",
    "test_shared_cluster",
    "test_sampler_laws",
    "test_torchrun",
    "test_distributed_learner",
    "test_cluster_sampler",
    "test_env_actors",
    "test_ablate_cli",
    "test_cluster_run",
    "test_cluster_nodes",
    "test_out_of_memory_on_ranks",
    "test_miniwob_expert",
    "test_miniwob",
    "test_shop_browser",
    "test_sandbox_lives",
)
"""Longest first: the worker that had one of them left at the end would be alone with it."""
