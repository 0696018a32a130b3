"""`save` and `load` of an estimator: bit for bit, whole or not at all, never a pickle."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ccnn import CCNNClassifier, CCNNRegressor, saving
from ccnn.estimator import storing
from ccnn.estimator.encoding import Undecodable, decode, encode
from ccnn.tasks.scaling import Scaling

LABELS = {
    "texts": ["no", "yes"],
    "floats": [1.0, 2.0],
    "objects": np.array(["a", "b"], dtype=object),
}


def series(count: int = 12, length: int = 20) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((count, 2, length))
    X[: count // 2] += 2 * np.sin(np.arange(length))
    return X


def halves(one: object, other: object, count: int = 12) -> np.ndarray:
    return np.array([one] * (count // 2) + [other] * (count - count // 2))


def quick(**parameters) -> CCNNClassifier:
    return CCNNClassifier(max_epochs=1, channels=8, random_state=0, **parameters)


@pytest.fixture(scope="module")
def fitted() -> CCNNClassifier:
    return quick().fit(series(), halves("no", "yes"))


@pytest.fixture(scope="module")
def other() -> CCNNClassifier:
    return quick(class_weight={3: 1.0, 5: 2.5}).fit(series(), halves(3, 5))


@pytest.fixture
def folder(tmp_path: Path, fitted: CCNNClassifier) -> Path:
    return fitted.save(tmp_path / "saved")


def files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def network_of(folder: Path) -> Path:
    (path,) = folder.glob("network-*")
    return path


def rewrite(folder: Path, *, honest: bool, **changes: object) -> None:
    """Change the file as somebody would who does, or does not, correct the checksum."""
    path = folder / storing.FILE
    state = json.loads(path.read_text()) | changes
    if honest:
        state["sha256"] = storing._digest(state)
    path.write_text(json.dumps(state))


# Bit for bit


@pytest.mark.parametrize("kind", LABELS)
def test_a_loaded_classifier_is_the_saved_one_bit_for_bit(tmp_path, kind):
    one, other = LABELS[kind]
    y = halves(one, other)
    y = y.astype(object) if kind == "objects" else y
    clf = quick().fit(series(), y)
    again = CCNNClassifier.load(clf.save(tmp_path / "saved"))
    assert again.classes_.dtype == clf.classes_.dtype
    np.testing.assert_array_equal(again.classes_, clf.classes_)
    np.testing.assert_array_equal(again.predict_proba(series()), clf.predict_proba(series()))
    np.testing.assert_array_equal(again.predict(series()), clf.predict(series()))
    assert again.get_params() == clf.get_params()
    assert vars(again).keys() == vars(clf).keys()
    assert again.history_ == clf.history_
    assert again.settings_ == clf.settings_


@pytest.mark.parametrize("targets", [1, 2])
def test_a_loaded_regressor_is_the_saved_one_bit_for_bit(tmp_path, targets):
    y = np.random.default_rng(1).standard_normal((12, targets)).squeeze()
    reg = CCNNRegressor(max_epochs=1, channels=8, random_state=0).fit(series(), y)
    again = CCNNRegressor.load(reg.save(tmp_path / "saved"))
    np.testing.assert_array_equal(again.predict(series()), reg.predict(series()))


def test_an_ensemble_keeps_all_its_networks(tmp_path):
    clf = quick(n_ensemble=2).fit(series(), halves(0, 1))
    folder = clf.save(tmp_path / "saved")
    assert len(list(folder.glob("network-*"))) == 2
    again = CCNNClassifier.load(folder)
    assert len(again.models_) == 2
    assert again.model_ is again.models_[0]
    np.testing.assert_array_equal(again.predict_proba(series()), clf.predict_proba(series()))


def test_a_loaded_estimator_can_be_saved_and_loaded_again(tmp_path, fitted, folder):
    twice = CCNNClassifier.load(folder).save(tmp_path / "twice")
    np.testing.assert_array_equal(
        CCNNClassifier.load(twice).predict_proba(series()), fitted.predict_proba(series())
    )


def test_class_weights_with_labels_as_keys_come_back(tmp_path, other):
    again = CCNNClassifier.load(other.save(tmp_path / "saved"))
    assert again.class_weight == {3: 1.0, 5: 2.5}


def test_nothing_but_json_and_safetensors_is_written(folder):
    assert {Path(name).suffix for name in files(folder)} == {".json", ".safetensors"}


# What cannot be kept


def test_an_estimator_that_was_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        quick().save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_a_parameter_that_json_cannot_hold_is_named(tmp_path, fitted):
    odd = clone(fitted).set_params(random_state=np.random.RandomState(0))
    vars(odd).update({k: v for k, v in vars(fitted).items() if k.endswith("_")})
    with pytest.raises(TypeError, match="cannot save random_state: a RandomState cannot be kept"):
        odd.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_classes_that_json_cannot_hold_are_named(tmp_path, fitted, folder):
    odd = CCNNClassifier.load(folder)
    odd.classes_ = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")
    with pytest.raises(TypeError, match=r"cannot save classes_: values of dtype datetime64\[D\]"):
        odd.save(tmp_path / "other")


# Whole or not at all


def test_saving_again_replaces_and_leaves_no_old_network(folder, other):
    before = network_of(folder)
    other.save(folder)
    assert network_of(folder) != before
    again = CCNNClassifier.load(folder)
    np.testing.assert_array_equal(again.predict_proba(series()), other.predict_proba(series()))


def test_a_failure_leaves_the_old_estimator_as_it_was(folder, fitted, other, monkeypatch):
    before = files(folder)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="space"):
        other.save(folder)
    monkeypatch.undo()
    assert files(folder) == before
    again = CCNNClassifier.load(folder)
    np.testing.assert_array_equal(again.predict_proba(series()), fitted.predict_proba(series()))


def test_an_interrupt_between_network_and_file_leaves_the_old_estimator(folder, monkeypatch):
    before = files(folder)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(storing, "write_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        CCNNClassifier.load(folder).save(folder)
    assert files(folder) == before


def test_other_files_in_the_folder_are_left_alone(folder, fitted):
    (folder / "network-notes").mkdir()
    (folder / "network-notes" / "readme.txt").write_text("mine")
    fitted.save(folder)
    assert (folder / "network-notes" / "readme.txt").read_text() == "mine"


# Broken, altered, foreign


def test_a_missing_folder_and_a_folder_of_something_else_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no .*estimator.json: give the folder"):
        CCNNClassifier.load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"there is no .*estimator.json: give the folder"):
        CCNNClassifier.load(tmp_path)


def test_an_estimator_of_the_other_kind_is_named(folder):
    with pytest.raises(ValueError, match=r"holds a CCNNClassifier.*with CCNNClassifier.load"):
        CCNNRegressor.load(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"{}", b"[" * 100_000])
def test_a_damaged_file_is_named(folder, content):
    (folder / storing.FILE).write_bytes(content)
    with pytest.raises(ValueError, match=r"estimator.json (is not JSON|holds no|lacks)"):
        CCNNClassifier.load(folder)


def test_a_changed_value_is_noticed(folder):
    text = (folder / storing.FILE).read_text()
    assert '"max_epochs": 1,' in text
    (folder / storing.FILE).write_text(text.replace('"max_epochs": 1,', '"max_epochs": 2,'))
    with pytest.raises(ValueError, match="was altered"):
        CCNNClassifier.load(folder)


def test_another_layout_of_the_same_content_is_accepted(folder):
    rewrite(folder, honest=False)
    CCNNClassifier.load(folder)


def test_a_newer_format_asks_for_an_upgrade(folder):
    rewrite(folder, honest=True, format=storing.FORMAT + 1)
    with pytest.raises(ValueError, match="upgrade ccnn"):
        CCNNClassifier.load(folder)


@pytest.mark.parametrize("name", ["../elsewhere", "/etc", "network-", "network-0123456789AB", 5])
def test_a_network_outside_of_the_folder_is_refused(folder, name):
    rewrite(folder, honest=True, networks=[{"folder": name, "sha256": ""}])
    with pytest.raises(ValueError, match="do not trust this folder"):
        CCNNClassifier.load(folder)


def test_a_network_of_another_estimator_is_refused(folder, other, tmp_path):
    network = network_of(folder)
    shutil.rmtree(network)
    shutil.copytree(network_of(other.save(tmp_path / "other")), network)
    with pytest.raises(ValueError, match="another network"):
        CCNNClassifier.load(folder)


def test_a_missing_or_damaged_network_is_named(folder):
    (weights,) = network_of(folder).glob("weights-*")
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ValueError, match="truncated or altered"):
        CCNNClassifier.load(folder)
    shutil.rmtree(network_of(folder))
    with pytest.raises(FileNotFoundError, match="network-"):
        CCNNClassifier.load(folder)


def test_a_parameter_that_this_version_does_not_know_is_named(folder):
    state = json.loads((folder / storing.FILE).read_text())
    rewrite(folder, honest=True, parameters=state["parameters"] | {"colour": "red"})
    with pytest.raises(ValueError, match="colour"):
        CCNNClassifier.load(folder)


def test_the_network_alone_can_be_loaded_by_ccnn_load(folder, fitted):
    network = saving.load(network_of(folder))
    x = torch.randn(2, 2, 20)
    assert torch.equal(network(x), fitted.model_(x))


# The values


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.booleans(), inner)
    ),
    max_leaves=10,
)


def same(one: object, other: object) -> bool:
    """Equality that tells 1 from True and 1.0, -0.0 from 0.0, and finds NaN equal to NaN."""
    return type(one) is type(other) and repr(one) == repr(other)


@settings(max_examples=20)
@given(PLAIN)
def test_plain_values_come_back_with_their_types(value):
    text = json.dumps(encode(value, []), allow_nan=False)
    assert same(decode(json.loads(text), []), value)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "uint64", "float16", "float32", "float64", "<U3", "object"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_arrays_come_back_with_dtype_shape_and_bits(dtype, shape):
    array = np.random.default_rng(0).standard_normal(shape)
    array = np.asarray(100 * array).astype(dtype)
    again = decode(json.loads(json.dumps(encode(array, []), allow_nan=False)), [])
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert again.tolist() == array.tolist()


@pytest.mark.parametrize("value", [np.float32(0.1), np.int64(2**60), np.bool_(True), np.str_("a")])
def test_numbers_of_numpy_stay_numpys(value):
    again = decode(json.loads(json.dumps(encode(value, []))), [])
    assert same(again, value)


def test_not_finite_numbers_come_back():
    array = np.array([math.nan, math.inf, -math.inf, -0.0])
    again = decode(json.loads(json.dumps(encode(array, []), allow_nan=False)), [])
    assert same(again.tolist(), array.tolist())


def test_tensors_records_and_shared_networks_come_back():
    network = torch.nn.Linear(2, 2)
    scaling = Scaling(mean=(0.5,), std=(2.0,), labels=("a",))
    value = {"t": torch.arange(6.0).view(2, 3), "r": scaling, "n": [network, network]}
    networks: list[torch.nn.Module] = []
    text = json.dumps(encode(value, networks))
    assert networks == [network]
    again = decode(json.loads(text), networks)
    assert torch.equal(again["t"], value["t"])
    assert again["r"] == scaling
    assert again["n"][0] is again["n"][1] is network


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"code": "import os"},
        {"tuple": [1], "dict": []},
        {"network": 0},
        {"record": ["Popen", {"args": "ls"}]},
        {"record": ["Scaling", {"colour": 1}]},
        {"array": {"dtype": "<f8", "shape": [3], "values": [1.0]}},
        {"array": {"dtype": "no such", "shape": [1], "values": [1.0]}},
        {"dict": [[[], 1]]},
        {"float": "half"},
        {"tuple": 5},
    ],
)
def test_what_was_never_written_is_refused(value):
    with pytest.raises(Undecodable):
        decode(value, [])
