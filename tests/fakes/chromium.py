"""Chromium as the tests drive it: headless, with a profile of its own."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--window-size=1280,800",
)


def opened(profile: Path) -> Any:
    """Return a driver of a new browser; `profile` is an empty folder."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def look(driver: Any, width: int, height: int, scheme: str = "light", media: str = "") -> None:
    """Give the window a size, and the reader a preference of colours."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def wait(driver: Any, script: str, *args: Any, seconds: float = 15.0) -> Any:
    """Wait until a script returns something true, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := driver.execute_script(f"return {script}", *args):
            return found
        time.sleep(0.03)
    raise AssertionError(f"never true: {script}")
