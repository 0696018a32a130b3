"""All of the real MNIST, as published."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from ccnn.tasks import TASKS, DataDamaged, Splits
from ccnn.tasks.checksum import digest
from ccnn.tasks.mnist import IMAGES, LABELS, PUBLISHED, find_file, read_idx, read_part


def real_file(root: Path, name: str) -> Path:
    path = find_file(root, name)
    assert path is not None
    return path


@pytest.fixture(scope="module")
def root(data_root) -> Path:
    if not TASKS["smnist"].present(data_root):
        pytest.skip(f"no MNIST in {data_root}")
    return data_root


@pytest.fixture(scope="module")
def whole(root) -> Splits:
    return TASKS["smnist"].load(root)


def test_pixels_have_the_published_mean_and_deviation(whole):
    x = torch.cat([whole.train.x, whole.val.x])
    assert round(x.mean().item() * 0.3081 + 0.1307, 4) == 0.1307
    assert round(x.std().item() * 0.3081, 4) == 0.3081


def test_parts_have_the_published_counts_and_no_image_is_lost(whole, root):
    train, val, test = whole.train, whole.val, whole.test
    assert (len(train), len(val), len(test)) == (55_000, 5_000, 10_000) == TASKS["smnist"].counts
    assert test.y[:5].tolist() == [7, 2, 1, 0, 4]  # the first of the published test set
    pixels = (torch.cat([train.x, val.x])[:, 0] * 0.3081).add_(0.1307).mul_(255).round_()
    labels = torch.cat([train.y, val.y])[:, None]
    found = torch.cat([pixels, labels], dim=1).to(torch.uint8).numpy()
    images = read_idx(real_file(root, IMAGES["train"]), 3).reshape(-1, 784)
    labelled = np.column_stack([images, read_idx(real_file(root, LABELS["train"]), 1)])
    assert sorted(map(bytes, found)) == sorted(map(bytes, labelled))


def test_the_permutation_is_numpys_of_seed_0(whole, root):
    order = np.random.RandomState(0).permutation(784)
    assert order[:8].tolist() == [693, 85, 647, 392, 765, 14, 299, 711]
    mixed = TASKS["pmnist"].load(root).test
    assert torch.equal(mixed.x, whole.test.x[..., torch.from_numpy(order)])
    assert torch.equal(mixed.y, whole.test.y)


def test_the_files_are_those_whose_checksums_are_published(root):
    for name, (_, content, compressed) in PUBLISHED.items():
        path = real_file(root, name)
        assert digest(path, "md5") == (compressed if path.suffix == ".gz" else content)


@pytest.mark.parametrize("name", [IMAGES["test"], LABELS["test"]])
@pytest.mark.parametrize("compressed", [True, False])
def test_one_other_pixel_or_label_is_found(name, compressed, root, tmp_path):
    for part in (IMAGES["test"], LABELS["test"]):
        real = real_file(root, part)
        content = gzip.decompress(real.read_bytes()) if real.suffix == ".gz" else real.read_bytes()
        if part == name:
            content = content[:-1] + bytes([content[-1] ^ 1])  # still a pixel, still a label
        path = tmp_path / (f"{part}.gz" if compressed else part)
        path.write_bytes(gzip.compress(content, 1) if compressed else content)
    with pytest.raises(DataDamaged, match="not what was published") as refusal:
        read_part(tmp_path, "test")
    assert name in str(refusal.value)
    assert "fetch it again" in str(refusal.value)
