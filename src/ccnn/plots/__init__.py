"""Figures: continuous kernels with their resolutions and spectra, and the course of a training.

Together with `ccnn.report` the only place that needs matplotlib; ``import ccnn`` does not load it.
"""

from ccnn.plots.canvas import panels, save_figure
from ccnn.plots.kernels import plot_kernel, plot_masks, plot_resolutions, plot_spectrum
from ccnn.plots.results import plot_agreement, plot_confusion, plot_dimensions
from ccnn.plots.search import plot_importances, plot_trials
from ccnn.plots.training import plot_history, plot_kernel_sizes, plot_sigmas

__all__ = [
    "panels",
    "plot_agreement",
    "plot_confusion",
    "plot_dimensions",
    "plot_history",
    "plot_importances",
    "plot_kernel",
    "plot_kernel_sizes",
    "plot_masks",
    "plot_resolutions",
    "plot_sigmas",
    "plot_spectrum",
    "plot_trials",
    "save_figure",
]
