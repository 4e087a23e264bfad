"""Starting a process, looking at its memory, and reading the JSON that it ends with."""

import json
import os
import signal
import subprocess
import tempfile

from .memory import Peak


class Failed(Exception):
    """A process that did not do what it was started for; its last words."""


def run(command, environment=None, look=None, limit=600):
    """The last line of JSON of a process, and the peak of its tree's memory, if it is looked at every `look` seconds."""
    environment = {**os.environ, **(environment or {})}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, start_new_session=True
        )
        try:
            if look is None:
                said, peak = process.communicate(timeout=limit)[0], None
            else:
                with Peak(process.pid, look) as seen:
                    said = process.communicate(timeout=limit)[0]
                peak = seen.bytes
        except subprocess.TimeoutExpired:
            raise Failed(f"no end after {limit} s") from None
        finally:
            end(process)
        lines = [line for line in said.splitlines() if line.startswith("{")]
        if process.returncode != 0 or not lines:
            errors.seek(0)
            raise Failed(last_words(errors.read(), process.returncode))
        return json.loads(lines[-1]), peak


def lines(command):
    """All lines of JSON of a process that is not measured."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(last_words(done.stderr, done.returncode))
    return [json.loads(line) for line in done.stdout.splitlines()]


def end(process):
    """Ends what a process left behind: it began a session, so all that it started is of its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def last_words(text, code):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else f"ended with {code}"
