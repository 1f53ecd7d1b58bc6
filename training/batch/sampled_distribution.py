"""Which distribution a run samples from: training needs the one that the loss computes.

Truncation removes tokens from the samples but not from the policy. Importance ratios then have a mean below 1, so that
corrections shrink or drop everything, a policy diverges from itself, and E[grad log p] is not 0: the gradient moves
mass into what was kept or out of it, whatever was earned.
"""

from turnwise.training.config.run import Run
from turnwise.training.errors import ConfigError

FIELDS = {
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("logit_bias", "logits_processors", "allowed_token_ids", "bad_words", "min_tokens", "response_format"),
    *("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
}
"""Fields of a request to a server that decide which distribution it samples from."""


def check_distribution(run: Run) -> None:
    """Refuse to train on samples of another distribution than the loss computes.

    Raises:
        ConfigError: it names the key and the value with which the samples are of the policy itself.
    """
    if not run.train.iterations:
        return
    if run.agent.top_p < 1:
        raise ConfigError(
            f"agent.top_p = {run.agent.top_p} samples from a truncated distribution, while the loss, its corrections "
            "and its KL term use the whole one: set agent.top_p to 1 for training; `turnwise eval` may use it"
        )
    if run.sampler.engine == "openai":
        options = run.sampler.options
        changed = sorted(FIELDS & {*options.get("body", {}), *options.get("omit", ())})
        if changed:
            raise ConfigError(
                f"sampler.options changes {', '.join(changed)} of the requests, so that the server samples from "
                "another distribution than the loss computes: leave it out"
            )
