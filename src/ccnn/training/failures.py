"""Losses that stop being numbers: where it began, and what to do."""

import torch
from torch import Tensor, nn

from ccnn.training.penalties import convolutions
from ccnn.training.placing import Placed

ADVICE = (
    "Try a lower optim.lr, optim.clip=1, a longer optim.warmup_epochs, or look for huge values "
    "in the data."
)


class NotFinite(ArithmeticError):  # noqa: N818 (what it says is a sentence)
    """The loss or a gradient became NaN or infinite."""


def first_failure(model: nn.Module, placed: Placed) -> str:
    """Say where in the network numbers stop being finite for a batch.

    Looks at the input, the parameters and the sampled kernels, then runs the batch again and
    watches what each module returns.
    """
    x = placed.x
    if x.is_floating_point() and not torch.isfinite(x).all():
        return "the input itself"
    for name, p in model.named_parameters():
        if not torch.isfinite(p).all():
            return f"the parameter {name}"
    names = {id(m): name for name, m in model.named_modules()}
    with torch.no_grad():
        for layer in convolutions(model):
            if not torch.isfinite(layer.sampled_kernel()).all():
                return f"the kernel of {names[id(layer)]}"
    return _first_output(model, placed) or "the loss, from finite outputs"


def first_bad_gradient(model: nn.Module) -> str:
    """Return the name of the first parameter whose gradient is not finite."""
    for name, p in model.named_parameters():
        if p.grad is not None and not torch.isfinite(p.grad).all():
            return name
    return "none left to see"


def _first_output(model: nn.Module, placed: Placed) -> str | None:
    found: list[str] = []

    names = {id(m): name or "the network" for name, m in model.named_modules()}

    def watch(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor) and not torch.isfinite(output).all():
            found.append(names[id(module)])

    handles = [m.register_forward_hook(watch) for m in model.modules()]
    try:
        with torch.no_grad():
            placed.through(model)
    finally:
        for handle in handles:
            handle.remove()
    return f"the output of {found[0]}" if found else None
