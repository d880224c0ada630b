"""Times PyTorch's DataLoader on the files of the example `throughput`.

    cargo run --release -p samebits-data --example throughput -- FOLDER
    python crates/data/benches/peers/pytorch.py FOLDER

Needs torch and numpy. Each line holds the set, the number of workers, samples per second, microseconds of
processor time per sample, workers included, and a digest of an epoch's batches.
"""

import hashlib
import os
import random
import sys
import tarfile
import time
from pathlib import Path

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

BATCH, SIDE, COLUMNS, WINDOW = 64, 32, 64, 1000


class Rows(Dataset):
    """Rows of a file of f32, read by the page cache as samebits reads them."""

    def __init__(self, path):
        self.rows = numpy.memmap(path, dtype="<f4", mode="r").reshape(-1, COLUMNS + 1)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = torch.from_numpy(numpy.array(self.rows[index]))
        return row[:-1], int(row[-1])


def decode(pixels, label):
    """Shifts an image by up to four pixels, mirrors it, and scales it, as torchvision does it on tensors."""
    image = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).reshape(SIDE, SIDE, 3).permute(2, 0, 1)
    image = torch.nn.functional.pad(image, (4, 4, 4, 4))
    top, left = torch.randint(0, 9, (2,)).tolist()
    image = image[:, top : top + SIDE, left : left + SIDE]
    if torch.rand(1) < 0.5:
        image = image.flip(-1)
    return (image.float() / 255 - 0.5) / 0.25, label[0]


class Images(Dataset):
    """Samples of a tar file by index."""

    def __init__(self, path):
        self.path, self.file = path, None
        with tarfile.open(path) as tar:
            members = [(member.offset_data, member.size) for member in tar]
        self.samples = list(zip(members[::2], members[1::2]))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        if self.file is None:
            self.file = os.open(self.path, os.O_RDONLY)
        return decode(*(os.pread(self.file, size, offset) for offset, size in self.samples[index]))


class Stream(IterableDataset):
    """Samples of a tar file from front to back, shuffled by a buffer. One file is one worker's."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        info = get_worker_info()
        if info is not None and info.id > 0:
            return
        draw, window = random.Random(0 if info is None else info.seed), []
        with tarfile.open(self.path, "r|") as tar:
            pixels = None
            for member in tar:
                content = tar.extractfile(member).read()
                if member.name.endswith(".rgb"):
                    pixels = content
                    continue
                window.append((pixels, content))
                if len(window) == WINDOW:
                    place = draw.randrange(WINDOW)
                    window[place], window[-1] = window[-1], window[place]
                    yield decode(*window.pop())
        draw.shuffle(window)
        for sample in window:
            yield decode(*sample)


def processor_seconds():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(name, data, workers):
    shuffle = not isinstance(data, IterableDataset)

    def epoch(number):
        torch.manual_seed(number)
        return DataLoader(data, batch_size=BATCH, shuffle=shuffle, num_workers=workers)

    digest = hashlib.sha256()
    for values, classes in epoch(0):
        digest.update(values.numpy().tobytes() + classes.numpy().tobytes())
    begin, cpu, samples, number = time.perf_counter(), processor_seconds(), 0, 0
    while time.perf_counter() - begin < 2:
        number += 1
        for values, classes in epoch(number):
            samples += len(classes)
    rate = samples / (time.perf_counter() - begin)
    cost = (processor_seconds() - cpu) * 1e6 / samples
    print(f"{name},{workers},{rate:.0f},{cost:.3f},{digest.hexdigest()[:16]}", flush=True)


def main():
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    table = numpy.loadtxt(folder / "rows.csv", delimiter=",", dtype=numpy.float32)
    table = TensorDataset(torch.from_numpy(table[:, :-1]), torch.from_numpy(table[:, -1]).long())
    rows, tar = Rows(folder / "rows.bin"), folder / "images.tar"
    for workers in [0, 1, 2]:
        measure("csv", table, workers)
        measure("rows", rows, workers)
        measure("images", Images(tar), workers)
        measure("stream", Stream(tar), workers)


if __name__ == "__main__":
    main()
