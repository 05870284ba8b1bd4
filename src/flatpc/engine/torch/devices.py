"""Where torch can compute: a device is looked for once, and one that isn't there is an error that names those that are."""

from __future__ import annotations

import os

import torch

from flatpc._options import choice, shown, wrong
from flatpc.errors import DeviceError


def find_device(device: torch.device | str) -> torch.device:
    """`device`, if there is one of that name that can hold float64."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        raise wrong("device", device, "give 'cpu', 'cuda', 'cuda:1' or a torch.device.") from None
    if found.type == "mps":
        raise DeviceError(
            f"device={shown(str(device))}; Apple's MPS has no float64, in which scales and sums are kept. Take {_listed()}, or "
            f"leave device out.",
            option="device",
        )
    if found.type == "meta":
        raise DeviceError(f"device={shown(str(device))}; there are no numbers on it. Take {_listed()}.", option="device")
    try:
        torch.zeros(1, dtype=torch.float64, device=found)
    except Exception:  # Each kind of device fails in its own way, some of them for want of a package.
        raise DeviceError(
            f"device={shown(str(device))}; with float64 there is {_listed()} here. Leave device out, or install a torch that "
            f"has the device.",
            option="device",
        ) from None
    return found


def compiling() -> str | None:
    """The backend of `torch.compile` through which passes go: what `FLATPC_COMPILE` says, 1 being torch's own; None for none.

    Compiling takes from seconds to minutes for every shape of a batch, so that it is for long runs alone.
    """
    wanted = os.environ.get("FLATPC_COMPILE", "")
    if wanted in ("", "0"):
        return None
    known = ["inductor", *torch._dynamo.list_backends(None)]
    return "inductor" if wanted == "1" else choice("FLATPC_COMPILE", wanted, known)


def _listed() -> str:
    return ", ".join(["'cpu'", *(f"'cuda:{i}'" for i in range(torch.cuda.device_count()))])
