"""What cyclic participation is in the limits: uniform sampling, and no sampling at all."""

import pytest

import rayfed

pytestmark = pytest.mark.guard


@pytest.fixture
def losses(mixed, tmp_path):
    """Losses by round of twelve clients on fixed data, four of them a round."""

    def run(seed, availability, **local):
        made = mixed(seeds=[seed], rounds=9)
        made["problem"] |= {"test": 0, "dataset": {**made["problem"]["dataset"], "seed": 0}}
        made["clients"] = {"count": 12, "availability": availability}
        made["participation"] = {"cohort": 4}
        made["algorithms"] = [{"name": "fedavg", "weights": "uniform", "local": local}]
        out = tmp_path / f"{seed}-{availability['name']}-{availability.get('groups')}"
        return rayfed.run(made, out=out, page=False).rounds.loss.tolist()

    return run


SGD = {"steps": 5, "batch": 4, "lr": 0.1}
GD = {"steps": 1, "batch": "full", "lr": 0.1}


def test_one_group_is_uniform_sampling_to_the_last_bit(losses):
    one = losses(0, {"name": "cyclic", "groups": 1}, **SGD)
    assert one == losses(0, {"name": "always"}, **SGD)
    assert len(set(one)) == 10


def test_where_whole_groups_take_part_only_minibatches_are_random(losses):
    """Three groups of four: C = 1/Kbar."""
    turns = {"name": "cyclic", "groups": 3}
    assert losses(0, turns, **GD) == losses(1, turns, **GD)
    assert losses(2, turns, **SGD) != losses(3, turns, **SGD)


def test_a_part_of_a_group_is_drawn_at_random(losses):
    assert losses(0, {"name": "cyclic", "groups": 2}, **GD) != losses(
        1, {"name": "cyclic", "groups": 2}, **GD
    )
