"""Take pictures of every view of the dashboard for the documents: ``python -m scripts.screens``.

Small studies are run into a folder of their own, one of which goes on while its pictures are taken.
Each view is shown at 1280x800 and at 390x844 pixels, in both colour schemes, by headless Chromium.
"""

from __future__ import annotations

import argparse
import base64
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

import rayfed
from rayfed.dashboard import start
from tests.fakes.chromium import look, opened, wait

FOLDER = Path(__file__).parents[1] / "docs" / "_static" / "dashboard"
SIZES = {"wide": (1280, 800), "narrow": (390, 844)}
SCHEMES = ("light", "dark")
VIEWS = {
    "overview": ("?of=accuracy&target=0.9&x=time+to+target", ""),
    "compare": ("?study=results/devices", "#x=time_s"),
    "clients": ("?study=results/devices", ""),
    "topology": ("?study=results/walk", ""),
    "heterogeneity": ("?study=results/drift", ""),
    "sweep": ("?study=results/tuned", ""),
    "machine": ("?study=results/live", ""),
    "settings": ("?study=results/devices", ""),
    "log": ("?study=results/steep", ""),
}
"""The query and the choices that each view is shown with."""
_QUALITY = 60
_LOCAL = {"steps": 10, "batch": 16, "lr": 0.05}
_BASE: dict[str, Any] = {
    "problem": {"name": "logistic-regression", "dataset": "mushroom", "test": 0.2},
    "partition": {"name": "dirichlet", "alpha": 0.3},
    "clients": {
        "count": 20,
        "delay": {"name": "lognormal", "mean_s": 1.0, "sigma": 0.8},
        "network": {"down_mbps": 2, "up_mbps": 0.5},
        "availability": {"name": "markov", "mean_on_s": 60, "mean_off_s": 20},
    },
    "participation": {"cohort": 6},
    "executor": "serial",
}
_THREE = [{"name": name, "local": _LOCAL} for name in ("fedavg", "fedexp", "fednova")]
_DRIFT = {
    "dataset": {"name": "quadratic", "clients": 6, "features": 2, "seed": 2},
    "local": {"steps": 20, "batch": "full", "lr": 0.02},
}


def studies() -> Iterator[dict[str, Any]]:
    """Yield the scenarios of the studies that are shown."""
    yield _BASE | {
        "name": "devices", "seeds": [0, 1, 2], "rounds": 40, "algorithms": _THREE,
        "description": "Phones of unequal speed, of which a third is away at any time.",
    }  # fmt: skip
    yield {
        "name": "drift", "rounds": 20, "dtype": "float64", "clients": {}, "executor": "serial",
        "description": "Quadratics of two parameters: where local steps lead.",
        "problem": {"name": "quadratic", "dataset": _DRIFT["dataset"]},
        "evaluate": {"measures": ["path"]},
        "algorithms": [{"name": n, "local": _DRIFT["local"]} for n in ("fedavg", "scaffold")],
    }  # fmt: skip
    yield _BASE | {
        "name": "walk", "rounds": 60, "clients": {"count": 20},
        "description": "A server that walks over a random graph.",
        "topology": {"name": "random", "p": 0.15, "disconnected": "repair"},
        "participation": {"select": "walk"}, "algorithms": [{"name": "fedavg", "local": _LOCAL}],
    }  # fmt: skip
    yield _BASE | {
        "name": "tuned", "rounds": 15, "description": "Steps of clients and server, by a grid.",
        "algorithms": _THREE[:1],
        "grid": {
            "algorithms.*.local.lr": [0.01, 0.03, 0.1, 0.3],
            "algorithms.*.server_lr": [0.3, 1, 3],
        },
    }  # fmt: skip
    yield _BASE | {
        "name": "steep", "rounds": 10, "description": "A step that is far too long.",
        "problem": _BASE["problem"] | {"l2": 0.01},
        "algorithms": [{"name": "fedavg", "local": _LOCAL | {"lr": 1e300}}],
    }  # fmt: skip


@contextmanager
def going(folder: Path) -> Iterator[None]:
    """Run a study in processes of its own meanwhile."""
    scenario = _BASE | {
        "name": "live", "rounds": 100_000, "seeds": [0, 1], "executor": "workers",
        "description": "It goes on.", "algorithms": _THREE[:1],
        "clock": {"name": "wall", "scale": 0.01},
    }  # fmt: skip
    path = folder.parent / "live.yaml"
    path.write_text(yaml.safe_dump(scenario))
    command = [sys.executable, "-m", "rayfed", "run", str(path), "--profile", "--no-page"]
    with subprocess.Popen([*command, "--out", str(folder / "live")]) as process:
        try:
            while not list((folder / "live").glob("*/profile.json")):
                time.sleep(0.2)
            yield
        finally:
            process.terminate()


def pictures(folder: Path, out: Path, views: dict[str, tuple[str, str]]) -> None:
    """Take the pictures of some views of the studies in a folder."""
    served = start([folder], token=False)
    with tempfile.TemporaryDirectory() as profile:
        driver = opened(Path(profile))
        try:
            for view, (query, choices) in views.items():
                place = "" if view == "overview" else view
                for size, (width, height) in SIZES.items():
                    look(driver, width, height)
                    driver.get("about:blank")
                    driver.get(f"{served.address}{place}{query}{choices}")
                    if view == "overview":
                        wait(driver, "document.querySelector('#dots.js-plotly-plot')")
                    elif view != "log":
                        wait(driver, "document.body.dataset.ready === 'true'", seconds=120)
                    for scheme in SCHEMES:
                        look(driver, width, height, scheme)
                        time.sleep(1.0)
                        taken = driver.execute_cdp_cmd(
                            "Page.captureScreenshot", {"format": "webp", "quality": _QUALITY}
                        )
                        path = out / f"{view}-{size}-{scheme}.webp"
                        path.write_bytes(base64.b64decode(taken["data"]))
        finally:
            driver.quit()
            served.close()


def main() -> None:
    """Run the studies and take the pictures."""
    parser = argparse.ArgumentParser(description="Pictures of the dashboard for the documents.")
    parser.add_argument("views", nargs="*", metavar="VIEW", help=", ".join(VIEWS))
    parser.add_argument("--out", type=Path, default=FOLDER)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "results"
        folder.mkdir()
        for scenario in studies():
            rayfed.run(scenario, out=folder / scenario["name"], page=False, watch=False)
        with going(folder):
            asked = given.views or VIEWS
            pictures(folder, given.out, {view: VIEWS[view] for view in asked})


if __name__ == "__main__":
    main()
