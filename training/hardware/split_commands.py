"""How a way to divide GPUs between engine and learner is started: ranks of torchrun beside copies of the engine.

Not included: engines on the GPUs of learners on several machines, which nothing starts yet.
"""

from turncredit.engines.vllm.arguments import replicas_of
from turncredit.training.config.cluster import gpus_of_engine
from turncredit.training.config.run import Run

PROGRAM = "-m turncredit.cli.main train"


def start_command(run: Run, engines: int, learners: int, machine: int) -> str:
    """Return the command that starts a run with its GPUs divided in this way; empty if there is none.

    Args:
        run: the configuration.
        engines: GPUs of the engine; 0: it shares those of the learner.
        learners: GPUs of the learner.
        machine: GPUs of one machine.
    """
    if run.cluster.address or engines + learners > machine or (engines and run.sampler.engine != "vllm"):
        return _on_cluster(run, engines, learners)
    words = _options(run, engines, learners) if run.sampler.engine == "vllm" else []
    if run.sampler.engine != "vllm" and learners > 1:  # one engine, on the GPU of the first rank
        return ""
    start = f"torchrun --nproc-per-node {learners} {PROGRAM}" if learners > 1 else "turncredit train"
    return " ".join([start, "RUN.toml", *words])


def describe_split(run: Run, engines: int, learners: int, shards: int) -> str:
    """Return the layout in words: ranks, copies of the weights, and copies of the engine.

    Args:
        run: the configuration.
        engines: GPUs of the engine; 0: it shares those of the learner.
        learners: GPUs of the learner.
        shards: ranks that divide one copy of the weights.
    """
    copies, each = (engines or learners) // gpus_of_engine(run.sampler.options), gpus_of_engine(run.sampler.options)
    weights = learners // shards
    ranks = "one process trains"
    if learners > 1:
        held = "one copy of the weights" if weights == 1 else f"{weights} copies of the weights, {shards} ranks each"
        ranks = f"{learners} ranks hold {held}"
    engine = "one engine" if copies == 1 else f"{copies} copies of the engine"
    each_on = f" of {each} GPUs" if each > 1 else ""
    return f"{ranks}; {engine}{each_on}, {'on GPUs of their own' if engines else 'on the same GPUs'}"


def _options(run: Run, engines: int, learners: int) -> list[str]:
    """Return the options of vLLM that differ from those of the run."""
    options, words = run.sampler.options, []
    copies = (engines or learners) // gpus_of_engine(options)
    if copies != replicas_of(options):
        words.append(f"sampler.options.data_parallel_size={copies}")
    if engines:
        devices = ",".join(str(number) for number in range(learners, learners + engines))
        words.append(f"'sampler.options.devices=\"{devices}\"'")
    elif not options.get("sleep") and not run.train.staleness.updates:
        words.append("sampler.options.sleep=true")
    return words


def _on_cluster(run: Run, engines: int, learners: int) -> str:
    """Return the command for a Ray cluster, on which every engine has GPUs of its own."""
    if not engines:
        return ""
    words = [f"cluster.address={run.cluster.address or 'auto'}"]
    words.append(f"cluster.engines={engines // gpus_of_engine(run.sampler.options)}")
    return " ".join(["turncredit train RUN.toml", *words, *([f"cluster.learners={learners}"] if learners > 1 else [])])
