"""Generate the texts and the pre-trained model of ``scenarios/dialects.yaml``.

``python -m scripts.dialects`` writes ``dialects.npz``, 24 clients' texts in three dialects, and
``dialects.base.npz``, a model trained on another text in the common language. Nothing is
downloaded. The weights have half precision; another processor may round them differently.

``python -m scripts.dialects --figure results/reproduce/dialects`` draws the figure of
``docs/headlines/adapters.md`` from the results of ``rayfed reproduce dialects``.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from rayfed.problems.network.models.chartransformer import CharTransformer
from rayfed.report.paper.write import write
from rayfed.report.read.results import Results

ROOT = Path(__file__).parents[1]
SCENARIOS = ROOT / "scenarios"
FIGURE = ROOT / "docs" / "_static" / "adapters.svg"
DRAWN = "convergence:x={},y=perplexity,target=4.5"
ALPHABET = " abcdefghijklmnopqrstuvwxyz."
CLIENTS, TRAIN, TEST, LENGTH = 24, 40, 10, 32
"""Number of clients, and of each one's training and test rows; characters of a row."""
DIALECTS, OWN = 3, 1 / 3
"""Number of dialects, and the share of words for which each has one of its own."""
STEPS, BATCH, RATE = 2000, 64, 3e-3
"""Of pre-training with Adam."""


def new_words(rng: np.random.Generator, count: int) -> list[str]:
    """Return random words of one to three syllables."""
    syllables = [c + v for c in "ptkbdgmnlrsw" for v in "aeiou"]
    return ["".join(rng.choice(syllables, rng.integers(1, 4))) for _ in range(count)]


def dialect(rng: np.random.Generator, words: list[str]) -> list[str]:
    """Return the words of a dialect, in the order of those of the common language."""
    own = new_words(rng, len(words))
    return [b if rng.random() < OWN else a for a, b in zip(words, own, strict=True)]


def text(rng: np.random.Generator, words: list[str], follow: np.ndarray, letters: int) -> str:
    """Return a text of a number of letters: sentences of three to seven words."""
    parts: list[str] = []
    word = 0
    while sum(map(len, parts)) < letters:
        sentence = []
        for _ in range(rng.integers(3, 8)):
            word = rng.choice(len(words), p=follow[word])
            sentence.append(words[word])
        parts.append(" ".join(sentence) + ". ")
    return "".join(parts)[:letters]


def rows(written: str) -> tuple[np.ndarray, np.ndarray]:
    """Return ids (n, T) and next ids (n, T) of a text, cut into pieces."""
    ids = np.array([ALPHABET.index(letter) for letter in written], np.int16)
    pieces = ids[: len(ids) // (LENGTH + 1) * (LENGTH + 1)].reshape(-1, LENGTH + 1)
    return pieces[:, :-1], pieces[:, 1:]


def figure(folder: Path, to: Path = FIGURE) -> None:
    """Draw adapters and all parameters, of a result folder of the study."""
    runs = [
        replace(run, name=name)
        for part, name in (("main", "adapters of rank 4"), ("full", "all parameters"))
        for run in Results.read(folder / part).runs_found
    ]
    what = " + ".join(DRAWN.format(x) for x in ("bytes_up", "time_s"))
    with tempfile.TemporaryDirectory() as place:
        files = write(Results(folder, tuple(runs)), Path(place), [what])
        (drawn,) = (file for file in files if file.name.endswith("-full.svg"))
        shutil.copy(drawn, to)


def generate() -> None:
    """Write both files."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng, own, drawn = (np.random.default_rng(seed) for seed in range(3))
    words = new_words(rng, 80)
    follow = rng.dirichlet(np.full(len(words), 0.05), len(words))  # word by word
    X, y = map(torch.from_numpy, rows(text(rng, words, follow, 200_000)))
    dialects = [dialect(own, words) for _ in range(DIALECTS)]
    data: dict[str, list[np.ndarray]] = {"X": [], "y": [], "X_test": [], "y_test": []}
    for client in range(CLIENTS):
        letters = (TRAIN + TEST) * (LENGTH + 1)
        written = text(own, dialects[client % DIALECTS], follow, letters)
        for name, values in zip("Xy", rows(written), strict=True):
            data[name].append(values[:TRAIN])
            data[f"{name}_test"].append(values[TRAIN:])
    np.savez_compressed(
        SCENARIOS / "dialects.npz",
        **{name: np.concatenate(parts) for name, parts in data.items()},  # type: ignore[arg-type]
        client=np.repeat(np.arange(CLIENTS), TRAIN),
        client_test=np.repeat(np.arange(CLIENTS), TEST),
    )
    model = CharTransformer((LENGTH,), len(ALPHABET))
    steps = torch.optim.Adam(model.parameters(), RATE)
    for step in range(STEPS):
        steps.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        chosen = torch.from_numpy(drawn.integers(len(X), size=BATCH))
        loss = torch.nn.functional.cross_entropy(model(X[chosen].long()), y[chosen].long())
        steps.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        steps.step()
        if step % 500 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    print(f"loss {loss.item():.3f}")
    weights = {name: value.half().numpy() for name, value in model.state_dict().items()}
    np.savez_compressed(SCENARIOS / "dialects.base.npz", **weights)


def main(given: Sequence[str] | None = None) -> None:
    """Write both files, or the figure."""
    parser = argparse.ArgumentParser(prog="python -m scripts.dialects", description=__doc__)
    parser.add_argument("--figure", type=Path, metavar="DIR", help="draw the results there")
    folder = parser.parse_args(given).figure
    generate() if folder is None else figure(folder)


if __name__ == "__main__":
    main()
