"""Workers of the page, forked from one process that has everything loaded: to start one anew takes seconds.

Run as a script it is that process: over a socket it gets what a worker is told, with the worker's input and whatever
else it shall hold open, forks, and answers with the number of the new process. `tests/web/test_jobs.py` has workers as
the server starts them.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

MOST_FILES = 4
LARGEST_REQUEST = 1 << 20


class Workers:
    """Stands in for `subprocess.Popen` where a worker is to be started."""

    def __init__(self):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_REQUEST)
        with theirs:
            script = [sys.executable, str(Path(__file__)), str(theirs.fileno())]
            self._process = subprocess.Popen(script, pass_fds=[theirs.fileno()])

    def start(self, told, held=(), gate=None):
        """A worker; one whose comparisons wait for a file, the gate, where it is given (paced_worker.py)."""
        reading, writing = os.pipe()
        request = {"told": told, "environment": dict(os.environ), "folder": str(Path.cwd()), "gate": gate}
        socket.send_fds(self._socket, [json.dumps(request).encode()], [reading, *held])
        os.close(reading)
        return Worker(int(self._socket.recv(100)), writing)

    def close(self):
        self._socket.close()
        self._process.wait()


class Worker:
    """What the job runner uses of a `Popen`."""

    def __init__(self, pid, stdin):
        self.pid, self._stdin = pid, stdin
        try:
            self._handle = os.pidfd_open(pid)
        except ProcessLookupError:  # it has ended already
            self._handle = None

    def poll(self):
        return 0 if self._over(0) else None

    def wait(self, timeout=None):
        if not self._over(timeout):
            raise subprocess.TimeoutExpired("worker", timeout)
        return 0

    def terminate(self):
        self._send(signal.SIGTERM)

    def kill(self):
        self._send(signal.SIGKILL)

    def _send(self, number):
        with suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, number)

    def _over(self, timeout):
        return self._handle is None or bool(select.select([self._handle], [], [], timeout)[0])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self._stdin)
        self.wait()
        if self._handle is not None:
            os.close(self._handle)


def serve(number):
    # Only imported: threads of Polars would not survive a fork.
    import queryveil.experiments.compare
    import queryveil.report.page
    import queryveil.web.jobs  # noqa: F401 -- what a worker loads when it begins
    from queryveil.audit.auditing import parts
    from queryveil.web import worker

    parts()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how one ended
    with socket.socket(fileno=number) as theirs:
        while True:
            request, files, _, _ = socket.recv_fds(theirs, LARGEST_REQUEST, MOST_FILES)
            if not request:
                return
            child = os.fork()
            if not child:
                theirs.close()
                _work(worker, json.loads(request), files[0])
            for file in files:
                os.close(file)
            theirs.send(str(child).encode())


def _work(worker, request, stdin):
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for place, file in enumerate((stdin, nowhere, nowhere)):
            os.dup2(file, place)
        os.close(stdin)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        if request["gate"]:
            from paced_worker import pace  # beside this script

            pace(Path(request["gate"]))
        worker.main(*request["told"])
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
