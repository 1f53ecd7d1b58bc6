"""Log-probabilities and entropies of a batch's tokens under a model, computed only where a token is in the mask."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turncredit.agents.models.rotary import rotary_limit
from turncredit.agents.vision.image_reader import ImageReader, reader_of
from turncredit.training.batch.batch import Batch
from turncredit.training.batch.cutting import Cutting
from turncredit.training.batch.model_inputs import (
    ModelInputs,
    packed,
    padded,
    positions_of_text,
    require_packable,
    shared,
)
from turncredit.training.batch.scores import Scores
from turncredit.training.errors import ConfigError
from turncredit.training.learner.flops import ModelShape, PassCost
from turncredit.training.learner.image_inputs import example_image, example_rows, whole_images, with_images
from turncredit.training.learner.kernels import LayerKernels, require_kernels
from turncredit.training.learner.out_of_memory import MicroBatchLimit, OutOfMemoryOnRank, out_of_memory
from turncredit.training.learner.recomputation import layers_of, recomputing
from turncredit.training.learner.routing import replayable_routers
from turncredit.training.learner.untyped import CausalLM, PolicyTokenizer
from turncredit.training.learner.vocabulary import Heat, head_is_a_projection, logprobs_of, token_logprobs

if TYPE_CHECKING:
    from turncredit.engines.transformers.expert_routing import Routers
    from turncredit.training.learner.ranks import Ranks

T = TypeVar("T")

HALF: Final = (torch.bfloat16, torch.float16)
"""Types in which log-probabilities have two or three digits."""

_OF_IMAGES: Final = frozenset(("pixel_values", "mm_encoder_outputs"))
"""Arguments of a forward pass that hold images: pixels, or the vectors that the encoder has made of them."""

_PLACEHOLDER: Final = Batch(
    tokens=np.zeros((1, 2), dtype=np.int64),
    lengths=np.array([2]),
    mask=np.array([[False, True]]),
    old=np.zeros((1, 2)),
    advantages=np.zeros((1, 2)),
    trajectory=np.zeros(1, dtype=np.int64),
    turn=np.array([[-1, 0]]),
    version=np.array([[-1, 0]]),
)
"""What a rank computes that has no rows left."""


class TokenScorer:
    """Scores the tokens of batches under one model.

    Hidden states are selected before the projection to the vocabulary where the model's head is only a projection, so
    that logits are computed for masked tokens alone, and in chunks where the vocabulary is large.

    Args:
        model: a causal language model of transformers, or one of peft around it; it is put into evaluation mode.
        bfloat16: compute in bfloat16 where autocast does, for weights of any type.
        recompute_activations: recompute the activations of each layer in the backward pass.
        packing: compute the rows of a micro-batch as one sequence without padding.
        share_prefixes: compute what rows of a micro-batch begin with in common once, if the model can; `unshared` says
            why it cannot. "flex": with the kernels of flex attention.
        limit: of micro-batches, shared with all that computes on the same device; None: one of its own.
        ranks: with which the weights and the rows are divided: each of them calls the same methods with the same
            arguments, and computes its share; None for one process.
        tokenizer: of the model, if it sees: it knows how the model reads images.

    Attributes:
        cost: counts the FLOPs of a pass.
        kernels: that layers compute with; see `use_kernels`.
    """

    def __init__(
        self,
        model: CausalLM,
        *,
        bfloat16: bool = False,
        recompute_activations: bool = False,
        packing: bool = False,
        share_prefixes: bool | str = False,
        limit: MicroBatchLimit | None = None,
        ranks: "Ranks | None" = None,
        tokenizer: PolicyTokenizer = None,
    ) -> None:
        self.model, self.ranks, self._reader = model.eval(), ranks, reader_of(tokenizer)
        self._inside: Any = _call
        if ranks is not None:
            from turncredit.training.learner.sharding import shard  # takes longer to import than all else here

            self._inside = shard(model, ranks, bfloat16=bfloat16)
            self.model = self._inside.model
        self.cutting = Cutting(packed=packing)
        self.limit = MicroBatchLimit() if limit is None else limit
        self._inner = inner_model(self.model)
        self._longest = rotary_limit(self._inner.config)
        self._bfloat16 = bfloat16
        self._layers = layers_of(self.model) if recompute_activations else []
        self._flex = share_prefixes == "flex"
        self._attended = 0  # layers of the last pass that attended in a forest
        self.kernels = LayerKernels(self._inner, "plain")
        self._routers: Routers | None = None
        with torch.no_grad(), self._precision():
            self._projects = self._inside(head_is_a_projection, self._inner)
            if packing:
                self._inside(require_packable, self._inner)
                if self._reader is not None:
                    self._inside(self._require_packable_images, self._reader)
            self.unshared = self._inside(self._share_if_possible) if share_prefixes else ""
        self.cost = PassCost(ModelShape.of(self._inner), recompute_activations, not self._projects)
        if ranks is not None:
            self._rehearse()

    @property
    def words(self) -> int:
        """Number of words in the vocabulary."""
        return int(self._inner.get_output_embeddings().weight.shape[0])

    def require_hidden(self) -> None:
        """Refuse to give out hidden states where logits cannot be computed from them, or other ranks have some.

        Raises:
            ConfigError: the model changes what its output layer gives, or there are several ranks.
        """
        if self.ranks is not None:
            raise ConfigError("tokens of different rows are compared by one rank only, and there are several")
        if not self._projects:
            raise ConfigError(f"{type(self._inner).__name__} changes what its output layer makes of hidden states")

    @torch.no_grad()
    def hidden(self, batch: Batch) -> Tensor:
        """Return the hidden states from which the output layer predicts the tokens in the mask, float [M, H].

        Raises:
            ConfigError: see `require_hidden`.
        """
        self.require_hidden()
        inputs = self._inputs(batch)
        with self._precision(), self._in_layers(inputs):
            states: Tensor = self._inner.base_model(**inputs.arguments, use_cache=False).last_hidden_state
        states = states[inputs.before]
        return states if inputs.pairs is None else states[inputs.pairs]

    @torch.no_grad()
    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of the whole vocabulary for some hidden states, float [M, V]."""
        with self._precision():
            logits: Tensor = self._inner.get_output_embeddings()(hidden)
        return logits

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        device: torch.device = next(iter(self.model.parameters())).device
        return device

    def use_kernels(self, name: str) -> None:
        """Compute layers with other kernels from here on; the model's own operations stay for everybody else.

        Args:
            name: one of KERNELS of `turncredit.training.learner.kernels`.

        Raises:
            ConfigError: this machine or the model has nothing that they compute, or there are several ranks.
        """
        require_kernels(name, str(self.device), ranks=self._processes)
        with torch.no_grad(), self._precision():
            self.kernels = self._inside(LayerKernels, self._inner, name)

    def replay_routing(self) -> None:
        """Compute tokens with the experts of the batch from here on, where it has any.

        Raises:
            ConfigError: experts cannot be prescribed to the model.
        """
        if self._reader is not None:
            raise ConfigError("train.routing_replay is for models of text, and the policy reads images")
        with torch.no_grad(), self._precision():
            self._routers = self._inside(replayable_routers, self._inner)

    def check_lengths(self, lengths: NDArray[np.int64]) -> None:
        """Refuse rows with which the log-probabilities of others would change.

        Args:
            lengths: int64 [B], tokens of the rows.

        Raises:
            ConfigError: a row is longer than the model's rotary factors allow.
        """
        limit = self._longest
        if limit is not None and lengths.max(initial=0) > limit.tokens:
            raise ConfigError(f"a row has {lengths.max()} tokens, but {limit.sentence()}; use shorter rows")

    @property
    def _processes(self) -> int:
        return 1 if self.ranks is None else self.ranks.size

    def micro_batches(self, batch: Batch, budget: int) -> list[NDArray[np.int64]]:
        """Return this rank's micro-batches of at most `budget` tokens, counted as `cutting` does.

        Every rank has the same number of them, since the ranks compute each together; some are empty.
        """
        cuts = self.cutting.cuts(batch, budget, self._processes)
        own, most = cuts[0 if self.ranks is None else self.ranks.rank], max(map(len, cuts))
        return own + [np.empty(0, dtype=np.int64)] * (most - len(own))

    def within_memory(self, compute: Callable[[int], T], batch: Batch, budget: int) -> T:
        """Return `compute(budget)`; where memory runs out, compute it again with half the budget.

        Several ranks begin again together, wherever memory ran out on one of them.

        Args:
            compute: receives the tokens per micro-batch; it starts from the beginning each time.
            batch: the rows that it computes.
            budget: tokens per micro-batch.

        Raises:
            NotEnoughMemory: memory runs out even with one row per micro-batch.
        """

        def sizes(tokens: int) -> list[tuple[int, int]]:
            cuts = chain.from_iterable(self.cutting.cuts(batch, tokens, self._processes))
            return [(len(rows), self.cutting.tokens(batch, rows)) for rows in cuts]

        together = compute if self.ranks is None else partial(self._with_others, self.ranks, compute)
        return self.limit.within(together, sizes, int(batch.lengths.max(initial=0)), budget)

    def _with_others(self, ranks: "Ranks", compute: Callable[[int], T], budget: int) -> T:
        """Return `compute(budget)`, or raise `OutOfMemoryOnRank` on every rank if memory runs out on one."""
        ran_out = False
        try:
            try:
                result = compute(budget)
            except (RuntimeError, MemoryError) as error:
                if isinstance(error, OutOfMemoryOnRank) or not out_of_memory(error):
                    raise
                ran_out = True
            ranks.check_memory(ran_out=ran_out)
        except OutOfMemoryOnRank:
            self._inside.abandon()
            raise
        return result

    def together(self, compute: Callable[[], T]) -> T:
        """Return `compute()`, all that this rank computes of a micro-batch; every other rank does so with its own.

        With a gradient, that is a forward and a backward pass. A rank whose memory runs out in it takes part in the
        exchanges that are left, since the others wait there. They learn of it at the beginning of the next micro-batch,
        or at the end of the last, and begin again.

        Raises:
            OutOfMemoryOnRank: memory has run out on another rank before.
            MemoryError: memory has run out on this one.
        """
        if self.ranks is None:
            return compute()
        self.ranks.check_memory()
        exchanges, gradient = self._inside.exchanges, torch.is_grad_enabled()
        exchanges.begin()
        try:
            result = compute()
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            reason = str(error)
        else:
            exchanges.end(gradient=gradient)
            return result
        # outside of the handler, since the exception holds what the failed computation has allocated
        self._inside.abandon()
        exchanges.finish(gradient=gradient)
        raise MemoryError(reason)

    def _rehearse(self) -> None:
        """Compute two tokens, so that the exchanges of a micro-batch are known before memory runs out in one."""
        empty = _PLACEHOLDER.rows(np.empty(0, dtype=np.int64))
        with torch.no_grad():
            self.together(lambda: self(empty))
        if torch.is_grad_enabled() and any(parameter.requires_grad for parameter in self.model.parameters()):
            self.together(lambda: self(empty)[0].sum().backward())  # type: ignore[no-untyped-call]
            self._inside.abandon()

    def __call__(
        self, batch: Batch, *, temperature: float = 1.0, entropy: bool = False, mean: bool = False
    ) -> tuple[Tensor, ...]:
        """Return the log-probability of every token in the mask, and the entropy of its distribution.

        log p = log softmax(logits / temperature)[token], with the logits of the position before the token.

        Args:
            batch: right-padded; its mask selects M tokens, in row-major order. An empty one takes part in what the
                ranks compute together, and has a gradient of zero.
            temperature: > 0; the batch may have a factor of it for each token.
            entropy: whether the entropy carries gradient.
            mean: return the mean of log p over the vocabulary as well.

        Returns:
            Two float tensors [M], nats; both carry gradient as requested and as torch's grad mode allows. With `mean` a
            third one, without gradient.

        Raises:
            ConfigError: a row is longer than the model's position encoding allows.
        """
        if not len(batch) and self.ranks is not None:
            columns = self(_PLACEHOLDER, temperature=temperature, entropy=entropy, mean=mean)
            return tuple(column[:0] for column in columns)
        return tuple(self._inside(self._compute, batch, temperature, entropy, mean))

    def _compute(
        self, batch: Batch, temperature: float = 1.0, entropy: bool = False, mean: bool = False
    ) -> tuple[Tensor, ...]:
        self.check_lengths(batch.lengths)
        inputs = self._inputs(batch)
        nothing = self._encoder_without_images(inputs)
        chosen, *others = self._of_edges(inputs, temperature, entropy, mean)
        columns = chosen if nothing is None else chosen + nothing, *others
        return columns if inputs.pairs is None else tuple(column[inputs.pairs] for column in columns)

    def _encoder_without_images(self, inputs: ModelInputs) -> Tensor | None:
        """Return a zero that the image encoder has computed, where this rank has no image and others may have some.

        The ranks exchange the weights of the encoder, and their gradients, whenever one of them computes images.
        """
        if self.ranks is None or self._reader is None or not _OF_IMAGES.isdisjoint(inputs.arguments):
            return None
        with self._precision():
            return 0.0 * self._reader.features(example_image(3), self._inner.base_model).sum()

    def _inputs(self, batch: Batch) -> ModelInputs:
        layout = shared if self.cutting.shares(batch) else packed if self.cutting.packed else padded
        if batch.images is None or self._reader is None:
            inputs = layout(batch, self.device)
            if self.cutting.packed and "position_ids" in inputs.arguments:
                own = positions_of_text(inputs.arguments["position_ids"], self._inner)
                inputs.arguments["position_ids"] = own
            return inputs
        batch, images = whole_images(batch, self._reader)
        rows = [row for row, length in zip(images, batch.lengths, strict=True) if length]
        with self._precision():
            return with_images(layout(batch, self.device), rows, self._reader, self._inner.base_model)

    def _of_edges(self, inputs: ModelInputs, temperature: float, entropy: bool, mean: bool) -> tuple[Tensor, ...]:
        heat: Heat = temperature if inputs.heat is None else temperature * inputs.heat[:, None]
        with self._precision(), self._in_layers(inputs):
            if self._projects:
                hidden = self._inner.base_model(**inputs.arguments, use_cache=False).last_hidden_state
                return token_logprobs(
                    hidden[inputs.before],
                    self._inner.get_output_embeddings(),
                    inputs.targets,
                    temperature=heat,
                    entropy=entropy,
                    mean=mean,
                    compiled=self.kernels.compiled,
                )
            logits: Tensor = self._inner(**inputs.arguments, use_cache=False).logits
            return logprobs_of(logits[inputs.before], inputs.targets, temperature=heat, entropy=entropy, mean=mean)

    @contextmanager
    def _in_layers(self, inputs: ModelInputs) -> Iterator[None]:
        """Choose the kernels, recompute layers if it is asked for, and let the model attend in a forest if it gets one.

        A layer that the backward pass computes again enters the same contexts, alone.
        """
        attend: Callable[[], AbstractContextManager[None]] = nullcontext
        running = None
        if inputs.forest is not None:
            from turncredit.training.learner.prefix_attention import ForestPass, attending, own_function

            own = "flex_attention" if self._flex else own_function(self._inner)
            running = ForestPass(inputs.forest, own)
            attend = partial(attending, self._inner, running)

        route: Callable[[], AbstractContextManager[None]] = nullcontext
        if self._routers is not None and inputs.experts is not None and inputs.has_experts is not None:
            route = partial(self._routers.replaying, inputs.experts, inputs.has_experts)

        @contextmanager
        def inside(route: Callable[[], AbstractContextManager[None]] = route) -> Iterator[None]:
            with self.kernels(), attend(), route():
                yield

        with ExitStack() as stack:
            recomputed = self._layers and torch.is_grad_enabled()
            if recomputed:
                stack.enter_context(recomputing(self._layers, inside))
            # layers that are recomputed enter it by themselves, and experts that are replaced twice would be kept twice
            stack.enter_context(inside(nullcontext) if recomputed else inside())
            yield
        self._attended = 0 if running is None else running.calls

    def _require_packable_images(self, reader: ImageReader) -> None:
        """Check on a few rows with images that packed ones are computed as padded ones.

        Raises:
            ConfigError: they are not.
        """
        rows = example_rows(reader, int(self._inner.get_input_embeddings().weight.shape[0]))
        packed_rows, self.cutting = self.cutting, Cutting()
        padded_rows = self._compute(rows)[0]
        self.cutting = packed_rows
        bound = 0.1 if self._bfloat16 or padded_rows.dtype in HALF else 1e-4
        if not torch.allclose(padded_rows, self._compute(rows)[0], atol=bound, rtol=bound):
            raise ConfigError(
                f"train.micro_batch.packing is not available: {type(self._inner).__name__} computes packed rows with "
                "images in another way than padded ones"
            )

    def _share_if_possible(self) -> str:
        """Share prefixes if a few rows then have the log-probabilities of single ones; return why not, or nothing."""
        from turncredit.training.learner.prefix_attention import difference, forked_rows

        rows = forked_rows(int(self._inner.get_input_embeddings().weight.shape[0]))
        alone = torch.stack([self._compute(rows.rows(np.array([row])))[0] for row in range(len(rows))])
        before, self.cutting = self.cutting, Cutting(shared=True)
        try:
            together = self._compute(rows)[0].view(alone.shape)
        except Exception as error:  # a model may raise anything for arguments that it does not take
            reason = f"it takes no mask ({type(error).__name__}: {error})"
        else:
            layers = int(self._inner.config.get_text_config().num_hidden_layers)
            reason = difference(alone, together, coarse=self._bfloat16 or alone.dtype in HALF)
            if self._attended != layers:
                reason = f"{layers - self._attended} of its {layers} layers have no attention, or one of their own"
        if not reason:
            return ""
        self.cutting = before
        name = type(self._inner).__name__
        return f"train.micro_batch.share_prefixes has no effect: {name} computes no trees, since {reason}"

    @torch.no_grad()
    def score(self, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384, mean: bool = False) -> Scores:
        """Return the scores of all tokens in the mask, without gradient.

        Args:
            batch: the tokens.
            temperature: of the distribution, > 0.
            micro_tokens: tokens per micro-batch, padding included.
            mean: compute the means over the vocabulary, too.
        """

        def fill(arrays: Sequence[NDArray[np.float64]], index: NDArray[np.int64]) -> None:
            rows = batch.rows(index)
            columns = self(rows, temperature=temperature, mean=mean)
            for array, column in zip(arrays, columns, strict=True):
                block = np.zeros(rows.mask.shape)
                block[rows.mask] = column.double().cpu().numpy()
                array[index, : rows.mask.shape[1]] = block

        def compute(budget: int) -> Scores:
            arrays = [np.zeros(batch.mask.shape) for _ in range(3 if mean else 2)]
            for index in self.micro_batches(batch, budget):
                self.together(partial(fill, arrays, index))
            return Scores(*(self.total(torch.from_numpy(values)).numpy() for values in arrays))

        return self.within_memory(compute, batch, micro_tokens)

    def total(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over the ranks."""
        if self.ranks is None:
            return tensor
        self.ranks.check_memory()
        return self.ranks.sum(tensor)

    def _precision(self) -> AbstractContextManager[object]:
        """Return the context in which the model computes."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16) if self._bfloat16 else nullcontext()


def _call(compute: Callable[..., T], *args: Any) -> T:
    return compute(*args)


def inner_model(model: CausalLM) -> CausalLM:
    """Return the model of transformers itself, with its adapter where it has one."""
    return model.get_base_model() if hasattr(model, "peft_config") and hasattr(model, "get_base_model") else model
