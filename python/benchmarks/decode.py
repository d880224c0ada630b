"""Decoding by the model of `samebits gpt` in PyTorch, with a cache: bytes per second.

    python python/benchmarks/decode.py [TOKENS]

Compare with the rate that `samebits generate MODEL --tokens TOKENS` prints for a model with the
default settings. The weights are random: they do not change the time. The environment sets
`THREADS` (1) and `REPS` (5); the median of the repetitions is printed, of wall and processor time.
"""

import os
import statistics
import sys
import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

VOCABULARY, WIDTH, HEADS, LAYERS, CONTEXT = 256, 128, 4, 3, 256
HEAD = WIDTH // HEADS
HIDDEN = WIDTH * 8 // 3


class Block(nn.Module):
    """A block of Llama with a cache of fixed size."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.after = nn.RMSNorm(WIDTH)
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.cache = torch.zeros(2, HEADS, CONTEXT, HEAD)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, start: int) -> Tensor:
        """Adds the attention of new tokens to all tokens up to them, and the feedforward part."""
        length = x.shape[0]
        q, k, v = self.qkv(self.before(x)).view(length, 3, HEADS, HEAD).permute(1, 2, 0, 3)
        q, k = (rotated(part, cos, sin) for part in (q, k))
        end = start + length
        self.cache[0, :, start:end] = k
        self.cache[1, :, start:end] = v
        found = F.scaled_dot_product_attention(
            q, self.cache[0, :, :end], self.cache[1, :, :end], is_causal=length > 1
        )
        x = x + self.out(found.transpose(0, 1).reshape(length, WIDTH))
        h = self.after(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates pairs of features."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Gpt(nn.Module):
    """The model with its default settings."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        steps = 10_000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
        angles = torch.arange(CONTEXT)[:, None] * steps
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, tokens: Tensor, start: int) -> Tensor:
        """Returns the logits of the token after the last one."""
        x = self.embedding(tokens)
        end = start + len(tokens)
        cos, sin = self.cos[start:end], self.sin[start:end]
        for block in self.blocks:
            x = block(x, cos, sin, start)
        return F.linear(self.norm(x[-1]), self.embedding.weight)


@torch.inference_mode()
def generate(model: Gpt, prompt: list[int], tokens: int) -> list[int]:
    """Continues a prompt at a temperature of 0.8."""
    found = list(prompt)
    new, start = torch.tensor(prompt), 0
    for _ in range(tokens):
        probabilities = torch.softmax(model(new, start) / 0.8, dim=-1)
        start = len(found)
        new = torch.multinomial(probabilities, 1)
        found.append(int(new))
    return found


def main() -> None:
    """Prints the median rates."""
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    torch.manual_seed(0)
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    model, prompt = Gpt(), list(b"The ")
    if len(prompt) + tokens > CONTEXT:
        sys.exit(f"expected at most {CONTEXT - len(prompt)} tokens, got {tokens}")
    generate(model, prompt, tokens)
    wall, processor = [], []
    for _ in range(int(os.environ.get("REPS", "5"))):
        start, cpu = time.perf_counter(), time.process_time()
        generate(model, prompt, tokens)
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - cpu)
    wall_rate, cpu_rate = (tokens / statistics.median(times) for times in (wall, processor))
    print(f"{tokens} bytes: {wall_rate:.0f} per second, {cpu_rate:.0f} per second of a processor")


if __name__ == "__main__":
    main()
