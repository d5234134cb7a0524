"""Messages of Flower apps: records of arrays and settings, and replies.

Flower's record types: https://flower.ai/docs/framework/ref-api/flwr.app.RecordDict.html
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np

from rayfed.core.arrays import Array
from rayfed.core.errors import RayfedError, clipped, listed

NUM_EXAMPLES = "num-examples"
"""Metric that Flower's strategies weigh replies by."""
ROUND = "server-round"
"""Setting with the round, as Flower's strategies send it."""
_LENGTH = 8  # bytes of the length of a packed state


class FlowerError(RayfedError):
    """A Flower app that cannot be run here, or answers in another form."""


@dataclass(frozen=True, eq=False)
class Opening:
    """The first arrays and the settings that a ServerApp sends.

    Parameters
    ----------
    arrays : mapping of str to array
        Arrays of the model, in the order in which they are sent.
    train, evaluate : tuple of mapping
        Settings of round 1, 2, ...; the last ones hold in later rounds.
    keys : (str, str)
        Names of the two records in the message.
    """

    arrays: Mapping[str, Array]
    train: tuple[Mapping[str, Any], ...] = ()
    evaluate: tuple[Mapping[str, Any], ...] = ()
    keys: tuple[str, str] = ("arrays", "config")

    @property
    def legacy(self) -> bool:
        """Whether it is for a ``client_fn``, from a strategy of ``flwr.server``."""
        return self.keys[0].startswith("fitins.")

    def config(self, round: int, kind: Literal["train", "evaluate"] = "train") -> dict[str, Any]:
        """Return the settings of a round, from 1; before it those of the first.

        Strategies of ``flwr.server`` do not add the round.
        """
        sent = self.train if kind == "train" else self.evaluate
        settings = sent[min(max(round, 1), len(sent)) - 1] if sent else {}
        return dict(settings) if self.legacy else {**settings, ROUND: round}


@dataclass(frozen=True)
class Answer:
    """The reply of a ClientApp.

    Parameters
    ----------
    arrays : mapping of str to array
        Trained arrays; empty after an evaluation.
    metrics : mapping of str to float
        Metrics that are numbers, by name.
    examples : int
        Number of examples.
    """

    arrays: Mapping[str, Array]
    metrics: Mapping[str, float]
    examples: int


