"""Prints what TensorBoard reads in a directory of event files: its scalars and texts, by tag, each with its step; and the
steps at which sessions start."""

import json
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.compat.proto.event_pb2 import SessionLog

SIZES = {"scalars": 0, "tensors": 0}

events = EventAccumulator(sys.argv[1], size_guidance=SIZES)
events.Reload()
scalars = {tag: [[event.step, event.value] for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
texts = {
    tag: [[event.step, event.tensor_proto.string_val[0].decode()] for event in events.Tensors(tag)]
    for tag in events.Tags()["tensors"]
}
starts = [
    event.step
    for path in sorted(Path(sys.argv[1]).iterdir())
    for event in EventFileLoader(str(path)).Load()
    if event.HasField("session_log") and event.session_log.status == SessionLog.START
]
print(json.dumps({"scalars": scalars, "texts": texts, "starts": starts}))
