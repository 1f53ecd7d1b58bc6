"""Samplers on a Ray cluster: engines in processes of their own, on this machine or on others.

    sampler.py       `ClusterSampler`, the `Sampler` over all engines
    routing.py       which engine answers an episode
    engine_host.py   what runs inside an engine's process
    weight_chunks.py weights on their way through Ray's object store
    checks.py        what is checked before a cluster is joined or started
    connection.py    the only module beside it that imports Ray

Not included: an engine that spans several machines, and weights from GPU to GPU (NCCL).
"""
