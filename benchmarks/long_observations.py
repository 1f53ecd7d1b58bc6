"""What the prompt of a long observation costs, encoded whole and as far as it fits: seconds on the event loop, memory.

    python benchmarks/long_observations.py [--megabytes 1 4 40] [--whole 1 4] [--context 4096] [--tokenizer FOLDER]

Each measurement is made in a process of its own, whose peak of memory counts above that before the prompt. The text is
a listing of files with numbers. Without a folder, the tokenizer is a byte-level BPE of 2,000 entries trained on it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[1, 4, 40], help="sizes, as far as they fit")
    parser.add_argument("--whole", type=float, nargs="+", default=[1, 4], help="sizes that are encoded whole too")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--tokenizer", default="", help="folder of a model")
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one, options.context, options.tokenizer)))
        return
    for context, sizes in ((0, options.whole), (options.context, options.megabytes)):
        for size in sizes:
            command = [sys.executable, __file__, "--one", str(size), "--context", str(context)]
            done = subprocess.run([*command, "--tokenizer", options.tokenizer], stdout=subprocess.PIPE, check=True)
            print(f"{size:g} MB, {f'context {context}' if context else 'whole'}: {done.stdout.decode().strip()}")


def listing(size: int) -> str:
    """Return a text of some characters: lines as of `ls -l`."""
    lines, length = [], 0
    while length < size:
        number = len(lines)
        lines.append(
            f"-rw-r--r-- 1 root root {number * 7919 % 100_003:6d} Nov 26 02:{number % 60:02d} file{number}.txt\n"
        )
        length += len(lines[-1])
    return "".join(lines)[:size]


def measure(megabytes: float, context: int, folder: str) -> dict[str, Any]:
    """Return the cost of the prompt of one observation; context 0 encodes it whole."""
    from turncredit.agents.agent import Agent
    from turncredit.agents.models.model_folder import load_tokenizer
    from turncredit.agents.prompts.dialogue import Dialogue
    from turncredit.training.learner.policy import build_tokenizer

    tokenizer = load_tokenizer(folder) if folder else build_tokenizer([listing(100_000)], vocab=2000)
    dialogue = Dialogue(Agent(), tokenizer, context or None)
    dialogue.prompt(dialogue.view("warm"))
    view = dialogue.view(listing(int(megabytes * 1e6)))
    before, started = peak(), time.perf_counter()
    prompt = dialogue.prompt(view)
    seconds = time.perf_counter() - started
    return {
        "seconds": round(seconds, 3),
        "MB": round(peak() - before),
        "tokens": len(prompt.ids),
        "whole": prompt.whole,
    }


def peak() -> float:
    """Return the largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


if __name__ == "__main__":
    main()
