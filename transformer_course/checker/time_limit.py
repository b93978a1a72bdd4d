"""A time limit for a learner's code: it stops an endless loop, a long `time.sleep` or an `input()`."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

SECONDS = 10.0  # of CPU time per call, or three times as much wall time, since the machine may be busy
TICK = 0.5  # seconds between two checks of the clocks


class TimeLimitExceeded(BaseException):
    """The answer ran for too long. A BaseException, because the answer may contain `except Exception`."""


def run(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Call the function; return its result and its error, which is TimeLimitExceeded after `SECONDS`.

    The limit applies only in the main thread, where a kernel runs its cells, and on systems with SIGALRM.
    """
    interruptions = []
    begin, begin_computing = time.monotonic(), time.process_time()

    def tick(number: int, frame: FrameType) -> None:
        computed, passed = time.process_time() - begin_computing, time.monotonic() - begin
        is_over = computed > SECONDS or passed > 3 * SECONDS
        if is_over and frame.f_code is not run.__code__:  # the call is still running
            interruptions.append(TimeLimitExceeded())
            raise interruptions[0]

    has_limit = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
    if has_limit:
        before = signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    result = error = None
    try:
        result = call()
    except KeyboardInterrupt:  # the learner has interrupted the kernel
        raise
    except BaseException as raised:
        error = raised
    finally:
        if has_limit:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    return result, interruptions[0] if interruptions else error
