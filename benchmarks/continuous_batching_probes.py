"""What an engine can do beside answering a prompt, tried on ours and on the library's; see `continuous_batching.py`.

Each probe returns one sentence for each engine, which begins with yes or no. A gap is the largest difference, in nats,
between a log-probability that an engine returns and that of one pass over the whole sequence under the weights that are
said to have sampled the token.
"""

from __future__ import annotations

import asyncio
import copy
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from decode import VIEW, NoText
from library_engine import LibraryEngine
from peft import LoraConfig, get_peft_model

from turncredit.engines.base import AnswerStart, Completion, Request, Sampler
from turncredit.engines.transformers.sampler import TransformersSampler

CLOSE = 1e-3
"""Nats within which log-probabilities count as equal; 16 bits are not tried."""

LONG = 48
Make = Callable[..., Sampler]
"""Makes an engine of one kind for a model."""


def passes(model: Any, prompt: Sequence[int], tokens: Sequence[int], temperature: float = 1.0) -> torch.Tensor:
    """Return the log-probabilities of tokens after a prompt from one pass over all of it, float32 [T]."""
    ids = torch.tensor([[*prompt, *tokens]], device=model.device)
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float() / temperature
    return logits.log_softmax(-1).gather(1, ids[0, len(prompt) :, None])[:, 0].cpu()


def gap(model: Any, prompt: Sequence[int], tokens: Sequence[int], logprobs: Sequence[float], **how: float) -> float:
    """Return the largest difference between log-probabilities and those of one pass, in nats."""
    if not tokens:
        return 0.0
    return float((passes(model, prompt, tokens, **how) - torch.tensor(logprobs)).abs().max())


def largest_gap(model: Any, answered: Iterable[tuple[Sequence[int], Completion]]) -> float:
    """Return the largest gap of answers to prompts."""
    return max(gap(model, prompt, answer.tokens, answer.logprobs) for prompt, answer in answered)


def answers(engine: Sampler, requests: Sequence[Request]) -> list[Completion]:
    """Return the answers to requests that are sent together."""

    async def together() -> list[Completion]:
        # All of them end before the loop does: the library answers from its own thread.
        ended = await asyncio.gather(*(engine.sample(request) for request in requests), return_exceptions=True)
        for failure in (answer for answer in ended if isinstance(answer, BaseException)):
            raise failure
        return [answer for answer in ended if isinstance(answer, Completion)]

    return asyncio.run(together())


class Computed:
    """Counts the tokens that a model computes, at its embedding."""

    def __init__(self, model: Any) -> None:
        self.tokens = self.passes = 0
        self._handle = model.get_input_embeddings().register_forward_hook(self._count)

    def _count(self, module: object, arguments: tuple[torch.Tensor], output: object) -> None:
        self.tokens += arguments[0].numel()
        self.passes += 1

    def close(self) -> None:
        self._handle.remove()


def verdict(good: bool, evidence: str) -> str:
    """Return the sentence of a probe."""
    return f"{'yes' if good else 'no'}: {evidence}"


