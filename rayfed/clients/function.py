"""The client function of an Ask: called for stacks of clients, checked against its declaration."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from rayfed.clients.clients import Clients
from rayfed.clients.prints import Prints
from rayfed.clients.request import GROUP, Request
from rayfed.clients.setup import Setup
from rayfed.core.arrays import Array, Ints, all_to_numpy, to_numpy
from rayfed.core.errors import listed
from rayfed.core.names import called
from rayfed.core.plugins import defined_at, ends_process, raised
from rayfed.messages import Upload


class ClientError(Exception):
    """An exception of a client function, or an undeclared upload.

    Parameters
    ----------
    client : int
        The client's id.
    trace : str
        The original traceback; empty if nothing was raised.
    reason : str
        The error in one line, with the user's file and line.
    """

    def __init__(self, client: int, trace: str, reason: str) -> None:
        super().__init__(client)
        self.client, self.trace, self.reason = client, trace, reason

    @classmethod
    def of(cls, client: int, error: BaseException) -> ClientError:
        """Return the error of a client function that raised."""
        return cls(client, "".join(traceback.format_exception(error)), raised(error))


class ClientFunction:
    """The client function of one Ask, on one host.

    Parameters
    ----------
    setup : Setup
        The run.
    request : Request
        The Ask.
    send : mapping of str to array
        What every client downloads.
    key : str
        Of the run.
    prints : Prints
        Where what client functions print goes.
    """

    def __init__(
        self, setup: Setup, request: Request, send: Mapping[str, Array], key: str, prints: Prints
    ) -> None:
        self.setup, self.request, self.key, self.prints = setup, request, key, prints
        given = setup.problem.arrays(send)
        self.send = {name: _read_only(rows) for name, rows in given.items()}
        self.function: Callable[..., Upload] = getattr(
            setup.owners[request.owner], request.function
        )

    def call(self, clients: Clients, index: Ints) -> Upload:
        """Return the upload of a stack of clients as NumPy arrays.

        Parameters
        ----------
        clients : Clients
        index : (K,) array of int
            Their places in the request.

        Raises
        ------
        ClientError
            If the function raises, or does not do what its Ask declares. Where it raises, the error
            is that of the first client for which it raises alone.
        """
        send = self._sent(index)
        try:
            with (
                np.errstate(all="ignore"),  # a run that diverges is reported by the engine
                self.prints.labelled(_Label(self.key, self.request.round, clients.ids)),
            ):
                before = _versions(send)
                upload = self.function(clients, **send)
                self._check_returned(upload, send, before)
                if clients.moved:
                    upload = replace(upload, values={**upload.values, **clients.moved})
                if self.setup.problem.libraries:
                    upload = _in_numpy(upload)
        except ClientError:
            raise
        except BaseException as error:
            if ends_process(error):
                raise
            original = error  # errors raised in its handler would be reported with it
        else:
            self._check(upload, len(index))
            return upload
        raise self._failure(clients, send, original) from original

    def _sent(self, index: Ints) -> Mapping[str, Array]:
        """Return the download of some of the request's clients."""
        if self.request.rows is None:
            return self.send
        rows = self.request.rows[index]
        return {name: stack[rows] for name, stack in self.send.items()}

    def _failure(
        self, clients: Clients, send: Mapping[str, Array], original: BaseException
    ) -> ClientError:
        """Return the error of the first client that a function fails for alone, or of the first.

        What a function prints for the others is not shown again.
        """
        for k in range(len(clients.ids) if len(clients.ids) > 1 else 0):
            one = send
            if self.request.rows is not None:
                one = {name: rows[k : k + 1] for name, rows in send.items()}
            try:
                with np.errstate(all="ignore"), self.prints.muted():
                    self.function(clients.only(k), **one)
            except BaseException as error:
                if ends_process(error):
                    raise
                return ClientError.of(int(clients.ids[k]), error)
        return ClientError.of(int(clients.ids[0]), original)

    def _check_returned(
        self, upload: Any, send: Mapping[str, Array], before: Mapping[str, Any]
    ) -> None:
        """Refuse return values other than an upload, and in-place changes of shared downloads."""
        if not isinstance(upload, Upload):
            self._refuse(f"returns a {type(upload).__name__}; return Upload({{name: rows}})")
        changed = [name for name, version in _versions(send).items() if version != before[name]]
        if changed:
            text = f"changes {listed(changed)} in place, which all clients are sent"
            self._refuse(f"{text}; copy it first")

    def _check(self, upload: Upload, k: int) -> None:
        """Refuse an upload that differs from its declaration in the Ask: traffic must be honest."""
        declared, initial = dict(self.request.up), self.setup.initial
        sent = {name: rows.size // max(k, 1) for name, rows in upload.values.items()}
        sent |= dict.fromkeys(upload.squares, 1)
        if upload.group is not None:
            sent[GROUP] = 1
        if sent != declared:
            self._refuse(
                f"declares the upload {declared} but sends {sent} (numbers per client); "
                "correct `up` of its Ask"
            )
        for name, rows in upload.values.items():
            if len(rows) != k:
                self._refuse(f"sends '{name}' {rows.shape} for {k} clients; put clients first")
        if upload.loss is not None and upload.loss.shape != (k,):
            self._refuse(f"gives a loss {upload.loss.shape} for {k} clients; give each one number")
        if upload.group is not None and upload.group.shape != (k,):
            self._refuse(f"gives groups {upload.group.shape} for {k} clients; give each one number")
        for name, rows in upload.state.items():
            if name not in initial:
                self._refuse(f"keeps '{name}', which `client_state` does not make; add it there")
            if rows.shape != (k, *initial[name].shape):
                wanted = (k, *initial[name].shape)
                self._refuse(f"keeps '{name}' {rows.shape}; a row a client is {wanted}")
        self._check_mirrors(upload, k)

    def _check_mirrors(self, upload: Upload, k: int) -> None:
        """Refuse mirrors and squares of missing vectors or of other lengths."""
        vectors = [*upload.squares.values(), *(vector for vector, _ in upload.mirrors.values())]
        for vector in vectors:
            if vector not in upload.values:
                self._refuse(f"mirrors or squares '{vector}', which it does not upload")
        for name, (vector, factor) in upload.mirrors.items():
            if name not in upload.state:
                self._refuse(f"mirrors '{name}', which it does not keep; give it in `state`")
            if upload.state[name].shape != upload.values[vector].shape:
                self._refuse(f"mirrors '{name}' in '{vector}', which has another shape")
            if np.shape(factor) not in {(), (k, 1)}:
                text = f"mirrors '{name}' by a factor {np.shape(factor)}"
                self._refuse(f"{text}; give a number or {(k, 1)}")

    def _refuse(self, why: str) -> NoReturn:
        """Blame the client function, under the name of its first client."""
        asker = type(self.setup.owners[self.request.owner]).__name__
        at = defined_at(self.function)
        text = f"{asker}.{self.request.function} {why}" + (f" ({at})" if at else "")
        raise ClientError(int(self.request.ids[0]), "", text)


def _read_only(rows: Array) -> Array:
    """Return an array that cannot be changed in place: all stacks of clients are sent the same."""
    if isinstance(rows, np.ndarray) and rows.flags.writeable:
        rows = rows.view()
        rows.flags.writeable = False
    return rows


def _versions(send: Mapping[str, Array]) -> dict[str, Any]:
    """Return the counts of in-place changes of tensors; NumPy arrays are read-only."""
    return {name: getattr(rows, "_version", None) for name, rows in send.items()}


def _in_numpy(upload: Upload) -> Upload:
    """Return an upload as it travels: the server and the sums know NumPy's arrays alone."""
    loss = None if upload.loss is None else to_numpy(upload.loss)
    group = None if upload.group is None else to_numpy(upload.group)
    mirrors = {
        name: (vector, factor if isinstance(factor, int | float) else to_numpy(factor))
        for name, (vector, factor) in upload.mirrors.items()
    }
    values, state = all_to_numpy(upload.values), all_to_numpy(upload.state)
    return Upload(values, state, loss, group, mirrors, upload.squares)


@dataclass(frozen=True, slots=True)
class _Label:
    """Label in front of printed lines of a client function, made on first use."""

    key: str
    round: int
    ids: Ints

    def __str__(self) -> str:
        return f"{self.key}, round {self.round}, {called(self.ids)}"
