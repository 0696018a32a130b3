"""The network's window and low-pass in a configuration."""

import pytest

from ccnn.conf import compose
from ccnn.data import find_task
from ccnn.models import CCNN, PairCCNN
from ccnn.run import build_model

SMALL = ["model=ccnn_4_48", "model.channels=4", "model.kernel_channels=4"]


def built(*overrides: str):
    config = compose(overrides)
    return build_model(config, find_task(config))


def test_a_network_gets_what_the_configuration_says():
    model = built(*SMALL)
    assert isinstance(model, CCNN)
    assert (model.arguments["window"], model.arguments["lowpass"]) == ("cut", False)
    model = built(*SMALL, "model.window=smooth", "model.lowpass=true")
    for layer in model.convolutions():
        assert layer.mask.window == "smooth"
        assert layer.lowpass


def test_a_network_for_pairs_gets_it_too():
    model = built("task=retrieval", *SMALL, "model.window=smooth", "model.lowpass=true")
    assert isinstance(model, PairCCNN)
    assert model.encoder.stem.mask.window == "smooth"
    assert model.encoder.stem.lowpass


@pytest.mark.parametrize("name", ["ckcnn", "flextcn_6"])
@pytest.mark.parametrize("key", ["window=cut", "lowpass=true"])
def test_networks_before_the_ccnn_have_neither(name, key):
    built("task=smnist", f"model={name}")
    word = key.partition("=")[0]
    with pytest.raises(ValueError, match=f"model={name} has no {word}; leave model.{word} out"):
        built("task=smnist", f"model={name}", f"model.{key}")


def test_a_window_that_does_not_exist_is_refused_by_name():
    with pytest.raises(ValueError, match=r"model\.window is 'smoth'; did you mean 'smooth'"):
        compose(["model.window=smoth"])
