"""Ending what does not end: an endless loop, and code that would end the program or the kernel."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from IPython import get_ipython

SECONDS = 10.0  # of computing, for all cases of one attempt together; three times as many of idleness

IDLE = 0.02  # of the time: an answer that computes less waits for something


class Endless(BaseException):
    """The answer has run for too long."""


class Shot(Endless):
    """Raised in the attempt's thread from outside. Python builds it there, so what follows runs there too.

    The attempt may catch it. Therefore the next line of the learner's own raises once more: in an `except:`,
    that is behind its `try`.
    """

    def __init__(self):
        super().__init__()
        frame = sys._getframe(1)
        while frame is not None and frame.f_code is not Patience.run.__code__:
            frame.f_trace = _at_the_next_line(frame, "call", None)
            frame = frame.f_back
        sys.settrace(_at_the_next_line)


def _at_the_next_line(frame: Any, event: str, argument: Any) -> Callable | None:
    file = frame.f_code.co_filename
    if os.path.exists(file) or file.startswith("<frozen"):  # a library's; a cell has no file
        return None
    if event == "line":
        raise Endless
    return _at_the_next_line


def _fire(thread_id: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(Shot))


class Patience:
    """Runs an attempt's calls for some seconds in all; tells the learner's interrupt from a raised one.

    A thread of its own fires a `Shot` into the attempt's thread, again and again until one hits; that works
    on every system, and in the main thread of a kernel. Python raises it only at a call or at the end of a
    loop: so nothing interrupts `armed = False`, after which no shot is fired any more, and `_settle`, called
    inside a `try`, takes those that are still under way.
    """

    def __init__(self):
        self.left, self._began, self._idle = SECONDS, 0.0, 0.0
        self.armed = self.fired = self.interrupted = False
        self._over, self._shooting = threading.Event(), threading.Lock()
        self._thread_id = threading.get_ident()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._shell = get_ipython()
        self._in_main_thread = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._in_main_thread:
            self._handler = signal.getsignal(signal.SIGINT)
            signal.signal(signal.SIGINT, self._interrupt)
        if self._shell is not None:
            self._shell.ask_exit = _refuse  # else `exit()` stops the kernel after the verdict
        self._watcher.start()
        return self

    def __exit__(self, *_) -> None:
        self._over.set()
        self._watcher.join()
        if self._shell is not None:
            del self._shell.ask_exit
        if self._in_main_thread:
            signal.signal(signal.SIGINT, self._handler)

    def run(self, call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """The call's result, and its error; only an interrupt that was really sent gets through."""
        result = error = None
        tracer = sys.gettrace()
        self._began, self._idle = time.process_time(), 0.0
        try:
            self.armed = True
            result = call()
        except BaseException as raised:
            error = raised
        self.armed = False
        try:  # one shot may be on its way, and one more be fired meanwhile
            try:
                self._settle(tracer)
            except BaseException:
                self._settle(tracer)
        except BaseException:
            self._settle(tracer)
        self.left -= self._spent()
        if self.interrupted:
            raise KeyboardInterrupt
        if self.fired and not isinstance(error, Endless):  # the attempt has caught it
            error = Endless()
        return result, error

    def _settle(self, tracer: Callable | None) -> None:
        """Wait until no shot is under way, and take the trace of the last one off; a shot interrupts it."""
        with self._shooting:  # a shot under way is over now,
            pass
        for _ in range(2):  # and by the end of this loop it has hit
            pass
        sys.settrace(tracer)

    def _watch(self) -> None:
        """Wait until the time is up; then shoot while the call lasts."""
        while (left := self.left - self.armed * self._spent()) > 0:
            before = time.process_time(), time.monotonic()
            if self._over.wait(min(max(left, 0.05), 1.0)):
                return
            computed, passed = time.process_time() - before[0], time.monotonic() - before[1]
            if self.armed and computed < IDLE * passed:
                self._idle += passed
        while not self._over.wait(0.01):
            with self._shooting:
                if self.armed:
                    self.fired = True
                    _fire(self._thread_id)

    def _spent(self) -> float:
        """On this call. A machine that is busy with other things is not the answer's fault."""
        return max(time.process_time() - self._began, self._idle / 3)

    def _interrupt(self, number: int, frame: Any) -> None:
        self.interrupted = True
        if callable(self._handler):
            self._handler(number, frame)


def _refuse() -> None:
    raise SystemExit
