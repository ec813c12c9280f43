"""What PyTorch itself makes of the declaration."""

import torch


def softmax(x):
    return torch.softmax(x, 1) if x.numel() else torch.empty_like(x)
