"""Uses of a folder that `moec emit --target torch` writes, compared with moec; see torch_uses.sh.

    torch_uses.py FOLDER     an empty folder
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import warnings

import torch
import transformers
from safetensors.torch import load_file

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
work = pathlib.Path(sys.argv[1])
CONTEXT = 32
SPEC = f"""use decoder
use recurrent
use lora
model dense = decoder {{
  vocab_size = 256, dim = 32, layers = 2, attention = {{ heads = {{ q = 4, k = 2, v = 2 }} }}
  train = {{ batch_size = 2, context_length = {CONTEXT}, schedule = constant, lr = 1e-3, schedule.warmup_steps = 0, steps = 40, grad_clip = 0 }}
}}
model mixture = dense {{ ffn = moe {{ experts = 4, top_k = 2, expert = swiglu {{ hidden_dim = 32 }} }} }}
model recurrent = dense {{ attention = gated_delta }}
model tuned = dense {{ parameters = [{{ of = "*", freeze = true }}, {{ of = "*", apply = lora {{ rank = 8 }} }}] }}
"""


def moec(*arguments):
    done = subprocess.run([os.environ["MOEC"], *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"moec {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, dtype=torch.float32)


def emitted(run):
    folder = work / f"{run.name}_torch"
    moec("emit", run, "--target", "torch", "--out", folder)
    return folder


def continued(name):
    """The largest difference of the next 20 losses, relative, between moec and torch.optim.AdamW with the moments of the run."""
    line = work / "line"  # one window: every step has the same sequences
    line.write_bytes(bytes(random.Random(1).randrange(97, 123) for _ in range(CONTEXT + 1)))
    run, spec = work / name, f"{work}/spec.moe:{name}"
    moec("train", spec, "--data", line, "--val-data", line, "--out", run, "--steps", 10)
    model = load(emitted(run)).train()
    state = load_file(run / "last.safetensors")
    optimizer = torch.optim.AdamW(model.weight_decay_groups(0.1), lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    trained = [(key.replace("_layer.", "."), parameter) for key, parameter in model.named_parameters() if parameter.requires_grad]
    for key, parameter in trained:
        optimizer.state[parameter] = {"step": torch.tensor(10.0), "exp_avg": state[f"optimizer.m:{key}"].clone(),
                                      "exp_avg_sq": state[f"optimizer.v:{key}"].clone()}
    frozen = [(parameter, parameter.clone()) for parameter in model.parameters() if not parameter.requires_grad]
    moec("train", spec, "--data", line, "--val-data", line, "--out", run, "--steps", 30, "--resume")
    log = [json.loads(text) for text in (run / "log.jsonl").read_text().splitlines()]
    expected = [entry["loss"] for entry in log if "loss" in entry and entry["step"] > 10]
    rows = torch.tensor([list(line.read_bytes())] * 2)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = model(rows[:, :-1], targets=rows[:, 1:]).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(torch.equal(parameter, before) for parameter, before in frozen)
    assert len(expected) == 20 and losses[-1] < 0.9 * losses[0], (expected, losses)
    return max(abs(a - b) / abs(b) for a, b in zip(losses, expected))


def measured():
    """Right answers to 60 questions, by moec eval and by lm-evaluation-harness, with a tokenizer."""
    import lm_eval
    import tokenizers
    text = work / "text"
    words = ["tree", "stone", "river", "cloud", "green", "silent", "moves", "falls", "the", "old", "over", "under", "and", "then"]
    source = random.Random(2)
    text.write_text(" ".join(source.choice(words) for _ in range(20000)))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.train([str(text)], tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|end|>"]))
    tokenizer.save(str(work / "tokenizer.json"))
    run = work / "asked"
    moec("train", f"{work}/spec.moe:dense", "--set", f"vocab_size={tokenizer.get_vocab_size()}", "--data", text, "--tokenizer",
         work / "tokenizer.json", "--out", run, "--steps", 60)
    questions = [{"context": " ".join(source.choice(words) for _ in range(6)),
                  "choices": [" " + " ".join(source.choice(words) for _ in range(source.randrange(1, 4))) for _ in range(4)],
                  "answer": source.randrange(4)} for _ in range(60)]
    (work / "questions").mkdir()
    asked = work / "questions" / "questions.jsonl"
    asked.write_text("".join(json.dumps(one) + "\n" for one in questions))
    (work / "questions" / "asked.yaml").write_text(f"""task: asked
dataset_path: json
dataset_kwargs:
  data_files:
    test: {asked}
