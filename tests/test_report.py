"""The page of a run says what its folder holds, whatever state that is in, and asks nobody else."""

import csv
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch

import ccnn
from ccnn import report
from ccnn.report.folder import read
from ccnn.report.network import parameters_by_part
from ccnn.report.predictions import classes, confusion
from ccnn.report.words import duration, wilson

EPOCHS = 3
TASKS = {1: "smnist", 2: "cifar10", 3: "solids"}
VOID = {"meta", "link", "br", "img", "path", "use", "rect", "image", "circle"}


def make_run(folder: Path, dim: int, *, accuracy: float = 0.75, task: str | None = None) -> Path:
    """Write what a finished run leaves, with a small network that was not trained."""
    folder.mkdir(parents=True)
    torch.manual_seed(dim)
    size = {1: (33,), 2: (9, 9), 3: (5, 5, 5)}[dim]
    model = ccnn.CCNN(1, 4, size, blocks=2, channels=5, kernel_channels=4, mask_sigma=0.3)
    ccnn.save(model, folder / "model")
    targets = np.arange(40) % 4
    wrong = np.arange(40) >= 40 * accuracy
    logits = np.eye(4, dtype=np.float32)[np.where(wrong, (targets + 1) % 4, targets)]
    np.savez(folder / "predictions.npz", logits=logits, targets=targets)
    name = task or TASKS[dim]
    command = f"ccnn train task={name} model=ccnn_4_140 seed=3"
    (folder / "command.txt").write_text(command + "\n")
    (folder / "config.yaml").write_text(
        f"task:\n  name: {name}\nmodel:\n  name: ccnn_4_140\nseed: 3\n"
    )
    write_metrics(folder / "metrics.csv", dim)
    result = {
        "task": name,
        "model": "ccnn_4_140",
        "recipe": "paper",
        "seed": 3,
        "epochs": EPOCHS,
        "steps": 30,
        "parameters": sum(p.numel() for p in model.parameters()),
        "best_epoch": 1,
        "train_samples": 600,
        "val": {"loss": 0.5, "accuracy": 0.8},
        "test": {"loss": 0.6, "accuracy": accuracy},
        "seconds": 7265.0,
        "command": command,
        "versions": {"ccnn": "0.1.0", "torch": "2"},
        "hardware": {"device": "cpu", "cores": 2, "gpus": []},
    }
    (folder / "result.json").write_text(json.dumps(result))
    return folder


def write_metrics(path: Path, dim: int) -> None:
    rows = []
    for epoch in range(EPOCHS):
        row = {"epoch": epoch, "step": 10 * epoch, "lr": 0.01 / (1 + epoch), "seconds": 2.0}
        row |= {"train_loss": 1 / (1 + epoch), "train_accuracy": 0.5 + epoch / 10}
        row |= {"val_loss": 1.1 / (1 + epoch), "val_accuracy": 0.4 + epoch / 10}
        for layer in range(3):
            row[f"kernel_size_{layer}"] = "x".join([str(5 + 2 * layer + epoch)] * dim)
            row[f"sigma_{layer}"] = "x".join([f"{0.1 * (layer + 1)}"] * dim)
        rows.append(row)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


