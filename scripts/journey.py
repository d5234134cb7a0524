"""The half day of a new user, from a wheel: ``python -m scripts.journey OUT [ITEM...]``.

The wheel is built and installed into an environment of its own, which finds what rayfed depends on
in this one. Each item is what a user types in an empty folder; OUT gets what the terminal says,
``item.txt``, and pictures of the page, its first screen and the whole of it, at 1280 and 390 px.
"""

from __future__ import annotations

import argparse
import base64
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.chromium import look, opened, wait

_ROOT = Path(__file__).parents[1]
_SCREENS = {1280: 800, 390: 844}
_MUSHROOM = """\
problem: {name: logistic-regression, dataset: mushroom, test: 0.2}
executor: serial
"""


@dataclass(frozen=True)
class Item:
    """What a user does, with files that are there before; `page` is what is looked at."""

    commands: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    page: str = ""


_KINDS = (
    "algorithm",
    "partition",
    "delay",
    "selection",
    "measure",
    "panel",
    "codec",
    "rule",
    "fault",
)
_WARDS = """\
import random
random.seed(0)
towns = "Aldbourne Birkenhead Cirencester Dunfermline Eastbourne Farnborough Grimsby Hull".split()
with open("wards.csv", "w") as file:
    print("ward,age,pressure,ill", file=file)
    for number in range(1000):
        ward = f"{towns[number % 8]} General, ward {number:04d}"
        for _ in range(8):
            age, pressure = random.uniform(20, 90), random.gauss(130, 15)
            ill = int(age + pressure + random.gauss(0, 20) > 185)
            print(f'"{ward}",{age:.0f},{pressure:.0f},{ill}', file=file)
"""
_MISTAKES = (
    "epochs=3",
    "learning_rate=0.1",
    "seeds=3",
    "algorithms.0.optimizer=adam",
    "algorithms.0.name=fedavgg",
    "participation.cohort=50",
    "problem.dataset=wards.csv",
    "algorithms.0.local.lr=0",
)
_LOOP = """\
import rayfed
study = rayfed.Study(
    name="loop", rounds=40, executor="serial",
    problem={"name": "logistic-regression", "dataset": "mushroom", "test": 0.2},
    clients={"count": 20}, participation={"cohort": 5},
    algorithms=(rayfed.algorithms.FedAvg(local=rayfed.solvers.SGD(steps=5, lr=0.5)),),
)
for row in rayfed.iterate(study, page=False):
    if row["loss"] < 0.1:
        print(f"round {row['round']}: loss {row['loss']:.3f}, {row.model.size} numbers; enough")
        row.stop()
"""

ITEMS = {
    "starters": Item(
        (
            "rayfed init " + " ".join(f"--{kind} my-{kind}" for kind in _KINDS),
            *(f"rayfed test my_{kind}:My{kind.capitalize()}" for kind in _KINDS),
            "rayfed run scenario.yaml --quiet",
        ),
        page="results/starters/report.html",
    ),
    "cases": Item(
        ("rayfed check cases.yaml", "rayfed run cases.yaml"),
        {
            "cases.yaml": _MUSHROOM
            + """\
name: cases
seeds: [0, 1, 2]
rounds: 40
evaluate: {every: 4}
partition: {name: dirichlet, alpha: 1}
clients: {count: 20}
participation: {cohort: 4}
grid: {partition.alpha: [0.1, 1, 100]}
algorithms:
  - {name: fedavg, label: FedAvg, local: &local {steps: 10, batch: 16, lr: 0.1}}
  - {name: fedprox, label: FedProx, local: {<<: *local, mu: 0.1}}
  - {name: scaffold, label: SCAFFOLD, local: *local}
  - {name: fedexp, label: FedExP, local: *local}
"""
        },
        "results/cases/report.html",
    ),
    "sweep": Item(
        ("rayfed sweep sweep.yaml", "rayfed best results/sweep"),
        {
            "sweep.yaml": _MUSHROOM.replace("test: 0.2", "test: 0.2, validation: 0.2")
            + """\
name: sweep
seeds: [0, 1, 2]
rounds: 20
evaluate: {every: 5}
clients: {count: 20}
participation: {cohort: 5}
algorithms:
  - {name: fedavg, local: {steps: 10, batch: 16}}
  - {name: fedexp, local: {steps: 10, batch: 16}}
search: {algorithms.*.local.lr: {log: [0.001, 1]}}
sweep: {trials: 50}
"""
        },
        "results/sweep/report.html",
    ),
    "asynchronous": Item(
        ("rayfed run asynchronous.yaml",),
        {
            "asynchronous.yaml": _MUSHROOM
            + """\
name: asynchronous
seeds: [0, 1, 2]
stop: {time_s: 300}
evaluate: {every_s: 20}
clients:
  count: 30
  delay: {name: lognormal, mean_s: 0.2, sigma: 0.5}
  stragglers: {fraction: 0.2, slowdown: 10}
participation: {cohort: 10}
algorithms:
  - {name: fedavg, label: FedAvg, local: &local {steps: 10, batch: 16, lr: 0.1}}
  - {name: fedbuff, label: FedBuff, buffer: 5, local: *local}
  - {name: fedasync, label: FedAsync, mixing: 0.3, local: *local}
"""
        },
        "results/asynchronous/report.html",
    ),
    "names": Item(
        ("python wards.py", "rayfed run names.yaml"),
        {
            "wards.py": _WARDS,
            "names.yaml": """\
name: names
rounds: 20
evaluate: {every: 5, measures: [fairness]}
problem:
  name: logistic-regression
  dataset: {name: table, path: wards.csv, client: ward, standardise: true}
  target: ill
  test: 0.25
clients: {delay: {name: pareto, mean_s: 1, shape: 1.5}}
participation: {cohort: 50}
algorithms:
  - {name: fedavg, label: FedAvg, local: {steps: 5, batch: 4, lr: 0.1}}
  - {name: scaffold, label: SCAFFOLD, local: {steps: 5, batch: 4, lr: 0.1}}
executor: serial
""",
        },
        "results/names/report.html",
    ),
    "loop": Item(("python loop.py", "rayfed report results/loop"), {"loop.py": _LOOP}),
    "mistakes": Item(
        (
            *(f"rayfed check mistake.yaml --set {change}" for change in _MISTAKES),
            "rayfed run no.yaml",
        ),
        {"mistake.yaml": _MUSHROOM + "rounds: 3\nclients: {count: 5}\nalgorithms: [fedavg]\n"},
    ),
}