output_type: multiple_choice
test_split: test
doc_to_text: "{{{{context}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
target_delimiter: ""
metric_list:
  - metric: acc
""")
    ours = json.loads(moec("eval", run, "--multiple-choice", asked, "--json"))
    folder = emitted(run)
    theirs = lm_eval.simple_evaluate(
        model="hf", model_args={"pretrained": str(folder), "trust_remote_code": True, "dtype": "float32", "device": "cpu",
                                "prefix_token_id": 0},  # of empty contexts; the tokenizer has no token of the end
        tasks=["asked"], task_manager=lm_eval.tasks.TaskManager(include_path=str(work / "questions"), include_defaults=False),
        bootstrap_iters=0, verbosity="ERROR")
    return [round(60 * accuracy, 6) for accuracy in (ours["accuracy"], theirs["results"]["asked"]["acc,none"])]


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens, use_cache=False).logits


def relative(a, b):
    return (a - b).abs().max().item() / b.abs().max().item()


def exported(model):
    """The difference of ONNX Runtime."""
    import onnxruntime
    tokens, others = torch.randint(0, 256, (2, 2, CONTEXT), generator=torch.Generator().manual_seed(4))
    path = str(work / "model.onnx")
    torch.onnx.export(Logits(model), (tokens,), path, dynamo=True, input_names=["tokens"], output_names=["logits"], verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = model(others).logits  # a mixture selects other experts
    return relative(torch.tensor(session.run(None, {session.get_inputs()[0].name: others.numpy()})[0]), expected)


def compiled(model):
    """The difference of torch.compile, of the loss and its gradients."""
    rows = torch.randint(0, 256, (2, CONTEXT + 1), generator=torch.Generator().manual_seed(5))
    found = []
    for run in model, torch.compile(model):
        model.zero_grad()
        loss = run(rows[:, :-1], targets=rows[:, 1:]).loss
        loss.backward()
        found.append([loss.detach().reshape(1), *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    return max(relative(b, a) for a, b in zip(*found) if a.abs().max() > 1e-8)


def recomputed(model):
    """The difference of gradient checkpointing, of the gradients."""
    rows = torch.randint(0, 256, (2, CONTEXT + 1), generator=torch.Generator().manual_seed(6))
    found = []
    for enable in model.gradient_checkpointing_disable, model.gradient_checkpointing_enable:
        enable()
        model.train().zero_grad()
        model(rows[:, :-1], targets=rows[:, 1:]).loss.backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
    model.gradient_checkpointing_disable()
    model.eval()
    return max(relative(b, a) for a, b in zip(*found) if a.abs().max() > 1e-8)


def padded(model):
    """Whether a padded batch generates the tokens of its sequences alone."""
    model.eval()
    short, long = torch.tensor([[5, 6, 7]]), torch.tensor([[9, 8, 7, 6, 5, 4]])
    batch = torch.cat([torch.cat([torch.zeros(1, 3, dtype=torch.long), short], 1), long])
    mask = torch.tensor([[0, 0, 0, 1, 1, 1], [1] * 6])
    options = {"max_new_tokens": 12, "do_sample": False}
    both = model.generate(batch, attention_mask=mask, **options)[:, 6:].tolist()
    alone = [model.generate(one, attention_mask=torch.ones_like(one), **options)[0, one.shape[1]:].tolist() for one in (short, long)]
    return both == alone


def check(what, good, shown):
    print(f"{what}: {shown}{'' if good else '  WRONG'}", flush=True)
    return good


def main():
    (work / "spec.moe").write_text(SPEC)
    results = []
    for name in "dense", "mixture", "recurrent", "tuned":
        difference = continued(name)
        results.append(check(f"{name}: the next 20 losses", difference <= 1e-4, f"{difference:.1e}"))
        model = load(work / f"{name}_torch").eval()
        results.append(check(f"{name}: a padded batch", padded(model), "the same tokens"))
        difference = recomputed(model)
        results.append(check(f"{name}: gradient checkpointing", difference <= 1e-5, f"{difference:.1e}"))
        if name == "recurrent":
            continue
        difference = exported(model)
        results.append(check(f"{name}: ONNX Runtime", difference <= 1e-4, f"{difference:.1e}"))
        difference = compiled(model)
        results.append(check(f"{name}: torch.compile", difference <= 1e-4, f"{difference:.1e}"))
    ours, theirs = measured()
    results.append(check("right answers", ours == theirs, f"moec {ours}, lm-evaluation-harness {theirs}"))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return not all(results)


sys.exit(main())
