"""What travels, one client after the other: codecs, clips, memories, rules and downloads.

Keyed draws, and who is in which bucket, are those of rayfed; all else is written from the papers.
"""

from __future__ import annotations

import numpy as np

from rayfed.channel import Draws
from rayfed.core.plugins import find
from rayfed.core.rng import Key
from tests.contract.references.world import SEED, SIZES, N


def top_k(v, share):
    """Return v on its largest coordinates."""
    out = np.zeros_like(v)
    at = np.argsort(-np.abs(v), kind="stable")[: max(1, round(share * v.size))]
    out[at] = v[at]
    return out


def sign(v):
    """Return the signs of v times their mean magnitude."""
    return np.abs(v).mean() * np.where(v < 0, -1.0, 1.0)


class PowerSGD:
    """A step of subspace iteration on each layer, from the Q of the last time."""

    def __init__(self, shapes):
        self.shapes, self.q = shapes, {}

    def __call__(self, v, key):
        if v.size != sum(rows * columns for rows, columns in self.shapes):
            return v  # no matrices
        out, start = [], 0
        for number, (rows, columns) in enumerate(self.shapes):
            M = v[start : start + rows * columns].reshape(rows, columns)
            first = Key(0, "power-sgd").normals(np.arange(columns), 1)
            P = np.linalg.qr(M @ self.q.get((*key, number), first))[0]
            self.q[*key, number] = M.T @ P
            out.append((P @ P.T @ M).ravel())
            start += rows * columns
        return np.concatenate(out)


def rand_k(v, draws, share, unbiased=True, shared=False):
    """Return v, or p/k times v, on k coordinates that are drawn."""
    k, out = max(1, round(share * v.size)), np.zeros_like(v)
    at = (draws.shared if shared else draws).choice(v.size, k)[0]
    out[at] = v[at] * (v.size / k if unbiased else 1.0)
    return out


def qsgd(v, draws, levels):
    """Return v with each coordinate rounded at random to a level, a share of its norm."""
    norm = np.sqrt(np.sum(v**2))
    if not norm:
        return v
    level = np.floor(levels * np.abs(v) / norm + draws.uniforms(v.size)[0])
    return norm * np.sign(v) * np.minimum(level, levels) / levels


def natural(v, draws):
    """Return v with each coordinate rounded at random to a power of two."""
    power = 2.0 ** np.floor(np.log2(np.where(v == 0, 1.0, np.abs(v))))
    chance = np.abs(v) / power - 1  # of the next power
    up = chance + (draws.words(v.size)[0] + 0.5) / 2.0**32 >= 1
    return np.where(v == 0, 0.0, np.sign(v) * power * np.where(up, 2.0, 1.0))


DRAWN = {"rand-k": rand_k, "qsgd": qsgd, "natural": natural}


class Coder:
    """A codec with a memory, for each client and name."""

    def __init__(self, codec, memory, direction, shapes):
        self.codec, self.memory, self.kept = codec, memory, {}
        self.key = Key(SEED, direction)
        self.power = PowerSGD(shapes)

    def coded(self, v, name, i, work):
        """Return what is decoded of a vector (p,); `work` is draw, Ask and round."""
        settings = dict(self.codec)
        kind = settings.pop("name")
        if kind == "power-sgd":
            return self.power(v, (name, i))
        if kind not in DRAWN:
            return {"top-k": top_k, "sign": sign}[kind](v, **settings)
        draw, ask, round = work
        draws = Draws(self.key.sub(name), np.array([i]), np.array([draw]), ask, round)
        return DRAWN[kind](v, draws, **settings)

    def sent(self, v, name, i, work, first):
        """Return what is added at the receiver's end, and keep what the memory keeps."""

        def C(u):  # noqa: N802 - as the papers have it
            return self.coded(u, name, i, work)

        kind = None if self.memory is None else self.memory["name"]
        kept = self.kept.get((name, i), np.zeros_like(v))
        if kind is None:
            return C(v)
        if kind == "error-feedback":
            c = C(kept + v)
            self.kept[name, i] = kept + v - c
        elif kind == "diana":
            c = C(v - kept)
            self.kept[name, i] = kept + self.memory["alpha"] * c
        else:
            moved = kept + C(v - kept)
            if kind == "ef21+" and np.sum((C(v) - v) ** 2) < np.sum((moved - v) ** 2):
                moved = C(v)
            moved = v if first and self.memory.get("start", "full") == "full" else moved
            c, self.kept[name, i] = moved - kept, moved
        return c


