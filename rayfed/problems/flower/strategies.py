"""Settings of each round and the first arrays, by the strategy of a ServerApp."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from rayfed.core.arrays import Array
from rayfed.problems.flower.messages import FlowerError, Opening

_FIRST = "_rayfed_first"
"""Attribute of a strategy with its initial parameters."""
_PATIENCE = 5  # questions for clients, a second apart where a strategy waits for more


class _Opened(BaseException):
    """Ends a ServerApp at its first messages; no handler of an app catches it."""


def opened(
    server: Any,
    clients: int,
    run_config: Mapping[str, Any],
    rounds: int,
    parameters: Callable[[], Mapping[str, Array]],
) -> Opening:
    """Return the first arrays and the settings of a ServerApp, which is run up to its strategy.

    The strategy configures one round after another with the first arrays. A ServerApp without
    a strategy of Flower is run up to its first message, whose settings hold in all rounds.

    Parameters
    ----------
    server : flwr.serverapp.ServerApp
    clients : int
        Number of nodes that it finds, each of them available.
    run_config : mapping
    rounds : int
        Number of rounds to configure; those of the ServerApp if 0.
    parameters : callable
        Returns the first arrays where a strategy of ``flwr.server`` has none.

    Raises
    ------
    FlowerError
        If it sends another message before, or none, or one of another form, or other settings to
        some clients than to others.
    """
    from flwr.app import Context, RecordDict

    sent: list[Any] = []
    listener = _Listener(clients=clients, rounds=rounds, parameters=parameters)
    with suppress(_Opened), _configuring(listener):
        server(_grid(clients, sent), Context(1, 0, {}, RecordDict(), dict(run_config)))
    if listener.opening is not None:
        return listener.opening
    if not sent:
        raise FlowerError("the ServerApp sends no message; name the model in problem.model")
    kind = sent[0].metadata.message_type
    if kind != "train":
        text = f"the ServerApp sends a message '{kind}' before it trains"
        raise FlowerError(f"{text}; name the model in problem.model")
    content = sent[0].content
    config = _settings_of(content)
    return replace(_first_of(content), train=(config,), evaluate=(config,))


@contextmanager
def _configuring(listener: _Listener) -> Iterator[None]:
    """Let Flower's strategies configure rounds in place of running them."""
    from flwr.server.workflow import DefaultWorkflow
    from flwr.serverapp import server_app
    from flwr.serverapp.strategy import Strategy

    def start(strategy: Any, *args: Any, **keys: Any) -> NoReturn:
        listener.configured(strategy, *args, **keys)

    def workflow(self: Any, grid: Any, context: Any) -> NoReturn:
        listener.legacy(grid, context.config, context.strategy, context.client_manager)

    places = (
        (Strategy, "start", start),
        (server_app, "start_grid", listener.legacy),  # of a ServerApp without a main function
        (DefaultWorkflow, "__call__", workflow),
    )
    with ExitStack() as stack:
        for owner, name, function in places:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, function)
        yield