class Abilities:
    """Tries what training needs, on a copy of a model."""

    def __init__(self, model: Any, load: Sequence[Sequence[Request]], device: str) -> None:
        self.model, self.load, self.device = copy.deepcopy(model), load, device
        longest = max(load, key=len)
        self.prompt = longest[-1].prompt
        self.makes: dict[str, Make] = {"ours": self._ours, "library": self._library}

    def lines(self) -> list[dict[str, str]]:
        """Return the lines of the table."""
        probes: dict[str, Callable[[Make], str]] = {
            "log-probabilities, at temperature 1": lambda make: self.logprobs(make, 1.0),
            "log-probabilities, at temperature 0.7": lambda make: self.logprobs(make, 0.7),
            "a request's seed decides its answer": self.seeds,
            "the process's random numbers stay as they are": self.random_state,
            "prefixes of earlier turns are reused": self.prefixes,
            "a group's prompt is computed once": self.group,
            "forks from the middle of an answer": self.forks,
            "new weights in place": self.new_weights,
            "new weights inside answers": self.interrupted,
            "adapters (LoRA)": self.adapters,
            "images": lambda make: self.argument(make, "test_screens_exact.py", pixel_values=torch.zeros(1, 3, 4, 4)),
            "stop strings": lambda make: self.argument(make, "test_sampler_laws.py", stop_strings=["</action>"]),
            "families of docs/models.md": self.families,
        }
        lines = []
        for name, probe in probes.items():
            line = {"criterion": name, **{engine: probe(make) for engine, make in self.makes.items()}}
            if "new weights" in name:
                line["library"] += f" with a new manager; {probe(self._paused)} with the manager paused"
            lines.append(line)
            print(line, flush=True)
        return lines

    def logprobs(self, make: Make, temperature: float) -> str:
        engine = make(self.model, temperature=temperature)
        requests = [replace(turns[-1], temperature=temperature, max_tokens=16) for turns in self.load[:8]]
        out = answers(engine, requests)
        engine.close()
        most = max(
            gap(self.model, request.prompt, answer.tokens, answer.logprobs, temperature=temperature)
            for request, answer in zip(requests, out, strict=True)
        )
        return verdict(most < CLOSE, f"{most:.0e} nats off one pass")

    def seeds(self, make: Make) -> str:
        engine = make(self.model)
        request = self._request("a", self.prompt, 16)
        others = [self._request(f"b{k}", turns[0].prompt, 16, seed=k) for k, turns in enumerate(self.load[:5])]
        alone, among = answers(engine, [request])[0], answers(engine, [*others, replace(request, episode="c")])[-1]
        engine.close()
        good = alone.tokens == among.tokens
        return verdict(good, f"alone and among others the answer is {'the same' if good else 'another one'}")

    def random_state(self, make: Make) -> str:
        torch.manual_seed(0)
        before = torch.get_rng_state()
        engine = make(self.model)
        answers(engine, [self._request("a", self.prompt, 4)])
        engine.close()
        good = torch.equal(before, torch.get_rng_state())
        return verdict(good, "its draws are its own" if good else "it seeds torch's generator, and draws from it")

    def prefixes(self, make: Make) -> str:
        engine, computed = make(self.model), Computed(self.model)
        asked = needed = 0
        for turns in self.load[:4]:
            held: tuple[int, ...] = ()
            for request in turns:
                answer = answers(engine, [request])[0]
                asked += len(request.prompt)
                needed += len(request.prompt) - _common(held, request.prompt) + len(answer.tokens) - 1
                held = (*request.prompt, *answer.tokens)
            engine.forget(turns[0].episode)
        spent = computed.tokens
        self._end(engine, computed)
        return verdict(
            spent < 0.5 * asked, f"{spent:,} tokens are computed for prompts of {asked:,}; {needed:,} are new"
        )

    def group(self, make: Make) -> str:
        engine, computed = make(self.model), Computed(self.model)
        answers(engine, [self._request(f"g{k}", self.prompt, 1, seed=k) for k in range(8)])
        spent = computed.tokens
        self._end(engine, computed)
        return verdict(
            spent < 2 * len(self.prompt), f"8 requests with a prompt of {len(self.prompt)} compute {spent:,} tokens"
        )

    def forks(self, make: Make) -> str:
        engine, computed = make(self.model), Computed(self.model)
        parent = answers(engine, [self._request("p", self.prompt, LONG)])[0]
        before, half = computed.tokens, LONG // 2
        start = AnswerStart(parent.tokens[:half], parent.logprobs[:half], (0,) * half)
        requests = [
            replace(self._request(f"f{k}", self.prompt, LONG, seed=k), start=start, parent="p") for k in range(8)
        ]
        out = answers(engine, requests)
        spent = computed.tokens - before - 8 * (half - 1)
        self._end(engine, computed)
        most = max(gap(self.model, self.prompt, answer.tokens, answer.logprobs) for answer in out)
        length = len(self.prompt) + half
        return verdict(
            most < CLOSE and all(answer.tokens[:half] == start.tokens for answer in out),
            f"8 compute {spent:,} tokens of a prefix of {length}; {most:.0e} nats off",
        )

    def new_weights(self, make: Make) -> str:
        model = copy.deepcopy(self.model)
        engine = make(model)
        request = self._request("w", self.prompt, 8)

        async def play() -> Completion:
            await engine.sample(request)
            await engine.interrupt()
            _change(model)
            await engine.load(model, 1)
            await engine.proceed()
            return await engine.sample(replace(request, turn=1))

        answer = asyncio.run(play())
        engine.close()
        most = gap(model, self.prompt, answer.tokens, answer.logprobs)
        return verdict(most < CLOSE, f"{most:.0e} nats off the new weights")

    def interrupted(self, make: Make) -> str:
        model = copy.deepcopy(self.model)
        old = copy.deepcopy(model)
        engine, computed = make(model), Computed(model)
        requests = [self._request(f"i{k}", turns[0].prompt, LONG, seed=k) for k, turns in enumerate(self.load[:4])]

        async def play() -> list[Completion]:
            tasks = [asyncio.ensure_future(engine.sample(request)) for request in requests]
            while computed.passes < LONG // 2:
                await asyncio.sleep(0)
            await engine.interrupt()
            _change(model)
            await engine.load(model, 1)
            await engine.proceed()
            return await asyncio.gather(*tasks)

        out = asyncio.run(play())
        self._end(engine, computed)
        gaps, switched = [0.0], 0
        for request, answer in zip(requests, out, strict=True):
            at = answer.switches[0][0] if answer.switches else LONG
            switched += 0 < at < LONG
            first, second = answer.tokens[:at], answer.tokens[at:]
            gaps.append(gap(old, request.prompt, first, answer.logprobs[:at]))
            gaps.append(gap(model, [*request.prompt, *first], second, answer.logprobs[at:]))
        return verdict(max(gaps) < CLOSE and switched > 0, f"{switched} answers of both; {max(gaps):.0e} nats off")

    def adapters(self, make: Make) -> str:
        torch.manual_seed(1)
        options = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
        model = get_peft_model(copy.deepcopy(self.model), options).eval()
        try:
            engine = make(model)
            answer = answers(engine, [self._request("l", self.prompt, 8)])[0]
            engine.close()
        except Exception as error:  # the library may raise anything
            return verdict(False, _reason(error))
        most, base = (gap(judge, self.prompt, answer.tokens, answer.logprobs) for judge in (model, self.model))
        return verdict(most < CLOSE, f"{most:.0e} nats off the adapted model, {base:.0e} off the base")

    def argument(self, make: Make, test: str, **arguments: object) -> str:
        """Send the library what a request of ours has, as an argument of its own; a test holds what ours does."""
        engine = make(self.model)
        try:
            if not isinstance(engine, LibraryEngine):
                return verdict(True, f"held by {test}")
            request = self._request("x", self.prompt, 4)
            asyncio.run(asyncio.wait_for(engine.sample_with(request, **arguments), timeout=20))
        except Exception as error:  # the library may raise anything
            return verdict(False, _reason(error))
        finally:
            engine.close()
        return verdict(True, "it takes the argument")

    def families(self, make: Make) -> str:
        """Sample from a small model of each family that the tests have."""
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
        from toys.families import FAMILIES, write_model

        from turncredit.agents.models.model_folder import load_model

        wrong: dict[str, list[str]] = {}
        for family in FAMILIES.values():
            with tempfile.TemporaryDirectory() as folder:
                model = load_model(write_model(family, Path(folder)), dtype="float32").to(self.device)
            try:
                engine = make(model)
                try:
                    requests = [self._request(f"m{k}", range(5 + k, 60 + k), 8, seed=k) for k in range(2)]
                    out = answers(engine, requests)
                finally:
                    engine.close()
                most = largest_gap(model, [(r.prompt, a) for r, a in zip(requests, out, strict=True)])
                if not most < CLOSE:
                    wrong.setdefault(f"{most:.0e} nats off", []).append(family.name)
            except Exception as error:  # the library may raise anything
                wrong.setdefault(_reason(error), []).append(family.name)
        bad = sum(map(len, wrong.values()))
        reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in wrong.items())
        return verdict(not bad, f"{len(FAMILIES) - bad} of {len(FAMILIES)}{'; ' if bad else ''}{reasons}")

    def _request(self, episode: str, prompt: Iterable[int], most: int, *, seed: int = 0) -> Request:
        return Request(episode, 0, tuple(prompt), (), seed, VIEW, max_tokens=most)

    def _ours(self, model: Any, *, temperature: float = 1.0) -> Sampler:
        engine = TransformersSampler(model, NoText(), device=self.device, concurrency=8, graphs=False)
        engine._ends = frozenset()
        return engine

    def _library(self, model: Any, *, temperature: float = 1.0) -> Sampler:
        return LibraryEngine(model, temperature=temperature)

    def _paused(self, model: Any) -> Sampler:
        return LibraryEngine(model, pauses=True)

    @staticmethod
    def _end(engine: Sampler, computed: Computed) -> None:
        engine.close()
        computed.close()


def _change(model: Any) -> None:
    """Change the weights in place, as an update does."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.05)


def _common(held: Sequence[int], prompt: Sequence[int]) -> int:
    """Return the length of the common prefix."""
    return next((i for i, (a, b) in enumerate(zip(held, prompt, strict=False)) if a != b), min(len(held), len(prompt)))


def _reason(error: BaseException) -> str:
    """Return the first sentence of an error."""
    return f"{type(error).__name__}: {str(error).split('. ')[0][:100]}"
