"""Tiny random models of the transformers library, imported and exported by moec; see compare.sh.

For each family: a model saved by the library is imported; logits agree to 1e-5, greedy decoding agrees token by token. The exported
model has the same bits in every f32 tensor, and the library computes the same logits with it.
"""
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file

SMALL = dict(vocab_size=96, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=80, max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False)
MOE = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24)
LLAMA3 = dict(rope_type="llama3", rope_theta=1e4, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=24)
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=16)
LONGROPE = dict(rope_type="longrope", rope_theta=1e4, short_factor=[1.0, 1.05, 1.1, 1.25, 1.5, 2.0],
                long_factor=[1.0, 1.5, 2.5, 4.125, 6.0, 9.75])
CONTEXT = 64  # context length in moec
GROWS = {"llama-dynamic-grown"}  # the library scales by the current length, moec by the context length
DEEPSEEK = {**SMALL, "q_lora_rank": 20, "kv_lora_rank": 24, "qk_nope_head_dim": 12, "qk_rope_head_dim": 6, "v_head_dim": 10,
            "n_routed_experts": 8, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2, "n_shared_experts": 2,
            "moe_intermediate_size": 16, "first_k_dense_replace": 1, "num_key_value_heads": 4}
FAMILIES = {
    "llama": ("Llama", SMALL),
    "llama-tied-wide": ("Llama", {**SMALL, "tie_word_embeddings": True, "head_dim": 16, "num_key_value_heads": 4}),
    "llama-bias": ("Llama", {**SMALL, "attention_bias": True}),
    "llama-llama3": ("Llama", {**SMALL, "rope_parameters": LLAMA3}),
    "llama-yarn": ("Llama", {**SMALL, "rope_parameters": YARN}),
    "llama-linear": ("Llama", {**SMALL, "rope_parameters": dict(rope_type="linear", rope_theta=1e4, factor=2.5)}),
    "llama-dynamic": ("Llama", {**SMALL, "rope_parameters": dict(rope_type="dynamic", rope_theta=1e4, factor=4.0)}),
    "llama-dynamic-grown": ("Llama", {**SMALL, "max_position_embeddings": 24,
                                      "rope_parameters": dict(rope_type="dynamic", rope_theta=1e4, factor=4.0)}),
    "mistral": ("Mistral", {**SMALL, "sliding_window": None}),
    "mistral-window": ("Mistral", {**SMALL, "sliding_window": 9}),
    "phi3": ("Phi3", {**SMALL, "pad_token_id": 0}),
    "phi3-partial": ("Phi3", {**SMALL, "pad_token_id": 0, "sliding_window": 11, "tie_word_embeddings": True,
                              "rope_parameters": dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5)}),
    "phi3-longrope": ("Phi3", {**SMALL, "pad_token_id": 0, "original_max_position_embeddings": 8, "rope_parameters": LONGROPE}),
    "phi3-longrope-short": ("Phi3", {**SMALL, "pad_token_id": 0, "original_max_position_embeddings": 64,
                                     "max_position_embeddings": 256, "rope_parameters": LONGROPE}),
    "qwen2": ("Qwen2", SMALL),
    "qwen2-yarn": ("Qwen2", {**SMALL, "rope_parameters": {**YARN, "attention_factor": 1.25, "beta_fast": 4.0}}),
    "qwen3": ("Qwen3", {**SMALL, "head_dim": 16}),
    "mixtral": ("Mixtral", {**SMALL, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "qwen3_moe": ("Qwen3Moe", {**SMALL, **MOE, "head_dim": 16, "norm_topk_prob": True, "decoder_sparse_step": 1}),
    "olmoe": ("Olmoe", {**SMALL, "num_experts": 6, "num_experts_per_tok": 2}),
    "olmo2": ("Olmo2", SMALL),
    "gemma": ("Gemma", {**SMALL, "head_dim": 16, "tie_word_embeddings": True}),
    "gemma2": ("Gemma2", {**SMALL, "head_dim": 16, "tie_word_embeddings": True, "num_hidden_layers": 5, "sliding_window": 7,
                          "query_pre_attn_scalar": 24}),
    "gemma2-plain": ("Gemma2", {**SMALL, "head_dim": 16, "tie_word_embeddings": True, "attn_logit_softcapping": None,
                                "final_logit_softcapping": None, "layer_types": ["full_attention"] * 3}),
    "gemma3_text": ("Gemma3", {**SMALL, "head_dim": 16, "tie_word_embeddings": True, "num_hidden_layers": 7,
                               "sliding_window": 9, "query_pre_attn_scalar": 16}),
    "gemma3_text-scaled": ("Gemma3", {**SMALL, "head_dim": 16, "tie_word_embeddings": True, "sliding_window": 9,
                                      "layer_types": ["sliding_attention", "full_attention", "full_attention"],
                                      "rope_parameters": {"full_attention": dict(rope_type="linear", rope_theta=1e5, factor=4.0),
                                                          "sliding_attention": dict(rope_type="default", rope_theta=1e3)}}),
    "gpt_oss": ("GptOss", {**SMALL, "head_dim": 16, "num_hidden_layers": 4, "num_local_experts": 5, "sliding_window": 6,
                           "num_experts_per_tok": 2, "intermediate_size": 24,
                           "rope_parameters": {**YARN, "truncate": False, "factor": 8.0}}),
    "deepseek_v3": ("DeepseekV3", DEEPSEEK),
    "deepseek_v3-yarn": ("DeepseekV3", {**DEEPSEEK, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "n_shared_experts": 1,
                                        "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}),
    "qwen3_next": ("Qwen3Next", {**SMALL, **MOE, "head_dim": 16, "num_hidden_layers": 5, "shared_expert_intermediate_size": 20,
                                 "linear_key_head_dim": 8, "linear_value_head_dim": 10, "linear_num_key_heads": 2,
                                 "linear_num_value_heads": 4}),
    "gpt2": ("GPT2", dict(vocab_size=96, n_embd=48, n_layer=3, n_head=4, n_positions=64)),
    "gpt_neox": ("GPTNeoX", dict(vocab_size=96, hidden_size=48, num_hidden_layers=3, num_attention_heads=4,
                                 intermediate_size=96, max_position_embeddings=64, rotary_pct=0.5)),
}


def moec(*arguments):
    done = subprocess.run(["moec", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"moec {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def tiny(kind, options, seed):
    torch.manual_seed(seed)
    config = next(getattr(transformers, kind + end) for end in ("TextConfig", "Config") if hasattr(transformers, kind + end))
    config = config(**options)
    names = [kind + "TextForCausalLM", kind + "ForCausalLM", kind + "LMHeadModel"]
    model = next(getattr(transformers, name) for name in names if hasattr(transformers, name))(config)
    with torch.no_grad():  # new models have zeros and ones, which hide mistakes
        corrections = [buffer for name, buffer in model.named_buffers() if "correction" in name]
        for parameter in [*model.parameters(), *corrections]:
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.float().eval()


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor(tokens)).logits


def greedy(model, tokens, count):
    for _ in range(count):
        tokens = tokens + [logits_of(model, [tokens])[0, -1].argmax().item()]
    return tokens


def compare(name, folder):
    kind, options = FAMILIES[name]
    model = tiny(kind, options, 1)
    model.save_pretrained(folder / "theirs", max_shard_size="60KB" if name == "llama" else "5GB")
    print(f"{name}: {moec('import', folder / 'theirs', '--out', folder / 'run', '--name', name).strip()}")
    tokens = torch.randint(0, 96, (2, 65), generator=torch.Generator().manual_seed(2)).tolist()
    with open(folder / "tokens.bin", "wb") as file:
        numbers = [token for row in tokens for token in row]
        file.write(struct.pack("<256I", 20240520, 1, len(numbers), *[0] * 253))
        file.write(struct.pack(f"<{len(numbers)}H", *numbers))
    moec("forward", folder / "run" / f"{name.replace('-', '_')}.moe", "--weights", folder / "run" / "last.safetensors", "--input",
         folder / "tokens.bin", "--set", f"train.context_length={CONTEXT}", "--outputs", "logits", "--out", folder / "out.safetensors")
    ours = load_file(folder / "out.safetensors")["logits"]
    theirs = logits_of(model, [row[:CONTEXT] for row in tokens])
    error = (ours - theirs).abs().max().item() / theirs.abs().max().item()
    begin = tokens[0][:9]
    output = moec("generate", folder / "run", "--token-ids", "--prompt", " ".join(map(str, begin)), "-n", "30",
                "--temperature", "0", "--set", f"train.context_length={CONTEXT}").split()
    assert name in GROWS or list(map(int, output)) == greedy(model, begin, 30), "another text"
    moec("export", folder / "run", "--format", name.split("-")[0], "--out", folder / "again")
    before, after = {}, load_file(folder / "again" / "model.safetensors")
    for file in (folder / "theirs").glob("*.safetensors"):
        before.update(load_file(file))
    assert set(before) == set(after), set(before) ^ set(after)
    for key, value in before.items():
        assert value.dtype == after[key].dtype and torch.equal(value, after[key]), f"{key} is not the same"
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder / "again", dtype=torch.float32).eval()
    back = (logits_of(loaded, [row[:CONTEXT] for row in tokens]) - theirs).abs().max().item()
    print(f"{name}: logits differ by {error:.1e} of the largest, loaded again by {back:.1e}, {len(before)} tensors the same")
    return error < 1e-5 and back == 0


def main():
    failed = []
    for name in sys.argv[1:] or FAMILIES:
        folder = pathlib.Path(tempfile.mkdtemp())
        try:
            ok = compare(name, folder)
        except Exception as error:  # continue with the other families
            print(f"{name}: {type(error).__name__}: {error}")
            ok = False
        shutil.rmtree(folder)
        if not ok:
            failed.append(name)
    print(f"{len(failed)} failed: {' '.join(failed)}" if failed else "all agree")
    return 1 if failed else 0


sys.exit(main())