def installed(place: Path) -> Path:
    """Build the wheel, install it into a new environment, and return its folder of commands."""
    pip = [sys.executable, "-m", "pip"]
    quiet = ["--quiet", "--no-deps", "--no-index"]
    wheels, home = place / "wheels", place / "environment"
    build = [*pip, "wheel", *quiet, "--no-build-isolation", "--wheel-dir", str(wheels), str(_ROOT)]
    subprocess.run(build, check=True)
    venv.create(home)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python, (wheel,) = str(home / "bin" / "python"), wheels.glob("*.whl")
    subprocess.run([*pip, "--python", python, "install", *quiet, str(wheel)], check=True)
    return home / "bin"


def walk(name: str, item: Item, commands: Path, place: Path, out: Path) -> None:
    """Do what an item says in a new folder, and keep text and pictures."""
    folder = place / name
    folder.mkdir()
    for file, text in item.files.items():
        (folder / file).write_text(text)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    kept |= {"PATH": f"{commands}{os.pathsep}{kept['PATH']}", "COLUMNS": "80"}
    texts = []
    for line in item.commands:
        words = shlex.split(line)
        done = subprocess.run(
            [commands / words[0], *words[1:]], cwd=folder, env=kept, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        status = f"[status {done.returncode}]\n" if done.returncode else ""
        texts.append(f"$ {line}\n{done.stdout}{status}")
    (out / f"{name}.txt").write_text("\n".join(texts))
    if item.page:
        photograph(folder / item.page, out / name, place / f"profile-{name}")


def photograph(page: Path, name: Path, profile: Path) -> None:
    """Take pictures of a page, of its first screen and of the whole, in both widths."""
    driver = opened(profile)
    try:
        for width, height in _SCREENS.items():
            look(driver, width, height)
            driver.get(page.as_uri())
            wait(driver, "document.querySelectorAll('.main-svg').length > 0", seconds=60)
            size = driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
            for what, clip in (("first", {"width": width, "height": height}), ("whole", size)):
                asked = {
                    "captureBeyondViewport": True,
                    "clip": {"x": 0, "y": 0, **clip, "scale": 1},
                }
                taken = driver.execute_cdp_cmd("Page.captureScreenshot", asked)
                picture = name.with_name(f"{name.name}-{width}-{what}.png")
                picture.write_bytes(base64.b64decode(taken["data"]))
    finally:
        driver.quit()


def main() -> None:
    """Walk the items."""
    parser = argparse.ArgumentParser(prog="python -m scripts.journey", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("items", nargs="*", metavar="ITEM", help=f"of {', '.join(ITEMS)}; all")
    given = parser.parse_args()
    if unknown := set(given.items) - set(ITEMS):
        parser.error(f"found {', '.join(sorted(unknown))}; choose from {', '.join(ITEMS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        commands = installed(Path(place))
        for name in given.items or ITEMS:
            walk(name, ITEMS[name], commands, Path(place), given.out)
            print(f"{name}: {given.out / name}.txt", flush=True)


if __name__ == "__main__":
    main()
