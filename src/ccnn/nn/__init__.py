"""Modules from plain arguments: continuous kernels, windows, convolutions, blocks."""

from ccnn.nn.block import ResidualBlock
from ccnn.nn.conv import CKConv, FlexConv, SeparableFlexConv
from ccnn.nn.dropout import Dropout
from ccnn.nn.kernels import (
    KERNELS,
    MLP,
    SIREN,
    AbstractKernelNet,
    FourierNet,
    GaborNet,
    MAGNet,
    RFNet,
)
from ccnn.nn.masks import GaussianMask
from ccnn.nn.norm import BatchNorm, LayerNorm
from ccnn.nn.pointwise import Pointwise
from ccnn.nn.post_norm import PostNormBlock

__all__ = [
    "KERNELS",
    "MLP",
    "SIREN",
    "AbstractKernelNet",
    "BatchNorm",
    "CKConv",
    "Dropout",
    "FlexConv",
    "FourierNet",
    "GaborNet",
    "GaussianMask",
    "LayerNorm",
    "MAGNet",
    "Pointwise",
    "PostNormBlock",
    "RFNet",
    "ResidualBlock",
    "SeparableFlexConv",
]
