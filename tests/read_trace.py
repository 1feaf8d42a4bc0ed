"""Compares a trace of `moec bench`, read by Perfetto, with the report of the same measurement: see read_trace.sh.

    read_trace.py SOCKET REPORT
"""
import json
import sys

from perfetto.trace_processor import TraceProcessor

socket, report = sys.argv[1:]
kernels = [row for row in json.load(open(report))["kernels"] if row["name"] != "between units"]
with TraceProcessor(remote=socket) as processor:
    slices = list(processor.query("select id, name, category, ts, dur, depth, arg_set_id from slice order by ts"))
    step = [one for one in slices if one.category == "step"]
    launches = [one for one in slices if one.category != "step"]
    assert len(step) == 1 and step[0].depth == 0, "the step is not one slice"
    assert len(launches) == sum(row["launches"] for row in kernels), "launches are missing"
    assert all(one.depth == 1 for one in launches), "a launch is outside of the step, or in another one"
    seconds = sum(row["microseconds"] for row in kernels) / 1e6
    assert abs(sum(one.dur for one in launches) / 1e9 - seconds) <= 1e-3 * seconds + 1e-9 * len(launches), "other times"
    arguments = {}
    for row in processor.query("select arg_set_id, key, display_value from args"):
        arguments.setdefault(row.arg_set_id, {})[row.key.replace("args.", "")] = row.display_value
    query = [arguments[one.arg_set_id] for one in launches if one.name == "attention_q"]
    assert query and all(one["layer"] == "block.0.attention" and float(one["flops"]) > 0 for one in query), query
print(f"{len(launches)} launches agree")
