"""The tables of docs/objectives.md, rendered from the code; a test compares them."""

from turncredit.training.objectives.aggregate import AGGREGATIONS
from turncredit.training.objectives.catalogue import objectives
from turncredit.training.objectives.correction import CORRECTIONS
from turncredit.training.objectives.kl import KL_ESTIMATORS


def tables() -> dict[str, str]:
    """Return the tables by name, as Markdown."""
    methods = ["| name | method | when | options | checked against |", "|---|---|---|---|---|"]
    for name, entry in objectives().items():
        link = f" ([{entry.arxiv}](https://arxiv.org/abs/{entry.arxiv}))" if entry.arxiv else ""
        needs = f" Needs {', '.join(f'`{column}`' for column in entry.needs)}." if entry.needs else ""
        options = ", ".join(f"`{key}={_short(value)}`" for key, value in entry.function.options.items())
        methods.append(f"| `{name}` | {entry.title}{link} | {entry.use}{needs} | {options} | {entry.evidence} |")
    ways = [f"- `{name}`: {text}" for name, text in AGGREGATIONS.items()]
    factors = [
        f"- `{name}`: {info.about}; default bounds {info.low:g} and {info.high:g}" for name, info in CORRECTIONS.items()
    ]
    estimators = [f"- `{name}`: {text}" for name, text in KL_ESTIMATORS.items()]
    parts = {"methods": methods, "aggregations": ways, "corrections": factors, "estimators": estimators}
    return {name: "\n".join(lines) for name, lines in parts.items()}


def _short(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)