@contextmanager
def in_process() -> Iterator[None]:
    """Let apps make messages in this process, without the progress that Flower logs."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1  # of a message's sender
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def is_legacy(app: Any) -> bool:
    """Return whether a ClientApp is made of a ``client_fn``, which has messages of its own."""
    return app._call is not None


def call(app: Any, kind: str, opening: Opening, config: Mapping[str, Any], context: Any) -> Answer:
    """Return the answer of a ClientApp to a message.

    Parameters
    ----------
    app : flwr.clientapp.ClientApp
    kind : "train" or "evaluate"
    opening : Opening
        Arrays to send.
    config : mapping of str to object
        Settings to send.
    context : flwr.app.Context
        Of the client; its state changes.

    Raises
    ------
    FlowerError
        If the reply has another form; exceptions of the app pass.
    """
    content = (_legacy_content if is_legacy(app) else _content)(kind, opening, config)
    reply = send(app, kind, content, context)
    return (_legacy_answer if is_legacy(app) else _answer)(kind, reply, opening)


def send(app: Any, kind: str, content: Any, context: Any) -> Any:
    """Return the content of the reply of a ClientApp to a message of some kind."""
    from flwr.app import Message, RecordDict

    message = Message(content, context.node_id, kind)
    reply = app(message, context)
    if not isinstance(reply, Message):
        _refuse(kind, f"returns {clipped(repr(reply), 60)}; return Message(content, reply_to=...)")
    if reply.has_error():
        _refuse(kind, f"answers with the error {clipped(reply.error.reason, 100)!r}")
    assert isinstance(reply.content, RecordDict)
    return reply.content


def _refuse(kind: str, text: str) -> NoReturn:
    raise FlowerError(f"{kind} of the Flower app {text}")


def _content(kind: str, opening: Opening, config: Mapping[str, Any]) -> Any:
    from flwr.app import Array as Packed
    from flwr.app import ArrayRecord, ConfigRecord, RecordDict

    arrays = ArrayRecord({name: Packed(value) for name, value in opening.arrays.items()})
    names = opening.keys
    return RecordDict({names[0]: arrays, names[1]: ConfigRecord(dict(config))})


def _answer(kind: str, reply: Any, opening: Opening) -> Answer:
    records, arrays = list(reply.metric_records.values()), list(reply.array_records.values())
    wanted = 1 if kind == "train" else 0
    if len(records) != 1 or (wanted and len(arrays) != 1):
        found = f"{len(arrays)} ArrayRecord and {len(records)} MetricRecord"
        _refuse(kind, f"returns {found}; return one{' of each' if wanted else ' MetricRecord'}")
    metrics = dict(records[0])
    if NUM_EXAMPLES not in metrics:
        text = f"returns no '{NUM_EXAMPLES}' in {clipped(listed(metrics), 60) or 'its metrics'}"
        _refuse(kind, f"{text}; add it to the MetricRecord")
    trained = {name: array.numpy() for name, array in arrays[0].items()} if wanted else {}
    return Answer(trained, _numbers(metrics), _examples(kind, metrics[NUM_EXAMPLES]))


def _legacy_content(kind: str, opening: Opening, config: Mapping[str, Any]) -> Any:
    from flwr.common import EvaluateIns, FitIns, ndarrays_to_parameters
    from flwr.compat.common import recorddict_compat as compat

    parameters = ndarrays_to_parameters(list(opening.arrays.values()))
    if kind == "train":
        return compat.fitins_to_recorddict(FitIns(parameters, dict(config)), True)
    return compat.evaluateins_to_recorddict(EvaluateIns(parameters, dict(config)), True)


def _legacy_answer(kind: str, reply: Any, opening: Opening) -> Answer:
    from flwr.common import Code, parameters_to_ndarrays
    from flwr.compat.common import recorddict_compat as compat

    found: Any
    if trains := kind == "train":
        found = compat.recorddict_to_fitres(reply, keep_input=True)
    else:
        found = compat.recorddict_to_evaluateres(reply)
    if found.status.code != Code.OK:
        _refuse(kind, f"answers {clipped(found.status.message, 80)!r}; implement it")
    metrics, examples = dict(found.metrics), _examples(kind, found.num_examples)
    if not trains:
        return Answer({}, _numbers({"loss": found.loss} | metrics), examples)
    trained = parameters_to_ndarrays(found.parameters)
    if len(trained) != len(opening.arrays):
        text = f"returns {len(trained)} arrays, but was sent {len(opening.arrays)}"
        _refuse(kind, f"{text}; return as many")
    return Answer(dict(zip(opening.arrays, trained, strict=True)), _numbers(metrics), examples)


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that are single numbers, but the number of examples."""
    return {
        name: float(value)
        for name, value in metrics.items()
        if name != NUM_EXAMPLES and isinstance(value, int | float)
    }


def _examples(kind: str, value: Any) -> int:
    if not isinstance(value, int | float) or value != int(value) or value < 0:
        _refuse(kind, f"returns {clipped(repr(value), 40)} examples; return a whole number")
    return int(value)


def pack(state: Any, size: int) -> Array:
    """Return the state of a client as bytes (size,): their number, and records by Flower's format.

    Raises
    ------
    FlowerError
        If it needs more bytes.
    """
    from flwr.common.serde import recorddict_to_proto

    data = recorddict_to_proto(state).SerializeToString(deterministic=True)
    needed = len(data) + _LENGTH if data else 0
    if needed > size:
        text = f"context.state of a client takes {needed:,} bytes of {size:,}"
        raise FlowerError(f"{text}; set problem.state_bytes to as many as it will take")
    out = np.zeros(size, np.uint8)
    if data:
        out[:_LENGTH] = np.frombuffer(len(data).to_bytes(_LENGTH, "little"), np.uint8)
        out[_LENGTH:needed] = np.frombuffer(data, np.uint8)
    return out


def unpack(packed: Array) -> Any:
    """Return the state of a client, the inverse of `pack`."""
    from flwr.common.serde import recorddict_from_proto
    from flwr.proto.recorddict_pb2 import RecordDict

    data = packed.tobytes()
    size = int.from_bytes(data[:_LENGTH], "little")
    return recorddict_from_proto(RecordDict.FromString(data[_LENGTH : _LENGTH + size]))
