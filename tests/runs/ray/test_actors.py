"""The actors of a study as nodes come and go, without Ray: who starts where, and who is used."""

from types import SimpleNamespace

import pytest
from ray.exceptions import RayActorError

from rayfed.core.errors import RayfedError
from rayfed.runs.ray.actors import Node, StudyActors


class Made:
    """A kind of actor that records where its actors are started; they are ready when told."""

    def __init__(self, started, kind, **options):
        self.started, self.kind, self.given = started, kind, options

    def options(self, scheduling_strategy):
        return Made(self.started, self.kind, node=scheduling_strategy.node_id, **self.given)

    def remote(self, *given):
        ref = SimpleNamespace(ready=False, error=None)
        handle = SimpleNamespace(
            kind=self.kind, given=given, ref=ref, ready=SimpleNamespace(remote=lambda: ref),
            **self.given,
        )  # fmt: skip
        self.started.append(handle)
        return handle


@pytest.fixture
def started(monkeypatch):
    """Return the actors that have been started so far."""
    made = []

    def remote(**options):
        return lambda cls: Made(made, cls.__name__, **options)

    def wait(refs, **_):
        return [r for r in refs if r.ready], [r for r in refs if not r.ready]

    def get(refs):
        for ref in refs:
            if ref.error is not None:
                raise ref.error

    pinned = "rayfed.runs.ray.actors.NodeAffinitySchedulingStrategy"  # it wants ids as Ray's are
    monkeypatch.setattr(pinned, lambda node, soft: SimpleNamespace(node_id=node))
    monkeypatch.setattr("ray.remote", remote)
    monkeypatch.setattr("ray.wait", wait)
    monkeypatch.setattr("ray.get", get)
    return made


def nodes(**cpus):
    return {name: Node(f"at-{name}", n, 0.0) for name, n in cpus.items()}


def begun(study_actors, **cpus):
    study_actors.begin(nodes(**cpus))
    study_actors.started()


def of(study_actors):
    """Return the hosts of the pool: kind, node, and how many actors each stands for."""
    pool = study_actors.pool()
    return [(h.kind, h.node, size) for h, size in zip(pool.actors, pool.sizes, strict=True)]


def test_one_node_has_no_combiner(started):
    study_actors = StudyActors(20, "auto")
    begun(study_actors, a=2.0)
    assert of(study_actors) == [("HostActor", "a", 1), ("HostActor", "a", 1)]
    assert {actor.num_cpus for actor in started} == {1.0}
    assert list(study_actors.look(nodes(a=2.0))) == []


def test_several_nodes_have_one_each_where_there_are_several_actors(started):
    study_actors = StudyActors(20, "auto")
    begun(study_actors, a=2.0, b=1.0, c=3.0)
    assert of(study_actors) == [("Combiner", "a", 2), ("HostActor", "b", 1), ("Combiner", "c", 3)]
    assert [actor.num_cpus for actor in started if actor.kind == "Combiner"] == [0, 0]


def test_a_node_that_comes_is_used_once_its_actors_are_ready(started):
    study_actors = StudyActors(20, "auto")
    begun(study_actors, a=2.0)
    before = study_actors.version
    assert list(study_actors.look(nodes(a=2.0, b=2.0))) == []
    assert [actor.node for actor in started] == ["a", "a", "b", "b", "a", "b"]
    assert [actor.kind for actor in started[4:]] == ["Combiner", "Combiner"]
    assert of(study_actors) == [("HostActor", "a", 1), ("HostActor", "a", 1)]
    for actor in started:
        actor.ref.ready = True
    assert list(study_actors.look(nodes(a=2.0, b=2.0))) == [
        "node at-b has come: 2 client actors there, 4 in all, from the next checkpoint of each "
        "run on"
    ]
    assert of(study_actors) == [("Combiner", "a", 2), ("Combiner", "b", 2)]
    assert study_actors.version > before


def test_a_node_that_goes_takes_its_actors_with_it(started):
    study_actors = StudyActors(20, "auto")
    begun(study_actors, a=2.0, b=1.0)
    before = study_actors.version
    assert list(study_actors.look(nodes(b=1.0))) == [
        "node at-a has gone with 2 client actors; 1 are left"
    ]
    assert of(study_actors) == [("HostActor", "b", 1)]
    assert study_actors.version > before
    assert list(study_actors.look({})) == [
        "node at-b has gone with 1 client actor; 0 are left; runs wait for a node"
    ]
    assert of(study_actors) == []


def test_a_number_of_actors_that_was_asked_for_stays(started):
    """It shrinks with nodes that go, and others that come fill it up again."""
    study_actors = StudyActors(20, 5)
    begun(study_actors, a=2.0, b=2.0)
    assert [actor.node for actor in started if actor.kind == "HostActor"] == ["a", "a", "b", "b"]
    count = len(started)
    assert list(study_actors.look(nodes(a=2.0, b=2.0, c=8.0))) == []
    assert len(started) == count
    assert len(list(study_actors.look(nodes(b=2.0)))) == 1
    assert len(study_actors.actors) == 2
    list(study_actors.look(nodes(b=2.0, d=2.0)))
    assert [actor.node for actor in started[count:]] == ["d", "d", "d"]  # a combiner besides


