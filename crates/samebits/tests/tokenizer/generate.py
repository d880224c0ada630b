"""Writes tokenizer.json, a byte-level BPE, and expected.json, texts and their tokens.

    pip install tokenizers==0.22.*
    python generate.py
"""

import json
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = [
    "We the People of the United States",
    "  two  spaces, 1787.\n\nA line's end",
    "naïve café — 東京 \U0001f600",
    "",
]


def main() -> None:
    """Trains on the text of `samebits gpt`."""
    folder = pathlib.Path(__file__).parent
    text = folder.parents[2] / "cli/data/constitution.txt"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train([str(text)], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    expected = [{"text": text, "tokens": tokenizer.encode(text).ids} for text in TEXTS]
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


main()