def clipped(vectors, norm):
    """Return vectors scaled down together to a norm."""
    length = np.sqrt(sum(np.sum(v**2) for v in vectors.values()))
    return {name: v * min(1.0, norm / length) if length else v for name, v in vectors.items()}


# -- rules -----------------------------------------------------------------------------------------


def median(V):
    """Return the median of each coordinate."""
    V = np.sort(V, axis=0)
    return (V[(len(V) - 1) // 2] + V[len(V) // 2]) / 2


def trimmed_mean(V, f):
    """Return the mean of each coordinate without its f smallest and largest numbers."""
    f = min(f, (len(V) - 1) // 2)
    return np.sort(V, axis=0)[f : len(V) - f].mean(axis=0)


def ranked(V, f):
    """Return the places by Krum's score, the least sum of squares to K - f - 1 others first."""
    near = len(V) - min(f, (len(V) - 1) // 2) - 1
    scores = [sum(sorted(np.sum((V - v) ** 2, axis=1))[1 : 1 + near]) for v in V]
    return np.argsort(scores, kind="stable")


def krum(V, f):
    """Return the vector with the best score."""
    return V[ranked(V, f)[0]]


def multi_krum(V, f):
    """Return the mean of the K - f vectors with the best scores."""
    return V[ranked(V, f)[: len(V) - min(f, (len(V) - 1) // 2)]].mean(axis=0)


def geometric_median(V, steps, smoothing):
    """Return what smoothed Weiszfeld steps from 0 find."""
    z = np.zeros(V.shape[1])
    for _ in range(steps):
        b = 1 / np.maximum(smoothing, np.sqrt(np.sum((V - z) ** 2, axis=1)))
        z = b @ V / b.sum()
    return z


def nearest_mixed(V, f):
    """Return the mean of the K - f vectors nearest to each."""
    kept = max(1, len(V) - f)
    order = [np.argsort(np.sum((V - v) ** 2, axis=1), kind="stable")[:kept] for v in V]
    return np.stack([V[at].mean(axis=0) for at in order])


class Rule:
    """A robust rule with what mixes vectors before it, and its memory."""

    def __init__(self, given):
        self.given, self.centre = dict(given), {}
        self.before = self.given.pop("before", None)
        self.name = self.given.pop("name")

    def __call__(self, V, who, work, asked, when):
        if self.before is not None and self.before["name"] == "buckets":
            buckets = find("mixers")["buckets"](size=self.before["size"])
            places = buckets.labels(np.array(asked), Key(SEED, "buckets").sub(when))
            labels = np.array([places[asked.index(i)] for i in who])
            V = np.stack([V[labels == label].mean(axis=0) for label in np.unique(labels)])
        elif self.before is not None:
            V = nearest_mixed(V, self.before["f"])
        if self.name == "centred-clipping":
            v = self.centre.get(work, np.zeros(V.shape[1]))
            for _ in range(self.given["steps"]):
                far = np.sqrt(np.sum((V - v) ** 2, axis=1, keepdims=True))
                v = v + (
                    (V - v) * np.minimum(1, self.given["radius"] / np.maximum(far, 1e-300))
                ).mean(axis=0)
            self.centre[work] = v
            return v
        rules = {
            "mean": lambda V: V.mean(axis=0), "median": median, "trimmed-mean": trimmed_mean,
            "krum": krum, "multi-krum": multi_krum, "geometric-median": geometric_median,
        }  # fmt: skip
        return rules[self.name](V, **self.given)


# -- both ends -------------------------------------------------------------------------------------


class Reply:
    """What the server has of a client.

    Parameters
    ----------
    client : int
    weight, discount : float
        What it counts for, and the factor of its age.
    got : mapping of str to array or float
        What the server decodes.
    sent : mapping of str to array
        What the client had decoded of the model.
    """

    def __init__(self, client, weight, discount, got, sent):
        self.client, self.weight, self.discount = client, weight, discount
        self.got, self.sent = got, sent


class Channel:
    """Both ends of what travels in one run.

    Parameters
    ----------
    coded : collection of str
        Names of uploaded vectors that codecs and clips may change.
    uplink, downlink : list of mapping
        Stages as a scenario has them.
    rule : mapping, optional
    by_size : bool
        Whether clients count by their size in the mean.
    shapes : sequence of (int, int)
        Of the layers of the model.
    divides_whole : bool
        Whether the mean divides by undiscounted weights, as that of a buffer does.
    """

    def __init__(self, coded, uplink, downlink, rule, by_size, shapes, divides_whole):
        self.names, self.divides_whole = coded, divides_whole
        split = [dict(stage) for stage in (*uplink, *downlink)]
        memories = [stage.pop("memory", None) for stage in split]
        given = list(zip(split, memories, strict=True))
        ups, downs = given[: len(uplink)], given[len(uplink) :]
        self.clip = next((s["norm"] for s, _ in ups if s["name"] == "clip"), None)
        codecs = [(s, m) for s, m in ups if s["name"] not in ("clip", "secure-sum")]
        self.up_coder = Coder(*codecs[0], "uplink", shapes) if codecs else None
        self.memory = codecs[0][1] if codecs else None
        self.down_coder = Coder(*downs[0], "downlink", shapes) if downs else None
        self.rule = None if rule is None else Rule(rule)
        mass = SIZES if by_size else np.ones(N)
        self.shares, self.at_server = mass / mass.sum(), {}

    def down(self, sent, round, ask):
        """Return what clients decode of what the server sends."""
        if self.down_coder is None:
            return sent
        out = dict(sent)
        for name, values in sent.items():
            if np.size(values) > 1 and np.asarray(values).dtype.kind == "f":
                flat, coder = np.ravel(values), self.down_coder
                first = (name, 0) not in coder.kept
                v = coder.sent(flat, name, 0, (round, ask, round), first)
                out[name] = (coder.kept[name, 0] if coder.memory else v).reshape(values.shape)
        return out

    def up(self, upload, i, work, first):
        """Return what the server decodes of an upload; `work` is draw, Ask and round of draws."""
        got = dict(upload)
        vectors = [n for n in upload if n in self.names and np.size(upload[n]) > 1]
        if self.up_coder is not None:
            got |= {n: self.up_coder.sent(upload[n], n, i, work, first) for n in vectors}
        if self.clip is not None and vectors:
            got |= clipped({n: got[n] for n in vectors}, self.clip)
        return got

    def mean(self, replies, work, asked, round, ask):
        """Return what the algorithm gets as the mean of each upload.

        Parameters
        ----------
        replies : list of Reply
        work : str
            Name of the client function.
        asked : list of int
            Who was asked, ascending.
        round, ask : int
        """
        whole = np.array([r.weight for r in replies])
        w = np.array([r.weight * r.discount for r in replies])
        total = whole.sum() if self.divides_whole else w.sum()
        names = replies[0].got
        mean = {
            n: sum(a * r.got[n] for a, r in zip(w, replies, strict=True)) / total for n in names
        }
        vectors = [n for n in names if np.size(names[n]) > 1]
        kind = None if self.memory is None else self.memory["name"]
        for n in vectors if kind in ("ef21", "ef21+", "diana") else ():
            moved = sum(self.shares[r.client] * r.got[n] for r in replies)
            had = self.at_server.get(n, 0.0)
            step = self.memory["alpha"] if kind == "diana" else 1.0
            self.at_server[n] = had + step * moved
            mean[n] = had + mean[n] if kind == "diana" else self.at_server[n]
        if self.rule is not None and vectors:
            factors = w * len(w) / total
            V = np.stack([np.concatenate([r.got[n] for n in vectors]) for r in replies])
            who = [r.client for r in replies]
            flat = self.rule(factors[:, None] * V, who, work, asked, f"{round}/{ask}")
            ends = np.cumsum([np.size(names[n]) for n in vectors])[:-1]
            mean |= dict(zip(vectors, np.split(flat, ends), strict=True))
        return mean
