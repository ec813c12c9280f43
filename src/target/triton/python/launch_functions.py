"""Functions that decide on the host how a kernel is launched; the emitter copies those that a file uses into it."""

import torch
import triton


def _on_nvidia(kernel):
    """Whether the kernel is compiled for an NVIDIA GPU; under Triton's interpreter it is no JITFunction."""
    return isinstance(kernel, triton.JITFunction) and torch.version.cuda is not None


def _resident(kernel, device, programs):
    """How many programs of a kernel run at the same time, where a multiprocessor's registers suffice for so many.

    0 where they are not launched so that each can await the others: cooperative launches pay, by measurement, from compute
    capability 9.0 on.
    """
    if not _on_nvidia(kernel) or torch.cuda.get_device_capability(device) < (9, 0):
        return 0
    return programs * torch.cuda.get_device_properties(device).multi_processor_count


def _early(kernel, device):
    """Options by which a kernel that awaits what is ahead of it in the stream is launched before that has ended.

    From compute capability 9.0 on (programmatic dependent launch).
    """
    early = _on_nvidia(kernel) and torch.cuda.get_device_capability(device) >= (9, 0)
    return {"EARLY": True, "launch_pdl": True} if early else {"EARLY": False}
