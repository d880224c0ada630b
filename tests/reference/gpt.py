"""Writes gpt/: tiny checkpoints of GPT-2 and Llama, tokens, and the logits to expect.

    pip install torch==2.15.* transformers==5.24.* safetensors
    python gpt.py

The library `transformers` writes the checkpoints and computes the logits, in float64.
"""

import json
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

VOCABULARY, LENGTH = 29, 12


def gpt2(**more):
    sizes = dict(vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=4, n_positions=16)
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, **more))


def llama(**more):
    sizes = dict(vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2)
    heads = dict(num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16)
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, bos_token_id=0, eos_token_id=0, **more))


MODELS = {
    "gpt2": lambda: gpt2(),
    "gpt2_untied": lambda: gpt2(tie_word_embeddings=False, activation_function="gelu", n_inner=40),
    "llama": lambda: llama(rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "llama_tied": lambda: llama(tie_word_embeddings=True, rms_norm_eps=1e-3),
    # Pairs of all three kinds: kept, in the transition, scaled.
    "llama3": lambda: llama(
        head_dim=12,
        attention_bias=True,
        mlp_bias=True,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ),
    "llama_linear": lambda: llama(
        head_dim=6, rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}
    ),
}


def main():
    folder = pathlib.Path(__file__).parent / "gpt"
    for number, (name, build) in enumerate(MODELS.items()):
        torch.manual_seed(number)
        model = build().eval()
        with torch.no_grad():
            # Larger than those of the start of training, and no bias is 0.
            for x in model.parameters():
                x.add_(torch.randn_like(x) * 0.3)
        path = folder / name
        if name == "llama":
            model = model.to(torch.bfloat16)
        # Two files of tensors for one of the models.
        model.save_pretrained(path, max_shard_size="8KB" if name == "llama" else "1GB")
        (path / "generation_config.json").unlink(missing_ok=True)
        tokens = torch.randint(0, VOCABULARY, (2, LENGTH))
        # Read anew: a model that was in bfloat16 keeps rotary frequencies rounded to it.
        model = type(model).from_pretrained(path, dtype=torch.float64).eval()
        with torch.no_grad():
            logits = model(tokens).logits
        save_file({"tokens": tokens, "logits": logits}, path / "expected.safetensors")
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


main()
