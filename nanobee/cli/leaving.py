"""Leaving: end the process although an abandoned tool still runs in a thread.

A synchronous tool cannot be cancelled; at a stop its turn is given back, and everything is
stored and closed. Waiting for its thread would hold up the exit for as long as it likes to run.
"""

import logging
import os
import sys
import threading


def leave(code: object) -> None:
    """End the process at once with an exit code, where threads would hold it up; return where none would."""
    left = [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]
    if not left:
        return
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # a reader that has gone
    os._exit(code if isinstance(code, int) else int(code is not None))
