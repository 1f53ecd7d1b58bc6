"""What is checked before a cluster is used: Ray, the cores, whether a head answers, and whether it accepts a token.

Ray itself tries for minutes to reach a head that is gone, and reports a wrong token as a cluster that it cannot find.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Final

from turncredit.agents.errors import SamplerError
from turncredit.engines.cluster.head import greet
from turncredit.installation import needs

__all__ = ["check_address", "own_cores", "require_ray"]

_ADDRESS: Final = "RAY_ADDRESS"


def require_ray() -> Any:
    """Return the package ray.

    Raises:
        SamplerError: it is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported over the network unless asked for
    try:
        import ray
    except ImportError as error:
        raise SamplerError(needs("a cluster needs Ray", "ray")) from error
    return ray


def own_cores() -> int:
    """Return how many cores this process may use, which are the CPUs of a cluster that it starts."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_address(address: str) -> str:
    """Return the address of a cluster as "host:port" after checking that it answers there; "local" stays as it is.

    Ray remembers the address of a cluster whose processes were killed, and would wait for it for minutes.

    Raises:
        SamplerError: it is no address, nothing answers there, "auto" finds no cluster, or the cluster does not accept
            the token of this process.
    """
    if address == "local":
        return address
    target, source = (address, "") if address != "auto" else _remembered_address()
    host, _, port = target.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        key = source or "cluster.address"
        raise SamplerError(f'{key} must be "local", "auto" or "host:port", got "{target}"')
    try:
        greet(target)
    except (OSError, OverflowError) as error:
        reason = "it does not answer as Ray does" if isinstance(error, TimeoutError) else str(error)
        where, advice = (f"{target} ({source})", "start one with `ray start --head`") if source else (target, "")
        raise SamplerError(
            f"no Ray cluster can be reached at {where}: {reason}; {advice or 'see `ray status` there'}"
        ) from error
    _show_token(target, of_this_machine=address == "auto" and source != _ADDRESS)
    return target


def _show_token(target: str, *, of_this_machine: bool) -> None:
    """Check that a cluster accepts this process; Ray itself would try for a while, and then say that it finds none.

    As Ray does, the token in the user's home is used without RAY_AUTH_MODE for a cluster of this machine alone.

    Raises:
        SamplerError: it asks for another token.
    """
    ray = require_ray()
    try:
        from ray._private.authentication import authentication_token_setup as tokens
    except ImportError:  # a Ray without tokens
        return
    logging.getLogger(tokens.__name__).setLevel(logging.ERROR)  # it only tells that tokens are used
    if of_this_machine and hasattr(tokens, "maybe_enable_token_auth_if_token_available"):
        tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    try:
        tokens.ensure_token_if_auth_enabled(None, create_token_if_missing=False)  # without one, Ray's client aborts
        ray._raylet.GcsClient(address=target)
    except ray.exceptions.AuthenticationError as error:
        raise SamplerError(
            f"the Ray cluster at {target} does not accept the token of this process; set RAY_AUTH_MODE=token, and "
            "RAY_AUTH_TOKEN to what `ray get-auth-token` prints where the cluster was started"
        ) from error
    except ray.exceptions.RayError:  # joining it will tell
        return


def _remembered_address() -> tuple[str, str]:
    """Return the address that "auto" means on this machine, and where it comes from.

    Raises:
        SamplerError: no cluster is known.
    """
    if named := os.environ.get(_ADDRESS):
        return named, _ADDRESS
    require_ray()
    from ray._private.services import get_ray_address_from_environment

    try:
        return str(get_ray_address_from_environment("auto", None)), "the cluster that was started last on this machine"
    except ConnectionError as error:
        raise SamplerError(
            "no Ray cluster was found on this machine; start one with `ray start --head`, or set cluster.address = "
            '"local"'
        ) from error
