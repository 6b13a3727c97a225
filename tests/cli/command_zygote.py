"""Forks one command after another: loading everything takes seconds, a refused file a moment.

Reads one JSON object a line, {"words", "printed", "keys"}: the command line, the file for all that it prints, and the
folder of keys. Answers with one line, {"code", "seconds", "kibibytes"}: exit code, or the signal below 0; processor
time of the command and its own children; its peak memory. What takes far too long is ended by the system.
"""

import json
import os
import resource
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import queryveil.audit.attacks
import queryveil.audit.measures
import queryveil.cli.stream_commands
import queryveil.experiments.rule_bench
import queryveil.report.rules_page  # noqa: F401 -- loaded once for all commands
from queryveil.cli import main as command_line
from queryveil.release import pipeline
from queryveil.testing.harness.zygote import load_kernels

MOST_SECONDS = 60


def be(told: dict) -> None:
    """Be that command."""
    printed = os.open(told["printed"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    os.environ["QUERYVEIL_KEYS"] = told["keys"]
    if "--memory" in told["words"]:
        pipeline.IN_MEMORY = 1 << 40  # as if every log outgrew the memory
    sys.argv = ["queryveil", *told["words"]]
    try:
        command_line.main()
        code = 0
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    load_kernels()  # only NumPy and Numba: Polars' threads would not survive a fork
    for line in sys.stdin:
        child = os.fork()
        if not child:
            be(json.loads(line))
        _, status, used = os.wait4(child, 0)
        answer = {
            "code": os.waitstatus_to_exitcode(status),
            "seconds": used.ru_utime + used.ru_stime,
            "kibibytes": used.ru_maxrss,
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