class Page(HTMLParser):
    """A strict reader: what is opened is closed, and names are used once."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self.open
        assert len(set(self.ids)) == len(self.ids)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.note(dict(attrs))

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.note(dict(attrs))

    def note(self, attributes):
        self.ids += [v for k, v in attributes.items() if k == "id"]
        self.links += [v for k, v in attributes.items() if k in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[int, Path]:
    root = tmp_path_factory.mktemp("runs")
    return {dim: make_run(root / f"run{dim}", dim, accuracy=0.5 + dim / 10) for dim in (1, 2, 3)}


@pytest.fixture
def run(runs, tmp_path) -> Path:
    """A run of its own, to be damaged."""
    return Path(shutil.copytree(runs[1], tmp_path / "run"))


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_whole_run_is_shown_whole(runs, dim):
    path = report.write(runs[dim])
    assert path == runs[dim] / "report.html"
    page = Page(path)
    for heading in (
        "Training",
        "The test set, class by class",
        "The learned kernels",
        "How large the kernels became",
        "Parameters",
        "Time and machine",
        "To repeat it",
    ):
        assert heading in page.text
    assert "Not everything is here" not in page.text
    assert f"{50 + 10 * dim}.00 %" in page.text
    assert f"ccnn train task={TASKS[dim]} model=ccnn_4_140 seed=3" in page.text
    assert "2 h 01 min" in page.text
    assert "2.0 s" in page.text  # the median of the epochs
    assert "device cpu, cores 2" in page.text
    # three curves, the confusions, three layers' kernels, windows, sizes and widths
    assert page.tags.count("svg") == 3 + 1 + 3 + 3


def test_nothing_in_the_page_leads_out_of_it(runs):
    page = Page(report.write(runs[2]))
    assert page.links
    assert all(link.startswith(("#", "data:")) for link in page.links)
    inside = [link[1:] for link in page.links if link.startswith("#")]
    assert set(inside) <= set(page.ids)
    text = (runs[2] / "report.html").read_text()
    assert "script" not in page.tags
    assert not re.search(r"https?:|@import|url\((?!#|&quot;data:)", text)


def test_each_figure_has_a_name_for_those_who_do_not_see_it(runs):
    text = report.write(runs[1]).read_text()
    assert len(re.findall(r'<svg role="img" aria-label="[^"]+"', text)) == text.count("<svg")


def test_the_paper_stands_beside_the_result(runs, tmp_path):
    runs = dict(runs)
    for dim in (1, 3):  # without its many figures
        runs[dim] = Path(shutil.copytree(runs[dim], tmp_path / str(dim)))
        shutil.rmtree(runs[dim] / "model")
    page = Page(report.write(runs[1], tmp_path / "a.html"))
    assert "The paper reports 99.72 %; this run is 39.72 points below it." in page.text
    page = Page(report.write(runs[3], tmp_path / "b.html"))  # a task the paper does not have
    assert "paper reports" not in page.text
    page = Page(report.write(runs[3], tmp_path / "c.html", paper=70.5))
    assert "The paper reports 70.50 %; this run is 9.50 points above it." in page.text


def test_every_text_is_escaped(run):
    evil = '<script>alert("1")</script><b>&amp;'
    result = json.loads((run / "result.json").read_text())
    result |= {"task": evil, "model": evil, "recipe": evil, "hardware": {evil: evil}}
    (run / "result.json").write_text(json.dumps(result))
    (run / "command.txt").write_text(evil)
    (run / "config.yaml").write_text(f"task: '{evil}'")
    shutil.rmtree(run / "model")
    shutil.copytree(run, run.with_name("other"))
    for path in (report.write(run), report.write([run, run.with_name("other")])):
        page = Page(path)
        assert "script" not in page.tags
        assert "b" not in page.tags
        assert evil in page.text


@pytest.mark.parametrize("name", ["config.yaml", "command.txt", "metrics.csv", "result.json"])
@pytest.mark.parametrize("content", [None, b"", b"\x00\xff\xfe{", b"[1, 2", b"a,b\n1,2\n"])
def test_a_missing_or_damaged_file_is_named(run, name, content):
    if content is None:
        (run / name).unlink()
    else:
        (run / name).write_bytes(content)
    notes = read(run).notes
    readable_anyway = name in ("command.txt", "config.yaml") and content
    assert readable_anyway or [note for note in notes if note.startswith(name)]


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe{", b"[1, 2"])
def test_a_run_of_which_every_file_is_damaged_is_a_page_still(run, content):
    for path in run.iterdir():
        if path.is_file():
            path.write_bytes(content)
    page = Page(report.write(run))
    assert "not finished" in page.text
    for name in ("metrics.csv", "result.json", "predictions.npz"):
        assert name in page.text.split("Not everything is here")[1]
    assert "The learned kernels" in page.text


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"PK\x03\x04 half of a file"),
        lambda path: path.write_bytes(path.read_bytes()[:200]),
        lambda path: np.savez(path, logits=np.zeros((3, 2))),
        lambda path: np.savez(path, logits=np.zeros((3, 2)), targets=np.zeros(5, dtype=int)),
        lambda path: np.savez(path, logits=np.zeros(()), targets=np.zeros(())),
        lambda path: np.savez(path, logits=np.array([None]), targets=np.zeros(1)),
    ],
)
def test_predictions_that_cannot_be_read_are_left_out(run, damage):
    damage(run / "predictions.npz")
    content = read(run)
    assert content.logits is None
    assert [note for note in content.notes if note.startswith("predictions.npz")]


def test_a_model_that_cannot_be_loaded_is_left_out(run):
    (weights,) = (run / "model").glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])
    page = Page(report.write(run))
    assert "truncated or altered" in page.text
    assert "The learned kernels" not in page.text
    shutil.rmtree(run / "model")
    assert "model/ is missing" in Page(report.write(run)).text


def test_a_run_in_its_first_epochs_is_a_page_too(run):
    for name in ("result.json", "predictions.npz"):
        (run / name).unlink()
    shutil.rmtree(run / "model")
    with (run / "metrics.csv").open("a") as file:
        file.write("3,40,0.00")  # killed while writing
    page = Page(report.write(run))
    assert "smnist: not finished" in page.text
    assert "3 epochs are on record" in page.text
    assert "1 incomplete line" in page.text
    assert page.tags.count("svg") == 3 + 2


def test_a_folder_that_is_no_run_is_refused_in_one_line(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"is no run: it holds none of config\.yaml") as error:
        report.write(tmp_path)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "report.html").exists()
    with pytest.raises(FileNotFoundError, match="does not exist: give the folder of a run"):
        report.write(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="is a file"):
        report.write(tmp_path / "notes.txt")


def test_metrics_are_read_by_epoch(run):
    header, *rows = (run / "metrics.csv").read_text().splitlines()
    again = rows[1].replace(rows[1].split(",")[2], "0.125")  # a resumed run repeats an epoch
    blank = ",".join(["3", "nan", *[""] * (len(header.split(",")) - 2)])
    (run / "metrics.csv").write_text("\n".join([header, *rows, again, blank]) + "\n")
    metrics = read(run).metrics
    assert metrics is not None
    assert metrics.epochs == [0, 1, 2, 3]
    assert metrics.columns["lr"][1] == 0.125
    assert np.isnan(metrics.columns["val_loss"][3])
    assert metrics.sizes is not None
    assert metrics.sizes.shape == (4, 3, 1)
    np.testing.assert_array_equal(metrics.sizes[:3, 1, 0], [7, 8, 9])
    assert np.isnan(metrics.sizes[3]).all()
    Page(report.write(run))


def test_sizes_of_an_image_network_keep_their_axes(runs):
    metrics = read(runs[2]).metrics
    assert metrics is not None
    assert metrics.sigmas is not None
    assert metrics.sigmas.shape == (EPOCHS, 3, 2)
    np.testing.assert_allclose(metrics.sigmas[0, :, 1], [0.1, 0.2, 0.3])


def test_a_regression_run_shows_values(run):
    values = np.linspace(0, 1, 20, dtype=np.float32)
    np.savez(run / "predictions.npz", logits=values[:, None], targets=values)
    result = json.loads((run / "result.json").read_text()) | {"test": {"loss": 1, "mse": 0.0123}}
    (run / "result.json").write_text(json.dumps(result))
    text = (run / "metrics.csv").read_text().replace("_accuracy", "_mse")
    (run / "metrics.csv").write_text(text)
    page = Page(report.write(run))
    assert "a mean squared error of 0.0123" in page.text
    assert "Mean squared error after each epoch" in page.text
    assert "on the line both are equal" in page.text
    assert "class by class" not in page.text


def test_confusions_are_counted_by_true_class():
    matrix = confusion(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]), at_least=(4,))
    expected = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(matrix, expected)
    assert confusion(np.array([0, 1]), np.array([0])) is None


def test_one_logit_and_a_logit_per_position_are_classes_too():
    np.testing.assert_array_equal(classes(np.array([[-1.0], [2.0]])), [0, 1])
    logits = np.zeros((2, 3, 4))
    logits[1, 2] = 1
    np.testing.assert_array_equal(classes(logits), [0] * 4 + [2] * 4)


def test_per_class_accuracy_is_that_of_the_predictions(runs, tmp_path):
    page = Page(report.write(runs[1], tmp_path / "page.html"))
    data = np.load(runs[1] / "predictions.npz")
    right = data["logits"].argmax(1) == data["targets"]
    for label in range(4):
        share = 100 * right[data["targets"] == label].mean()
        assert f"{label} 10 {share:.2f} %" in page.text


def test_parameters_by_part_add_up():
    model = ccnn.CCNN(1, 4, (33,), blocks=2, channels=5, kernel_channels=4)
    table = parameters_by_part(model)
    assert list(table) == ["stem", "stem norm", "block 1", "block 2", "norm", "output"]
    total = sum(p.numel() for p in model.parameters())
    assert sum(sum(row.values()) for row in table.values()) == total
    network = sum(p.numel() for p in model.stem.kernel.parameters())
    assert table["stem"]["kernel network"] == network
    assert table["block 2"]["window"] == 1
    assert table["output"] == {"mixing and bias": 5 * 4 + 4}


def test_the_interval_of_an_accuracy():
    low, high = wilson(95.0, 100)
    assert (low, high) == (pytest.approx(88.8, abs=0.1), pytest.approx(97.8, abs=0.1))
    assert wilson(100.0, 50)[1] == pytest.approx(100)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.05, "50 ms"), (2, "2.0 s"), (600, "10 min"), (7265, "2 h 01 min"), (None, "–")],
)
def test_durations_are_said_in_their_unit(seconds, words):
    assert duration(seconds) == words


def test_two_runs_stand_beside_each_other(runs, tmp_path):
    path = report.compare([runs[1], runs[2]], tmp_path / "deep" / "pair.html")
    page = Page(path)
    assert "1-D against 2-D" in page.text
    assert "cifar10 70.00 %, smnist 60.00 %" in page.text
    assert "10.00 points lie between" in page.text
    assert "their 95 % intervals overlap" in page.text  # 40 samples each
    assert {"1-D 60.00 %", "2-D 70.00 %"} <= {" ".join(w.split()) for w in page.words}
    for run in (runs[1], runs[2]):
        assert (run / "command.txt").read_text().strip() in page.text
    assert page.tags.count("svg") == 1 + 4


def test_a_data_set_as_sequence_and_as_image_is_one_row(tmp_path):
    pairs = {"scifar10": 1, "cifar10": 2, "image": 1, "image2d": 2}
    folders = [make_run(tmp_path / task, dim, task=task) for task, dim in pairs.items()]
    page = Page(report.compare(folders, tmp_path / "page.html"))
    labels = [word.strip() for word in page.words]
    assert labels.count("CIFAR-10") == 1
    assert labels.count("1-D 75.00 %") + labels.count("1-D  75.00 %") == 2


def test_runs_of_one_task_are_told_apart_and_may_be_unfinished(run, runs):
    (run / "result.json").unlink()
    page = Page(report.write([runs[1], run], run / "page.html"))
    assert "smnist, ccnn_4_140, seed 3" in page.text
    assert "result.json is missing" in page.text


def test_a_sequence_of_one_is_that_run(runs, tmp_path):
    assert "The learned kernels" in Page(report.write([runs[1]], tmp_path / "a.html")).text


@pytest.mark.parametrize("folders", [[], ["one"], "one"])
def test_a_comparison_needs_two(folders):
    with pytest.raises(ValueError, match="two runs or more"):
        report.compare(folders)


def test_a_report_leaves_matplotlib_as_it_was(runs, tmp_path):
    before = dict(matplotlib.rcParams)
    report.write(runs[1], tmp_path / "page.html")
    assert dict(matplotlib.rcParams) == before


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--enable-logging=stderr",
    "--log-level=0",
    "--window-size=390,900",
    "--dump-dom",
]


def browse(page: Path, folder: Path) -> tuple[str, list[str], list[str]]:
    """Open a page in a browser: its text after loading, console messages, and what it asked for."""
    assert CHROMIUM is not None
    log = folder / "net.json"
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}"]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    asked = [
        event["params"]["url"]
        for event in json.loads(log.read_text())["events"]
        # The browser asks for things of its own, in the name of no page.
        if event.get("params", {}).get("initiator", "not an origin") != "not an origin"
        and not event["params"].get("url", "file:").startswith(("file:", "data:"))
    ]
    return done.stdout, console, asked


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: chromium)")
def test_a_browser_shows_the_page_without_error_or_request(runs, tmp_path):
    for name, path in {
        "single": report.write(runs[2], tmp_path / "single.html"),
        "pair": report.compare([runs[1], runs[2]], tmp_path / "pair.html"),
    }.items():
        (tmp_path / name).mkdir()
        text, console, asked = browse(path, tmp_path / name)
        assert "To repeat" in text
        assert console == []
        assert asked == []


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: chromium)")
def test_the_browser_test_would_see_an_error_and_a_request(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text('<img src="http://127.0.0.1:9/x.png"><script>console.error("boom")</script>')
    _, console, asked = browse(page, tmp_path)
    assert any("boom" in line for line in console)
    assert asked == ["http://127.0.0.1:9/x.png"]
