"""Commands that a signal stops, whichever thread gets it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WAIT = """
import signal, threading, time
from pgsluice.cli.signals import stop_on_signals

with stop_on_signals() as stop:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})  # of this thread only
    print("ready", flush=True)
    print(stop.wait(), stop.is_set())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_that_another_thread_gets_ends_the_wait(number):
    process = subprocess.Popen([sys.executable, "-c", WAIT], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.communicate(timeout=10)[0] == "True True\n"
    finally:
        process.kill()
        process.communicate()
