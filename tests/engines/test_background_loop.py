"""The background loop: one loop for many rollouts, cancellation, errors, and its end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from turncredit.agents.errors import SamplerError
from turncredit.engines.background import BackgroundLoop


async def where() -> tuple[str, int]:
    return threading.current_thread().name, id(asyncio.get_running_loop())


def test_the_work_of_several_event_loops_runs_on_one() -> None:
    background = BackgroundLoop("engine")
    first = asyncio.run(background.run(where()))
    assert first == asyncio.run(background.run(where())) == background.call(where())
    assert first[0] == "engine" != threading.current_thread().name
    background.close()


def test_errors_reach_the_caller() -> None:
    async def fail() -> None:
        raise ZeroDivisionError("divided")

    background = BackgroundLoop()
    with pytest.raises(ZeroDivisionError, match="divided"):
        asyncio.run(background.run(fail()))
    with pytest.raises(ZeroDivisionError, match="divided"):
        background.call(fail())
    assert background.call(where())[0] == "turncredit-engine"  # an error does not end the thread
    background.close()


def test_a_cancelled_caller_cancels_the_work() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def give_up() -> None:
        task = asyncio.create_task(background.run(endless()))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    background = BackgroundLoop()
    asyncio.run(give_up())
    assert ended.wait(10)
    begun.clear()
    ended.clear()
    with pytest.raises(TimeoutError):
        background.call(endless(), seconds=0.01)
    assert ended.wait(10)
    background.close()


def test_close_cancels_what_runs_and_may_be_called_twice() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # the end of the work may take a while
            ended.set()

    async def wait_for_the_end() -> None:
        task = asyncio.create_task(background.run(endless()))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        background.close()
        assert ended.is_set()
        with pytest.raises(asyncio.CancelledError):
            await task

    background = BackgroundLoop()
    asyncio.run(wait_for_the_end())
    background.close()
    with pytest.raises(SamplerError, match="closed"):
        asyncio.run(background.run(where()))
    assert "turncredit-engine" not in {thread.name for thread in threading.enumerate()}


def test_close_before_the_first_use_starts_no_thread() -> None:
    background = BackgroundLoop("never")
    background.close()
    assert "never" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(SamplerError, match="closed"):
        background.call(where())
