"""Client functions: who is to blame where one fails, and what is refused."""

import re
import signal
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from rayfed.clients.request import Failure
from rayfed.messages import Upload
from tests.clients.toy_host import host_with, request


def test_a_client_that_fails_is_named_with_its_traceback():
    host, _ = host_with([2] * 5)
    failure = host.exchange("run", request([1, 2, 3, 4]), {"x": np.ones(2)})
    assert isinstance(failure, Failure)
    assert failure.client == 3
    assert "client 3 is broken" in failure.trace
    assert "Traceback" in failure.trace


class Left(BaseException):
    """An error that is no `Exception`."""


@pytest.mark.parametrize("error", [SystemExit, Left])
def test_an_error_that_is_no_exception_is_the_clients(error):
    host, setup = host_with([2] * 5)

    def work(clients, x):
        if 3 in clients.ids:
            raise error(3)
        return Upload({"vector": np.ones((len(clients.ids), 2)), "scalar": np.ones(4)})

    setup.owners["algorithm"] = SimpleNamespace(work=work)
    failure = host.exchange("run", request([1, 2, 3, 4]), {"x": np.ones(2)})
    assert isinstance(failure, Failure)
    assert failure.client == 3
    assert re.fullmatch(rf"{error.__name__}: 3 \(test_function\.py:\d+\)", failure.reason)
    assert "raise error(3)" in failure.trace


def test_an_interrupt_and_the_handler_of_a_signal_end_the_process():
    host, setup = host_with([2] * 5)

    def work(clients, x):
        signal.raise_signal(number)

    setup.owners["algorithm"] = SimpleNamespace(work=work)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
    try:
        number = signal.SIGTERM
        with pytest.raises(SystemExit) as end:
            host.exchange("run", request([1, 2]), {"x": np.ones(2)})
        assert end.value.code == 9
        number = signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            host.exchange("run", request([1, 2]), {"x": np.ones(2)})
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_upload_that_was_not_declared_is_refused():
    host, _ = host_with([2] * 5)
    failure = host.exchange("run", request([1], "liar", {"vector": 2}), {"x": np.ones(2)})
    assert "declares the upload {'vector': 2} but sends {'vector': 7}" in failure.reason


@pytest.mark.parametrize(
    ("work", "up", "found"),
    [
        ("sideways", {"vector": 2}, r"ToyHalf.sideways sends 'vector' \(2, 3\) for 3 clients"),
        ("forgetful", {}, "keeps 'cals', which `client_state` does not make"),
        ("greedy", {}, r"keeps 'calls' \(3, 2\); a row a client is \(3, 1\)"),
        ("lossy", {}, r"lossy gives a loss \(3, 1\) for 3 clients; give each one number"),
        ("odd", {}, r"odd returns a str; return Upload"),
    ],
)
def test_what_would_be_lost_or_read_amiss_is_refused(work, up, found):
    host, _ = host_with([2] * 5)
    failed = host.exchange("run", request([2, 1, 4], work, up), {"x": np.ones(2)})
    assert isinstance(failed, Failure)
    assert re.search(found, failed.reason)