@dataclass(kw_only=True)
class _Listener:
    """The opening of a ServerApp, by its strategy.

    Parameters
    ----------
    clients, rounds : int
    parameters : callable
        See `opened`.
    opening : Opening, optional
        None until a strategy has configured its rounds, or if it trains no clients.
    """

    clients: int
    rounds: int
    parameters: Callable[[], Mapping[str, Array]]
    opening: Opening | None = None

    def configured(
        self, strategy: Any, grid: Any, initial_arrays: Any, num_rounds: int = 3,
        timeout: float = 3600, train_config: Any = None, evaluate_config: Any = None,
        evaluate_fn: Any = None,
    ) -> NoReturn:  # fmt: skip
        """Take the place of ``flwr.serverapp.strategy.Strategy.start``."""
        from flwr.app import ConfigRecord

        train, evaluate = (
            ConfigRecord() if config is None else config
            for config in (train_config, evaluate_config)
        )

        def contents(configure: Any, config: Any, now: int) -> list[Any]:
            asked_anew = _grid(self.clients, [])
            return [each.content for each in configure(now, initial_arrays, config, asked_anew)]

        self._of_rounds(
            num_rounds,
            lambda now: contents(strategy.configure_train, train, now),
            lambda now: contents(strategy.configure_evaluate, evaluate, now),
        )

    def legacy(
        self, grid: Any, config: Any = None, strategy: Any = None, client_manager: Any = None,
        server: Any = None,
    ) -> NoReturn:  # fmt: skip
        """Take the place of ``flwr.server.compat.start_grid``."""
        from flwr.common import ndarrays_to_parameters
        from flwr.compat.common import recorddict_compat as compat
        from flwr.server.compat.grid_client_proxy import GridClientProxy
        from flwr.server.server import init_defaults

        server, config = init_defaults(server, config, strategy, client_manager)
        strategy, manager = server.strategy, server.client_manager()
        for i in range(self.clients):
            manager.register(GridClientProxy(i, grid, run_id=1))
        manager.wait_for = self._wait_for
        first = getattr(strategy, _FIRST, None)
        if first is None:
            first = strategy.initialize_parameters(client_manager=manager)
            setattr(strategy, _FIRST, first)  # each seed asks the one of a module, which forgets it
        if first is None:
            first = ndarrays_to_parameters(list(self.parameters().values()))

        def contents(configure: Any, content_of: Any, now: int) -> list[Any]:
            given = configure(server_round=now, parameters=first, client_manager=manager)
            each = {id(each): each for _, each in given}.values()  # most clients share one
            return [content_of(instruction, True) for instruction in each]

        self._of_rounds(
            config.num_rounds,
            lambda now: contents(strategy.configure_fit, compat.fitins_to_recorddict, now),
            lambda now: contents(
                strategy.configure_evaluate, compat.evaluateins_to_recorddict, now
            ),
        )

    def _wait_for(self, num_clients: int, timeout: int = 0) -> bool:
        if num_clients > self.clients:
            raise _too_few(self.clients)
        return True

    def _of_rounds(
        self,
        rounds: int,
        train: Callable[[int], list[Any]],
        evaluate: Callable[[int], list[Any]],
    ) -> NoReturn:
        """Note the opening by the contents of the messages of each round, and end the app."""
        trains: list[Mapping[str, Any]] = []
        evaluates: list[Mapping[str, Any]] = []
        opening = None
        for now in range(1, (self.rounds or rounds) + 1):
            contents = train(now)
            if opening is None:
                if not contents:  # a strategy that trains no clients
                    raise _Opened
                opening = _first_of(contents[0])
            trains.append(_alike(contents, now, trains))
            evaluates.append(_alike(evaluate(now), now, evaluates))
        assert opening is not None
        self.opening = replace(opening, train=tuple(trains), evaluate=tuple(evaluates))
        raise _Opened


def _alike(contents: list[Any], round: int, before: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the settings of the messages of a round; those before without messages.

    Raises
    ------
    FlowerError
        If clients get different settings.
    """
    settings = [_settings_of(content) for content in contents]
    if any(each != settings[0] for each in settings):
        text = f"the strategy sends clients different settings in round {round}"
        raise FlowerError(f"{text}; give them by groups in config of the local solver")
    return settings[0] if settings else before[-1] if before else {}


def _too_few(clients: int) -> FlowerError:
    text = f"the ServerApp waits for more clients than the {clients} here"
    return FlowerError(f"{text}; raise clients.count")


def _grid(clients: int, sent: list[Any]) -> Any:
    """Return a grid of N clients that adds the first messages to a list and ends the app."""
    from flwr.serverapp import Grid

    asked = iter(range(_PATIENCE))

    class Listening(Grid):  # type: ignore[misc,unused-ignore]  # flwr may be missing
        """A grid that notes the first messages and ends the app."""

        def set_run(self, run: Any) -> None:
            """Take no run."""

        @property
        def run(self) -> Any:
            """No run."""
            return None

        def create_message(self, *args: Any, **keys: Any) -> NoReturn:
            """Refuse an older way of making messages."""
            raise FlowerError("the ServerApp calls grid.create_message; make a Message")

        def get_node_ids(self) -> Iterable[int]:
            """Return all clients, to a strategy that does not wait for more."""
            if next(asked, None) is None:
                raise _too_few(clients)
            return range(clients)

        def push_messages(self, messages: Iterable[Any]) -> NoReturn:
            """Note messages and end the app."""
            sent.extend(messages)
            raise _Opened

        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Any]:
            """Return no reply."""
            return []

        def send_and_receive(self, messages: Iterable[Any], *, timeout: Any = None) -> NoReturn:
            """Note messages and end the app."""
            self.push_messages(messages)

    return Listening()


def _settings_of(content: Any) -> Mapping[str, Any]:
    """Return the settings of a message.

    Raises
    ------
    FlowerError
        If it has other records than one of arrays and one of settings.
    """
    arrays, settings = content.array_records, list(content.config_records.values())
    if len(arrays) != 1 or len(settings) > 1 or content.metric_records:
        found = (len(arrays), len(settings), len(content.metric_records))
        text = "the ServerApp sends {} ArrayRecord, {} ConfigRecord and {} MetricRecord"
        raise FlowerError(f"{text.format(*found)}; send one ArrayRecord and one ConfigRecord")
    return dict(settings[0]) if settings else {}


def _first_of(content: Any) -> Opening:
    """Return the arrays of a message, and the names of its records."""
    _settings_of(content)
    ((name, record),) = content.array_records.items()
    key = next(iter(content.config_records), "config")
    return Opening({n: a.numpy() for n, a in record.items()}, keys=(name, key))
