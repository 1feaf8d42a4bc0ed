"""Compares the TensorBoard events and the CSV table of a run, read by TensorBoard and pandas, with log.jsonl: see read_logs.sh.

    read_logs.py RUN MOEC
"""
import io
import json
import math
import subprocess
import sys

import pandas
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run, moec = sys.argv[1:]
with open(f"{run}/log.jsonl") as file:
    log = [json.loads(line) for line in file]
events = EventAccumulator(run, size_guidance={"scalars": 0})
events.Reload()


def parts_of(name, value, between):
    """Numbers per layer and expert, by their names in TensorBoard or the table."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {name: value}
    return {key: one for i, part in value.items() for key, one in parts_of(f"{name}{between}{i}", part, between).items()}


def single(line, between):
    flat = {}
    for name, value in line.items():
        flat.update(parts_of(name, value, between))
        kind = name.removesuffix(".layer")
        if isinstance(value, list) and not isinstance(value[0], list):
            assert math.isclose(line[kind], sum(value) / len(value), rel_tol=1e-5), (name, line)
    return flat


rows, log = [single(line, ".") for line in log], [single(line, "/") for line in log]
names = {name for line in log for name in line} - {"step"}
assert "first_token_attention.layer/1" in names
assert "val_loss" not in names or {"val_first_token_attention.layer/0", "val_expert_load.layer/1/2"} <= names
assert set(events.Tags()["scalars"]) == names, (events.Tags()["scalars"], names)
count = 0
for name in names:
    lines = [(line["step"], line[name]) for line in log if name in line]
    found = events.Scalars(name)
    assert [event.step for event in found] == [step for step, _ in lines], name
    for event, (_, value) in zip(found, lines):
        value = 1.0 if isinstance(value, str) else math.nan if value is None else value
        same = math.isclose(event.value, value, rel_tol=1e-6, abs_tol=1e-38) or (math.isnan(value) and math.isnan(event.value))
        assert same, (name, event, value)
        count += 1

table = pandas.read_csv(io.StringIO(subprocess.run([moec, "log", run, "--csv"], check=True, capture_output=True, text=True).stdout))
table = table.set_index("step")
assert list(table.index) == sorted({line["step"] for line in log})
for line in rows:
    for name, value in line.items():
        if name == "step":
            continue
        cell = table.at[line["step"], name]
        assert cell == value or (value is None and math.isnan(cell)) or math.isclose(cell, value, rel_tol=1e-8), (line, name, cell)
print(f"{run}: TensorBoard reads {count} numbers of {len(names)} names, pandas {len(table)} rows of {len(table.columns)} columns")
