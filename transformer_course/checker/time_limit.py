"""Ending what does not end: an endless loop, waiting for ever, and code that would end the kernel."""

import signal
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from IPython import get_ipython

SECONDS = 10.0  # of computing, for all cases of one attempt together; three times as many of idleness
TICK = 0.2  # seconds from one look at the clocks to the next
IDLE = 0.02  # of a tick: an answer that computes less waits for something
HAS_ALARM = hasattr(signal, "setitimer")  # Windows has none: there a thread rings
SIGNAL = signal.SIGALRM if HAS_ALARM else signal.SIGBREAK


class TimeLimitExceeded(BaseException):
    """The answer has run for too long. An `except Exception` of its own lets this through."""


class TimeLimit:
    """Runs an attempt's calls for some seconds in all.

    Within `with`, a clock ticks in the main thread, where a kernel runs its cells: what it raises there ends
    a loop, a `time.sleep` and an `input()`. In other threads only the learner's own interrupt does.
    """

    def __init__(self) -> None:
        self.spent, self._at_work, self._ended = 0.0, False, None
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._shell = get_ipython()
        if self._shell is not None:
            self._shell.ask_exit = _refuse  # else `exit()` stops the kernel after the verdict
        self._ticks = threading.current_thread() is threading.main_thread()
        if self._ticks:
            self._last_tick = time.process_time(), time.monotonic()
            self._handler = signal.signal(SIGNAL, self._tick)
            if HAS_ALARM:
                signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
            else:
                self._clock = threading.Thread(target=self._ring, daemon=True)
                self._clock.start()
        return self

    def __exit__(self, *_) -> None:
        if self._shell is not None:
            del self._shell.ask_exit
        if self._ticks:
            self._over.set()
            if HAS_ALARM:
                signal.setitimer(signal.ITIMER_REAL, 0)
            else:
                self._clock.join()
            signal.signal(SIGNAL, self._handler)

    def _ring(self) -> None:
        while not self._over.wait(TICK):
            interrupt_main(SIGNAL)

    def run(self, call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """The call's result, and its error."""
        result = error = self._ended = None
        try:
            self._at_work = True
            result = call()
        except KeyboardInterrupt:  # the learner has pressed the button
            raise
        except BaseException as raised:
            error = raised
        finally:
            self._at_work = False
        return result, self._ended or error  # it may have been caught

    def _tick(self, number: int, frame: FrameType) -> None:
        """Add what has been spent since the last tick; a busy machine is not the answer's fault."""
        before, self._last_tick = self._last_tick, (time.process_time(), time.monotonic())
        computed, passed = (now - then for now, then in zip(self._last_tick, before, strict=True))
        if not self._at_work or frame.f_code is TimeLimit.run.__code__:  # nothing to be ended here
            return
        self.spent += computed if computed > IDLE * passed else passed / 3
        if self.spent > SECONDS:
            self._ended = self._ended or TimeLimitExceeded()
            raise self._ended


def _refuse() -> None:
    raise SystemExit
