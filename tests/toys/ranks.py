"""Several ranks on this machine, in processes of their own, which meet at a store of the test's own process."""

import os
import traceback
from contextlib import suppress
from datetime import timedelta
from functools import partial

import torch
from torch.distributed import TCPStore
from toys.warm_processes import WARM

SECONDS = 240


def on_ranks(size, function, *args, ends=None, shards=0):
    """Return `function(leader, *args)` of rank 0, which other ranks serve; an error there is raised here.

    `ends` are the exit codes of the ranks, by default all 0; `shards` is policy.shards.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    here, there = WARM.Pipe(duplex=False)
    ranks = [
        WARM.Process(target=_rank, args=(rank, size, shards, store.port, there, function, args), daemon=True)
        for rank in range(size)
    ]
    for one in ranks:
        one.start()
    try:
        there.close()
        assert here.poll(SECONDS), "the ranks took too long"
        kind, value = here.recv()
        if kind == "error":
            raise value
        for one in ranks:
            one.join(SECONDS)
        assert [one.exitcode for one in ranks] == (ends or [0] * size)
        return value
    finally:
        for one in ranks:
            one.kill()


def _rank(rank, size, shards, port, result, function, args):
    torch.set_num_threads(1)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    from turncredit.training.config.run import Run
    from turncredit.training.learner.rank_commands import lead, serve_rank
    from turncredit.training.learner.ranks import agree, join

    run = partial(Run.parse, {"policy": {"shards": shards}})
    _, ranks = agree(join(timeout=timedelta(seconds=SECONDS)), run)
    if rank:
        serve_rank(ranks)
        return
    try:
        with lead(ranks) as leader:
            value = function(leader, *args)
        result.send(("value", value))
    except Exception as error:
        traceback.print_exc()
        with suppress(OSError):
            result.send(("error", error))
