"""Kernel networks: small networks that are a convolution kernel, as a function of position."""

from ccnn.nn.kernels.base import AbstractKernelNet
from ccnn.nn.kernels.fouriernet import FourierNet
from ccnn.nn.kernels.gabornet import GaborNet
from ccnn.nn.kernels.magnet import MAGNet
from ccnn.nn.kernels.mlp import MLP
from ccnn.nn.kernels.rfnet import RFNet
from ccnn.nn.kernels.siren import SIREN

KERNELS: dict[str, type[AbstractKernelNet]] = {
    "MAGNet": MAGNet,
    "SIREN": SIREN,
    "GaborNet": GaborNet,
    "FourierNet": FourierNet,
    "RFNet": RFNet,
    "MLP": MLP,
}

__all__ = [
    "KERNELS",
    "MLP",
    "SIREN",
    "AbstractKernelNet",
    "FourierNet",
    "GaborNet",
    "MAGNet",
    "RFNet",
]
