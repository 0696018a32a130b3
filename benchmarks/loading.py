"""How long do data take: until they are in memory, and in a step of training?

    python benchmarks/loading.py DATA [--tasks smnist,cifar10]

Every task whose files are in the folder DATA is read once, and its first hundred batches are made
as training makes them; beside them a step of ``ccnn_4_140`` by the task's recipe (shortest of
three). Times are seconds of one process, `share` is the data's part of a step.
"""

import argparse
import itertools
import time
from pathlib import Path

import torch

from ccnn.allocator import keep_freed_memory
from ccnn.conf import compose
from ccnn.data import find_task, load_splits
from ccnn.run import build_model
from ccnn.tasks import TASKS
from ccnn.training.data import TrainingBatches
from ccnn.training.settings import Batching

BATCHES = 100


def seconds_per_step(config, task, batch) -> float:
    model = build_model(config, task)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch.x), batch.y).backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--tasks", default="smnist,mnist,image,cifar10,modelnet10")
    args = parser.parse_args()
    keep_freed_memory()
    print("task          ready      batch       step   share")
    for name in args.tasks.split(","):
        if not TASKS[name].present(args.data):
            print(f"{name:12} not there")
            continue
        config = compose([f"task={name}", "model=ccnn_4_140", f"data.root={args.data}"])
        task = find_task(config)
        begin = time.perf_counter()
        train = load_splits(config, task).train
        ready = time.perf_counter() - begin
        batches = TrainingBatches(
            train, Batching(batch_size=config.data.batch_size), seed=0, epoch=0
        )
        begin = time.perf_counter()
        made = list(itertools.islice(iter(batches), BATCHES))
        data = (time.perf_counter() - begin) / len(made)
        step = seconds_per_step(config, task, made[0])
        print(f"{name:12}{ready:7.2f}{data:11.5f}{step:11.3f}{data / (data + step):8.2%}")


if __name__ == "__main__":
    main()
