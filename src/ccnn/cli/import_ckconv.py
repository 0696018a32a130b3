"""``ccnn import-ckconv``: the published weights of CKConv's authors, as a model folder."""

import argparse
from collections.abc import Sequence

from ccnn.cli.words import Misuse, assignments, existing

SUMMARY = "read the published weights of CKConv's authors"
USAGE = "FILE omega_0=NUMBER out=FOLDER [size=LENGTH] [task=NAME]"
TEXT = """\
Write a CKCNN with the weights that the authors of CKConv published into a folder for
ccnn.load. Nothing in the file is run. omega_0 is not in it: give the value of their
command, with all its digits. size is the length it was trained on, where neither the
file nor omega_0 tells.
With task=NAME the folder is that of a finished run, the model being in FOLDER/model, for
ccnn evaluate and ccnn predict."""
EXAMPLES = (
    "ccnn import-ckconv ckcnn_smnist_30.pt omega_0=31.09195739463897 out=ckcnn",
    "ccnn import-ckconv ckcnn_smnist_30.pt omega_0=31.09195739463897 out=run task=smnist",
)
KEYS = ("omega_0", "out", "size", "task")


def options(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("words", nargs="*", metavar="FILE key=value", help="see above")


def run(arguments: argparse.Namespace) -> int:
    """Read, write, and say what came out."""
    files = [word for word in arguments.words if "=" not in word]
    rest = [word for word in arguments.words if "=" in word]
    if len(files) != 1:
        named = ", ".join(files) or "none"
        raise Misuse(f"name one file of weights, and key=value words; got {named}")
    values = assignments(rest, KEYS, needed=("omega_0", "out"))
    omega_0, size = _number(values["omega_0"]), _size(values.get("size"))
    source = existing(files[0])
    from ccnn.importing import import_ckconv

    task = values.get("task") or None
    model = import_ckconv(source, values["out"], omega_0=omega_0, size=size, task=task)
    count = sum(p.numel() for p in model.parameters())
    place = values["out"] if task is None else f"{values['out']}/model"
    print(
        f"{place}: CKCNN for {model.in_channels} × {model.size[0]}, {model.out_channels} classes, "
        f'{count:,} parameters; ccnn.load("{place}") reads it'
    )
    return 0


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise Misuse(f"omega_0 is {word!r}; expected a number, as in omega_0=31.09") from None


def _size(word: str | None) -> Sequence[int] | None:
    if word is None:
        return None
    if not word.isdigit() or int(word) < 1:
        raise Misuse(f"size is {word!r}; expected the length of a sequence, as in size=784")
    return (int(word),)
