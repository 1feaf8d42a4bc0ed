"""Models that `moec emit --target torch` writes, compared with moec; see torch_models.sh.

For each model: random weights (all of them, none is 0 or 1), written by moec as a checkpoint; the emitted folder is loaded by
transformers. Logits, loss, gradients by name, and greedy tokens with a cache must agree; other values of options take effect
or are refused.
"""
import copy
import itertools
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

BATCH, TOKENS = 2, 64
FULL = bool(os.environ.get("FULL"))  # with programs compiled by moec, also for the tokens
DEVICE = [] if FULL else ["--device", "reference"]
NUMBERS = itertools.count()  # of emitted folders: transformers keeps the modules of a folder by its name
warnings.filterwarnings("ignore")
torch.set_num_threads(int(os.environ.get("THREADS", "2")))
transformers.logging.set_verbosity_error()


def moec(*arguments):
    done = subprocess.run([os.environ["MOEC"], *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"moec {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def emitted_model(checkpoint, folder):
    """The folder that moec emits and the model that transformers loads from it."""
    emitted = folder / f"model{next(NUMBERS)}"
    moec("emit", checkpoint, "--target", "torch", "--out", emitted)
    return emitted, transformers.AutoModelForCausalLM.from_pretrained(emitted, trust_remote_code=True, dtype=torch.float32).eval()


def relative(ours, theirs):
    return (ours - theirs).abs().max().item() / max(ours.abs().max().item(), 1e-6)


def spread(path):
    """Adds noise to all weights of a checkpoint."""
    with safe_open(path, "pt") as file:
        notes = {key: value for key, value in file.metadata().items() if key != "checksum"}
    generator = torch.Generator().manual_seed(3)
    tensors = load_file(path)
    for name in sorted(tensors):
        noise = torch.randn(tensors[name].shape, generator=generator)
        tensors[name] = tensors[name] + 0.05 * noise
    save_file(tensors, path, notes)


def write_tokens(path, rows, wide):
    numbers = [token for row in rows.tolist() for token in row]
    with open(path, "wb") as file:
        file.write(struct.pack("<256I", 20240520, 1, len(numbers), *[0] * 253))
        file.write(struct.pack(f"<{len(numbers)}{'I' if wide else 'H'}", *numbers))


def other_inputs(model, context):
    """Values of the inputs that are not tokens: small numbers for integers, which all of the models accept."""
    generator = torch.Generator().manual_seed(4)
    values = {}
    for name, *shape in model.inputs:
        shape = [BATCH, *(context if size is None else size for size in shape)]
        real = name in ("image", "weights")
        values[name] = torch.rand(shape, generator=generator) if real else torch.randint(0, 3, shape, generator=generator)
    return values


def examples(checkpoint, folder, rows, inputs, shown):
    """Tensors that moec computes from a file with all inputs."""
    tensors = {**inputs, "tokens": rows[:, :-1], "targets": rows[:, 1:]}
    save_file({name: (x if x.is_floating_point() else x.int()).contiguous() for name, x in tensors.items()}, folder / "examples")
    moec("inspect", checkpoint, "--data", folder / "examples", *DEVICE, "-b", len(rows), *(f"--show={name}" for name in shown), "--out",
         folder / "out.npz")
    return {name: torch.tensor(x) for name, x in numpy.load(folder / "out.npz").items()}


def moec_output(checkpoint, folder, rows, inputs, has_loss, vocabulary):
    """Logits, losses and gradients of moec."""
    if inputs:
        return examples(checkpoint, folder, rows, inputs, ["logits", "loss", "gradient:*"])
    write_tokens(folder / "tokens.bin", rows, vocabulary > 65536)
    moec("forward", checkpoint, *DEVICE, "--weights", checkpoint, "--input", folder / "tokens.bin", "--outputs",
         "logits,loss,total,grads" if has_loss else "logits", "--out", folder / "out.safetensors")
    return load_file(folder / "out.safetensors")


def moec_tokens(spec, checkpoint, folder, prompt, inputs, count, context):
    """Greedy tokens of moec, which decodes tokens alone; with other inputs from the logits of whole sequences."""
    if not inputs:
        exact = ["--set", "attention.top_values=0"] if spec.endswith("_best") else []  # an approximation of moec
        text = moec("generate", checkpoint, "--token-ids", "-p", " ".join(map(str, prompt[0].tolist())), "-n", count, "--temperature",
                    "0", *exact)
        return list(map(int, text.split()))[5:]
    tokens = torch.zeros(1, context + 1, dtype=torch.long)
    tokens[:, :5] = prompt
    for at in range(5, 5 + count):
        logits = examples(checkpoint, folder, tokens, inputs, ["logits"])["logits"]
        tokens[0, at] = logits.reshape(context, -1)[at - 1].argmax()
    return tokens[0, 5 : 5 + count].tolist()


def compare_gradients(model, rows, inputs, theirs):
    model.zero_grad()
    output = model(rows[:, :-1], targets=rows[:, 1:], **inputs)
    output.loss.backward()
    worst = 0.0
    largest = max(value.abs().max().item() for key, value in theirs.items() if key.startswith("gradient:"))
    for name, parameter in model.named_parameters():
        key = "gradient:" + re.sub(r"_?(_layer)?\.", ".", name).rstrip("_")  # the name in the spec
        if key not in theirs or not parameter.requires_grad:
            continue
        ours = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        scale = max(theirs[key].abs().max().item(), 1e-3 * largest)  # below: rounding errors of larger terms
        difference = (ours - theirs[key]).abs().max().item() / scale
        if difference > LIMITS["gradients"]:
            print(f"    gradient of {name} differs by {difference:.1e} in {ours.dtype}")
        worst = max(worst, difference)
    return output.loss.item(), worst


def greedy(model, tokens, inputs, count):
    """The same tokens without a cache."""
    for _ in range(count):
        with torch.no_grad():
            tokens = torch.cat([tokens, model(tokens, **inputs).logits[:, -1:].argmax(-1)], 1)
    return tokens[0, -count:].tolist()


def other_values(config):
    """Another value of each free option."""
    free = sys.modules[type(config).__module__].FREE
    return {name: config.options[name] + 1 if kind is int else config.options[name] * 0.8 for name, kind in free.items()}


def compare_options(spec, sets, folder, config, rows, inputs):
    """Options that change in the configuration, against a model that moec writes with them: the difference of the logits and losses.
    None: no other values are valid together.
    """
    changed = other_values(config)
    expected, held = {**config.options, **changed}, dict(changed)
    for attempt in range(2):
        checkpoint = folder / f"options{attempt}.safetensors"
        values = [f"--set={text}" for text in sets] + [f"--set={name}={value!r}" for name, value in held.items()]
        try:
            moec("init", spec, *values, "--out", checkpoint)
        except RuntimeError:
            return None
        spread(checkpoint)
        _, theirs = emitted_model(checkpoint, folder)
        follow = {name: value for name, value in expected.items()
                  if not name.startswith(("train", "inference")) and theirs.config.options.get(name, value) != value}
        held.update(follow)
        if not follow:
            break
    assert not follow, follow
    config.options = changed
    ours = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=True, dtype=torch.float32).eval()
    ours.load_state_dict(theirs.state_dict())
    with torch.no_grad():
        a, b = (model(rows[:, :-1], targets=rows[:, 1:], **inputs) for model in (ours, theirs))
    difference = relative(a.logits, b.logits)
    return difference if a.loss is None else max(difference, abs(a.loss.item() - b.loss.item()) / abs(b.loss.item()))


def refused_options(model):
    """The options that are not free and whose other values construct a model."""
    config, wrong = model.config, []
    free = sys.modules[type(config).__module__].FREE
    for name, value in {**config.options}.items():
        if name in free:
            continue
        config.options = {name: value + 1 if isinstance(value, (int, float)) else value + "s"}
        try:
            type(model)(config)
            wrong.append(name)
        except ValueError as error:
            assert name in str(error), error
    for name in free:
        for value in 0, -config.options[name] if name in config.options else -1, "1":
            config.options = {name: value}
            try:
                type(model)(config)
                wrong.append(f"{name}={value}")
            except ValueError as error:
                assert name in str(error), error
    config.options = {}
    config.layers = 5  # not an option: no effect
    try:
        type(model)(config)
        wrong += ["config.layers"] if "layers" in sys.modules[type(config).__module__].OPTIONS else []
    except ValueError as error:
        assert "layers" in str(error), error
    del config.layers
    return wrong


def compare(spec, sets, folder):
    checkpoint = folder / "weights.safetensors"
    options = [f"--set={text}" for text in sets]
    moec("init", spec, *options, "--out", checkpoint)
    spread(checkpoint)
    emitted, model = emitted_model(checkpoint, folder)
    vocabulary = model.config.vocab_size
    context = model.config.max_position_embeddings
    rows = torch.randint(0, vocabulary, (BATCH, context + 1), generator=torch.Generator().manual_seed(2))
    inputs = other_inputs(model, context)
    has_loss = "targets is" in (next(emitted.glob("modeling_*.py"))).read_text()
    theirs = moec_output(checkpoint, folder, rows, inputs, has_loss, vocabulary)
    with torch.no_grad():
        logits = model(rows[:, :-1], **inputs).logits
    ruff = [subprocess.run([pathlib.Path(sys.executable).parent / "ruff", *words, "-q", "--isolated", emitted], capture_output=True)
            for words in (["check"], ["format", "--check", "--line-length", "120"])]
    result = {"ruff": sum(done.returncode for done in ruff), "logits": relative(theirs["logits"], logits)}
    loss, result["gradients"] = compare_gradients(model, rows, inputs, theirs)
    if FULL and not inputs and result["gradients"] > LIMITS["gradients"]:  # rounding errors in f32 of the one or the other? Both in double
        moec("forward", checkpoint, "--device", "reference", "--weights", checkpoint, "--input", folder / "tokens.bin", "--outputs",
             "logits,loss,total,grads", "--out", folder / "double.safetensors")
        _, result["gradients"] = compare_gradients(model.double(), rows, inputs, load_file(folder / "double.safetensors"))
        model.float()
    result["loss"] = abs(loss - theirs.get("total", theirs["loss"]).item()) / abs(loss)
    if not model.hindrance:
        count = min(TOKENS, context - 5)
        prompt = rows[:1, :5]
        own = {name: inputs[name][:1] for name, *shape in model.inputs if None not in shape}  # the others are for targets
        ours = model.generate(prompt, max_new_tokens=count, do_sample=False, attention_mask=torch.ones_like(prompt), **own)
        ours = ours[0, 5:].tolist()
        if FULL:
            expected = moec_tokens(spec, checkpoint, folder, prompt, {name: x[:1] for name, x in inputs.items()}, count, context)
        else:
            expected = greedy(model, prompt, own, count)
        equal = next((i for i, (a, b) in enumerate(zip(ours, expected)) if a != b), min(len(ours), len(expected)))
        result["tokens"] = equal
        result["wanted"] = count
    result["options"] = compare_options(spec, sets, folder, copy.deepcopy(model.config), rows, inputs)
    result["ignored"] = refused_options(model)
    return result


LIMITS = {"ruff": 0, "logits": 1e-5, "gradients": 1e-4, "loss": 1e-5, "options": 1e-5}


def main():
    passed, failed = 0, []
    for line in sys.stdin:
        spec, *sets = line.split()
        folder = pathlib.Path(tempfile.mkdtemp())
        try:
            result = compare(spec, sets, folder)
            wrong = [name for name, limit in LIMITS.items() if not (result[name] or 0) <= limit] + result["ignored"]
            if result.get("tokens") != result.get("wanted"):
                wrong.append("tokens")
            tokens = f"{result['tokens']} of {result['wanted']} tokens" if "tokens" in result else "no decoding"
            print(f"{spec}: logits {result['logits']:.1e}, loss {result['loss']:.1e}, gradients {result['gradients']:.1e}, "
                  f"{tokens}, options {'not tried' if result['options'] is None else format(result['options'], '.1e')}"
                  f"{'  WRONG: ' + ' '.join(wrong) if wrong else ''}", flush=True)
        except Exception as error:  # continue with the other models
            print(f"{spec}: {type(error).__name__}: {str(error)[-1500:] if not os.environ.get('TRACE') else ''}", flush=True)
            if os.environ.get("TRACE"):
                import traceback
                traceback.print_exc()
            wrong = ["error"]
        shutil.rmtree(folder)
        passed += not wrong
        failed += [spec] if wrong else []
    print(f"{passed} passed, {len(failed)} failed{': ' + ' '.join(failed) if failed else ''}")
    return bool(failed)


sys.exit(main())
