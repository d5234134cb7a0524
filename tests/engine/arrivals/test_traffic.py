"""The bytes of asynchronous runs against counts by hand: what was asked for, and what came."""

import pytest

import rayfed

NUMBER = 8
"""Bytes of a model of one number, down as up."""


def study(tmp_path, seconds, algorithm, features=1, **changes):
    """Return clients with one row each, whose task takes these seconds."""
    names = [f"a{k}" for k in range(features)]
    rows = [f"{i},{','.join(['1'] * features)},{i}\n" for i in range(len(seconds))]
    text = f"client,{','.join(names)},y\n" + "".join(rows)
    (tmp_path / "rows.csv").write_text(text)
    delays = [
        {"ids": [i], "delay": {"name": "constant", "mean_s": s}} for i, s in enumerate(seconds)
    ]
    made = {
        "name": "traffic",
        "problem": {
            "name": "least-squares", "dataset": str(tmp_path / "rows.csv"), "intercept": False,
        },
        "clients": {"groups": delays},
        "algorithms": [{"local": {"steps": 1, "batch": "full", "lr": 1e-3}, **algorithm}],
        "executor": "serial",
    }  # fmt: skip
    for key, value in changes.items():
        made[key] = made[key] | value if key == "clients" else value
    return made


def counted(scenario, out):
    """Return the numbers of downloads and uploads of each row, and the bytes in vain."""
    result = rayfed.run(scenario, out=out, page=False)
    assert set(result.outcome.values()) == {"finished"}
    rows = result.rounds
    down, up = (rows[name].to_numpy() // NUMBER for name in ("bytes_down", "bytes_up"))
    assert (NUMBER * down == rows.bytes_down).all()
    assert down.sum() == len(result.events)  # every task has downloaded, whatever became of it
    return down.tolist(), up.tolist(), (rows.bytes_wasted // NUMBER).tolist()


def test_forty_works_download_before_ten_of_them_make_an_update(tmp_path):
    """All take a second: the first ten make the update, and thirty have downloaded as well."""
    algorithm = {"name": "fedbuff", "buffer": 10, "concurrency": 40}
    made = study(tmp_path, [1.0] * 40, algorithm, features=10, rounds=1)
    row = rayfed.run(made, out=tmp_path / "out", page=False).rounds.iloc[-1]
    assert (row.participants, row.bytes_down, row.bytes_up) == (10, 3200, 800)


def test_works_of_unequal_clients_count_where_they_begin(tmp_path):
    """Replies come at 1, 2, 2.5, 3, and 4 s, twice; who replies begins anew, but for the last."""
    made = study(tmp_path, [1.0, 2.5, 4.0], {"name": "fedasync"}, rounds=6)
    down, up, vain = counted(made, tmp_path / "out")
    assert down == [0, 3, 1, 1, 1, 1, 0]
    assert up == [0, 1, 1, 1, 1, 1, 1]
    assert vain == [0] * 7


def test_a_reply_that_waits_has_been_uploaded(tmp_path):
    """Buffers of two are full at 2 and 3 s: client 0 replies each second, client 1 at 2.5 s."""
    made = study(tmp_path, [1.0, 2.5], {"name": "fedbuff", "buffer": 2}, rounds=2)
    assert counted(made, tmp_path / "out") == ([0, 3, 2], [0, 2, 2], [0, 0, 0])


def test_replies_of_other_lanes_wait_and_have_been_uploaded(tmp_path):
    """Tiers of two. The fast one is done at 1.5 and 3 s; client 2 has replied at 2.9 s."""
    made = study(tmp_path, [1.0, 1.5, 2.9, 4.0], {"name": "fedat", "tiers": 2}, rounds=2)
    assert counted(made, tmp_path / "two") == ([0, 4, 2], [0, 2, 3], [0, 0, 0])
    made["rounds"] = 3  # the slow one is done at 4 s; client 0 began at 3 s and replies then
    assert counted(made, tmp_path / "three") == ([0, 4, 2, 2], [0, 2, 3, 2], [0, 0, 0, 0])


def trace(tmp_path, *intervals):
    path = tmp_path / "there.csv"
    path.write_text("client,start_s,end_s\n" + "".join(f"{i},{a},{b}\n" for i, a, b in intervals))
    return {"name": "trace", "file": str(path)}


@pytest.mark.parametrize("server", [None, {"downloads_mbps": 1000}])
def test_who_goes_away_in_the_middle_of_a_download_was_sent_it(tmp_path, server):
    """Downloads take 2 s. Client 0 leaves at 1 s for good; client 1 replies at 3 and 6 s."""
    there = trace(tmp_path, (0, 0, 1), (1, 0, 100))
    clients = {"network": {"down_mbps": 8e-6 * NUMBER / 2}, "availability": there}
    made = study(tmp_path, [1.0, 1.0], {"name": "fedasync"}, rounds=2, clients=clients)
    if server:
        made["server"] = server
    assert counted(made, tmp_path / "out") == ([0, 2, 1], [0, 1, 1], [0, 1, 0])


def test_work_that_is_timed_out_counts_as_late_replies_do_in_rounds(tmp_path):
    """Client 1 takes 4 s and is given up at 2.5 s, both ways in vain; then it is asked again."""
    made = study(tmp_path, [1.0, 4.0], {"name": "fedasync"}, rounds=3)
    made["participation"] = {"timeout_s": 2.5}
    assert counted(made, tmp_path / "out") == ([0, 2, 1, 2], [0, 1, 1, 2], [0, 0, 0, 2])
    made["algorithms"][0]["name"] = "fedavg"
    assert counted(made, tmp_path / "rounds") == ([0, 2, 2, 2], [0, 2, 2, 2], [0, 2, 2, 2])


def test_downloads_that_share_the_link_of_the_server_count_as_others(tmp_path):
    """Two downloads share a link that carries one in 2 s: they take 4 s, and work 1 and 2 s."""
    made = study(tmp_path, [1.0, 2.0], {"name": "fedasync"}, rounds=2)
    made["server"] = {"downloads_mbps": 8e-6 * NUMBER / 2}
    result = rayfed.run(made, out=tmp_path / "times", page=False)
    assert result.rounds.time_s.tolist() == [0, 5, 6]
    assert counted(made, tmp_path / "out") == ([0, 2, 1], [0, 1, 1], [0, 0, 0])


def test_a_row_without_an_update_has_the_bytes_of_its_works(tmp_path):
    """Both leave at 1 s for good, in the middle of their work: nobody is left."""
    there = trace(tmp_path, (0, 0, 1), (1, 0, 1))
    made = study(
        tmp_path, [3.0, 3.0], {"name": "fedasync"}, rounds=2, clients={"availability": there}
    )
    assert counted(made, tmp_path / "out") == ([0, 2], [0, 0], [0, 2])
