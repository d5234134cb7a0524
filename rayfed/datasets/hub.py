"""Parquet files of data sets on the Hugging Face Hub, at addresses such as ``hf://datasets/...``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rayfed.core.errors import LibraryMissing, RayfedError, ScenarioError, clipped

if TYPE_CHECKING:
    import pandas as pd

SCHEME = "hf://"


def read_hub(url: str) -> pd.DataFrame:
    """Read Parquet files of a data set, one below the other, in the order of their names.

    Parameters
    ----------
    url : str
        Such as ``hf://datasets/user/name/data/train-*.parquet``.

    Raises
    ------
    ScenarioError
        If the file system of the Hub is not installed, or nothing can be read there.
    """
    try:
        import fsspec
        import pyarrow as pa
        import pyarrow.parquet as pq

        system = fsspec.filesystem(SCHEME.removesuffix("://"))
    except (ImportError, ValueError) as error:
        text = "needs huggingface_hub; install it with: pip install 'rayfed[hf]'"
        raise LibraryMissing(url, text) from error
    try:
        found = sorted(system.glob(url.removeprefix(SCHEME)))
        if not found:
            raise ScenarioError(url, "holds no file of that name; look at the data set's files")
        tables = []
        for path in found:
            with system.open(path, "rb") as file:
                tables.append(pq.read_table(file))
        frame: pd.DataFrame = pa.concat_tables(tables, promote_options="default").to_pandas()
        return frame
    except RayfedError:
        raise
    except Exception as error:  # of the network, of the Hub, of Arrow
        what = clipped(str(error).partition("\n")[0], 100)
        raise ScenarioError(url, f"cannot be read ({type(error).__name__}: {what})") from error
