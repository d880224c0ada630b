"""The environment of a run: versions, threads, flags, devices."""

from __future__ import annotations

import os
import platform

import numpy as np
import torch

_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "MKL_CBWR",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "PYTHONHASHSEED",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)


def environment() -> dict[str, str]:
    """Returns the environment for a header. Starts nothing: queries CUDA only if it is in use."""
    found = {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill_uninitialized_memory": torch.utils.deterministic.fill_uninitialized_memory,
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "cuda": torch.version.cuda,
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cudnn"] = torch.backends.cudnn.version()
        found["cudnn_deterministic"] = torch.backends.cudnn.deterministic
        found["cudnn_benchmark"] = torch.backends.cudnn.benchmark
        for index in range(torch.cuda.device_count()):
            found[f"cuda:{index}"] = torch.cuda.get_device_name(index)
    found |= {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    return {name: str(value) for name, value in found.items()}


def rank_and_world_size() -> tuple[int, int]:
    """Returns the rank by `torch.distributed` or the launcher's environment, else one rank."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