def test_more_actors_than_processors_share_them(started):
    study_actors = StudyActors(9, 1)
    begun(study_actors, a=2.0, b=1.0)
    shares = [(a.node, a.num_cpus) for a in started if a.kind == "HostActor"]
    assert shares == [("a", 0.3333)] * 6 + [("b", 0.3333)] * 3


def test_a_node_where_actors_cannot_start_is_left_alone(started):
    study_actors = StudyActors(20, "auto")
    begun(study_actors, a=1.0)
    list(study_actors.look(nodes(a=1.0, b=1.0)))
    started[-1].ref.ready, started[-1].ref.error = True, RayActorError()
    (line,) = study_actors.look(nodes(a=1.0, b=1.0))
    assert line.startswith("client actors cannot start on node at-b: ")
    count = len(started)
    assert list(study_actors.look(nodes(a=1.0, b=1.0))) == []
    assert (len(started), of(study_actors)) == (count, [("HostActor", "a", 1)])


def test_gpus_decide_where_actors_are(started):
    there = {"a": Node("a", 8.0, 0.0), "b": Node("b", 2.0, 1.0), "c": Node("c", 2.0, 2.0)}
    with pytest.raises(RayfedError, match=r"1 for each of 4 client actors, but .* 0 \+ 1 \+ 2;"):
        StudyActors(4, 1, gpus=1.0).begin(there)
    StudyActors(3, 1, gpus=1.0).begin(there)
    found = sorted(actor.node for actor in started if actor.kind == "HostActor")
    assert found == ["b", "c", "c"]


@pytest.mark.parametrize(
    ("there", "gpus", "count"),
    [
        (1.0, 1.0, 1),
        (1.0, 0.5, 2),
        (1.0, 0.2, 5),
        (1.0, 0.125, 8),
        (1.0, 0.1, 8),  # a process for each of eight CPUs, at most
        (0.6, 0.2, 3),  # though 0.6 / 0.2 < 3
        (1.0, 0.4, 2),
    ],
)
def test_gpus_are_shared_by_as_many_actors_as_they_are_enough_for(started, there, gpus, count):
    StudyActors(20, "auto", gpus=gpus).begin({"a": Node("a", 8.0, there)})
    assert len([actor for actor in started if actor.kind == "HostActor"]) == count


def test_gpus_of_several_nodes_are_no_gpu_of_one(started):
    with pytest.raises(RayfedError, match="gpus_per_actor: 2 for each of 1 client actor, but"):
        StudyActors(20, "auto", gpus=2.0).begin({key: Node(key, 8.0, 1.0) for key in "ab"})
    with pytest.raises(RayfedError, match=r"0\.1 for each .* but there are 0;"):
        StudyActors(20, "auto", gpus=0.1).begin({"a": Node("a", 8.0, 0.0)})


def with_drivers(started, clients_per_actor="auto", runs=1, **cpus):
    """Return the actors of a study whose drivers are on node a and host clients."""
    study_actors = StudyActors(20, clients_per_actor, memory_gb=1.0)
    study_actors.begin(nodes(**cpus), "a", runs)
    study_actors.started()
    return study_actors


@pytest.mark.parametrize(
    ("clients_per_actor", "cpus", "there"),
    [
        ("auto", {"a": 2.0}, ["a"]),
        ("auto", {"a": 1.0}, []),
        ("auto", {"a": 1.0, "b": 2.0}, ["b", "b"]),
        ("auto", {"a": 2.0, "b": 2.0}, ["b", "b", "a"]),
        (5, {"a": 2.0}, ["a", "a", "a"]),
        (20, {"a": 2.0}, []),
        ("auto", {"b": 2.0}, ["b", "b"]),  # Ray may give away no CPU where the drivers are
    ],
)
def test_a_driver_that_hosts_clients_takes_the_place_of_an_actor(
    started, clients_per_actor, cpus, there
):
    study_actors = with_drivers(started, clients_per_actor, **cpus)
    found = [actor.node for actor in started if actor.kind == "HostActor"]
    assert sorted(found) == sorted(there)
    hosts = "a" in cpus
    assert study_actors.processes == len(there) + hosts
    assert (study_actors.hosting() is not None) == hosts
    assert study_actors.cpus == sum(cpus.values())


def test_drivers_share_the_memory_of_their_node_with_its_actors(started):
    """A driver has the share of its own run alone, an actor those of all three runs."""
    study_actors = with_drivers(started, runs=3, a=4.0, b=2.0)
    given = {actor.node: actor.given[:2] for actor in started if actor.kind == "HostActor"}
    assert given == {"a": (1.0, 4), "b": (1.0, 2)}
    assert study_actors.hosting() == (1.0, 4 * 3)


def test_drivers_go_on_alone_where_all_other_nodes_have_gone(started):
    study_actors = with_drivers(started, a=1.0, b=2.0)
    assert of(study_actors) == [("Combiner", "b", 2)]
    assert list(study_actors.look(nodes(a=1.0))) == [
        "node at-b has gone with 2 client actors; 0 are left"
    ]
    assert (of(study_actors), study_actors.processes) == ([], 1)
    list(study_actors.look(nodes(a=1.0, c=3.0)))
    assert [actor.node for actor in started[3:]] == ["c"] * 4  # a combiner besides
