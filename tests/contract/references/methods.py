"""Each method as its paper has it, one client after the other, in a few lines.

A client is a generator: it yields its upload and is told what the server decodes of it, which is
what it remembers wherever the server remembers the sum. A server steps along means, or, where the
paper adds up over clients, goes through the replies.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rayfed.channel import Draws, RandK
from rayfed.core.rng import Key
from tests.contract.references.world import RATE, SEED, SIZES, Line, N, Net


class Method:
    """FedAvg: x <- x - server_lr mean (x - x_i) (McMahan et al. 2017).

    Attributes
    ----------
    settings : mapping
        Of the scenario.
    coded : collection of str
        The vectors that codecs and clips may change.
    by_size : bool
        Whether clients count by their size unless told otherwise.
    """

    settings: ClassVar[dict[str, object]] = {}
    coded: tuple[str, ...] = ("delta",)
    world = Line
    by_size = True

    def __init_subclass__(cls, **settings):
        cls.settings = {**cls.settings, **settings}

    def __init__(self, world, by_size, drawn=False):
        self.world, self.x, self.drawn = world, world.start.copy(), drawn
        mass = SIZES if by_size else np.ones(N)
        self.r = mass / mass.mean()  # what clients weigh, in units of the mean client
        self.state = {}
        self.first()

    def __getattr__(self, name):
        """Return a setting of the scenario."""
        if name in self.settings:
            return self.settings[name]
        raise AttributeError(name)

    def first(self):
        """Make what server and clients keep."""

    def rows(self, v):
        """Return a row of its own for each client."""
        return np.tile(v, (N, 1))

    def sends(self):
        return {"x": self.x}

    def gradient(self, i, x, anchor):
        return self.world.gradient(i, x)

    def local(self, i, x, steps):
        return self.world.local(i, x, steps, lambda y: self.gradient(i, y, x))

    def train(self, i, steps, x):
        yield {"delta": x - self.local(i, x, steps)}

    def step(self, mean, replies):
        self.x = self.x - self.settings.get("server_lr", 1.0) * mean["delta"]

    def round(self, t):
        """Yield a client function and what is sent; receive the means and the replies."""
        mean, replies = yield "train", self.sends()
        self.step(mean, replies)

    def scored(self):
        """Return the models that are scored in the end, a row for each client."""
        return self.rows(self.x)


class FedAvg(Method, name="fedavg", server_lr=0.8):
    """The base as it is."""


class FedProx(Method, name="fedprox", local={"mu": 0.5}):
    def gradient(self, i, x, anchor):
        return self.world.gradient(i, x) + 0.5 * (x - anchor)


class FedAvgM(Method, name="fedavgm", server_momentum=0.6):
    def first(self):
        self.m = 0.0

    def step(self, mean, replies):
        self.m = self.server_momentum * self.m + mean["delta"]
        self.x = self.x - self.m


class FedAdagrad(Method, name="fedadagrad", server_lr=0.3, tau=0.5):
    def first(self):
        self.m, self.v = 0.0, 0.25

    def moments(self, D):
        self.m, self.v = D, self.v + D**2

    def step(self, mean, replies):
        self.moments(mean["delta"])
        self.x = self.x - self.server_lr * self.m / (np.sqrt(self.v) + self.tau)


class FedAdam(FedAdagrad, name="fedadam", server_lr=0.3, tau=0.5, beta1=0.8, beta2=0.9):
    def moments(self, D):
        self.m = self.beta1 * self.m + (1 - self.beta1) * D
        self.v = self.second(D**2)

    def second(self, square):
        return self.beta2 * self.v + (1 - self.beta2) * square


class FedYogi(FedAdam, name="fedyogi"):
    def second(self, square):
        return self.v - (1 - self.beta2) * square * np.sign(self.v - square)


class FedExP(Method, name="fedexp", epsilon=0.01, server_momentum=0.3):
    """eta = max(1, mean ||Delta_i||^2 / (2 (||mean Delta_i||^2 + epsilon)))."""

    def first(self):
        self.m = 0.0

    def step(self, mean, replies):
        w = [r.weight * r.discount for r in replies]
        lengths = [np.sum(r.got["delta"] ** 2) for r in replies]
        D = mean["delta"]
        eta = np.average(lengths, weights=w) / (2 * (np.sum(D**2) + self.epsilon))
        self.m = self.server_momentum * self.m + D
        self.x = self.x - max(1.0, eta) * self.m


class Controlled:
    """Control variates: c_i+ = c_i - c + (x - x_i) / (K_i lr_i), c the mean of the c_i."""

    def first(self):
        super().first()
        self.c, self.c_i = np.zeros_like(self.x), self.rows(np.zeros_like(self.x))

    def sends(self):
        return {"x": self.x, "c": self.c}

    def corrected(self, i, steps, x, c):
        end = self.world.local(i, x, steps, correction=c - self.c_i[i])
        new = self.c_i[i] - c + (x - end) / (steps * self.world.rate(i))
        return x - end, self.r[i] * (new - self.c_i[i])

    def train(self, i, steps, x, c):
        delta, change = self.corrected(i, steps, x, c)
        got = yield {**self.upload(i, steps, delta), "control": change}
        self.c_i[i] = self.c_i[i] + got["control"] / self.r[i]

    def upload(self, i, steps, delta):
        return {"delta": delta}

    def step(self, mean, replies):
        super().step(mean, replies)
        self.c = self.c + sum(r.got["control"] for r in replies) / N


class FedExPControlled(Controlled, FedExP, variance_reduction=True):
    coded = ("delta", "control")


class Scaffold(Controlled, Method, name="scaffold", server_lr=0.9):
    coded = ("delta", "control")


class ScaffoldGradient(Scaffold, option=1):
    """c_i+ is the gradient of F_i at x."""

    def corrected(self, i, steps, x, c):
        end = self.world.local(i, x, steps, correction=c - self.c_i[i])
        return x - end, self.r[i] * (self.world.gradient(i, x) - self.c_i[i])


class FedNova(Method, name="fednova", server_momentum=0.3):
    """x <- x - tau_eff mean (Delta_i / norm_i), with norm_i = K_i lr_i / lr."""

    coded = ("direction",)

    def first(self):
        self.m = 0.0

    def upload(self, i, steps, delta):
        norm = steps * self.world.rate(i) / (RATE * self.world.scale)
        return {"direction": delta / norm, "norm": norm}

    def train(self, i, steps, x):
        yield self.upload(i, steps, x - self.local(i, x, steps))

    def step(self, mean, replies):
        self.m = self.server_momentum * self.m + mean["norm"] * mean["direction"]
        self.x = self.x - self.m


class FedNovaControlled(Controlled, FedNova, variance_reduction=True):
    coded = ("direction", "control")
    upload = FedNova.upload


class FedDyn(Method, name="feddyn", alpha=0.5):
    """F_i(y) - <h_i, y> + alpha/2 ||y - x||^2; h_i <- h_i + alpha Delta_i, h is their mean.

    Where clients are drawn by size they send r_i Delta_i for h as well.
    """

    coded = ("delta", "moved")

    def first(self):
        self.h, self.h_i = np.zeros_like(self.x), self.rows(np.zeros_like(self.x))

    def gradient(self, i, x, anchor):
        return self.world.gradient(i, x) - self.h_i[i] + self.alpha * (x - anchor)

    def train(self, i, steps, x):
        delta = x - self.local(i, x, steps)
        got = yield {"delta": delta, **({"moved": self.r[i] * delta} if self.drawn else {})}
        moved = got["moved"] / self.r[i] if self.drawn else got["delta"]
        self.h_i[i] = self.h_i[i] + self.alpha * moved

    def step(self, mean, replies):
        self.h = self.r @ self.h_i / N
        self.x = self.x - mean["delta"] - self.h / self.alpha


class FedVARP(Method, name="fedvarp", server_lr=0.7):
    """v = sum w_i (Delta_i - y_i) / sum w_i + ybar, and only then y_i <- Delta_i.

    Clients send w_i (Delta_i - y_i). Where they are drawn by size the first mean is plain, and they
    send Delta_i - y_i for it as well.
    """

    coded = ("change", "direction")

    def first(self):
        self.y, self.after = self.rows(np.zeros_like(self.x)), {}

    def train(self, i, steps, x):
        new = x - self.local(i, x, steps) - self.y[i]
        got = yield {"change": self.r[i] * new, **({"direction": new} if self.drawn else {})}
        self.after[i] = self.y[i] + got["change"] / self.r[i]

    def step(self, mean, replies):
        if self.drawn:
            new = mean["direction"]
        else:
            new = sum(r.got["change"] for r in replies) / sum(self.r[r.client] for r in replies)
        self.x = self.x - self.server_lr * (new + self.r @ self.y / N)
        for i, y in self.after.items():
            self.y[i] = y
        self.after = {}


class ClusterFedVARP(Method, name="clusterfedvarp", clusters=[0, 0, 1, 1, 1]):
    """v = mean (Delta_i - y_c(i)) + sum_j w_j y_c(j); y_k is the mean Delta_i of its clients."""

    def first(self):
        self.y, self.c = np.zeros((2, self.x.size)), np.array(self.clusters)

    def step(self, mean, replies):
        w = {r.client: r.weight for r in replies}
        left = self.r @ self.y[self.c] / N
        left = left - sum(w[i] * self.y[self.c[i]] for i in w) / sum(w.values())
        self.x = self.x - mean["delta"] - left
        for k in {self.c[i] for i in w}:
            mine = [r for r in replies if self.c[r.client] == k]
            self.y[k] = sum(r.weight * r.got["delta"] for r in mine) / sum(r.weight for r in mine)


class MIFA(Method, name="mifa", server_lr=0.7):
    """x <- x - server_lr lr sum_j w_j G_j, G_j the last Delta_j / lr of each client."""

    coded = ("change",)

    def first(self):
        self.G = self.rows(np.zeros_like(self.x))

    def train(self, i, steps, x):
        G = (x - self.local(i, x, steps)) / self.world.scale
        got = yield {"change": self.r[i] * (G - self.G[i])}
        self.G[i] = self.G[i] + got["change"] / self.r[i]

    def step(self, mean, replies):
        self.x = self.x - self.server_lr * self.world.scale * self.r @ self.G / N


# -- personal models -------------------------------------------------------------------------------


class APFL(Method, name="apfl", alpha=0.4):
    def first(self):
        self.v, self.a = self.rows(self.x), np.full(N, self.alpha)

    def train(self, i, steps, x):
        w, lr = x, self.world.rate(i)
        for _ in range(steps):
            v, a = self.v[i].copy(), self.a[i]
            g = self.world.gradient(i, a * v + (1 - a) * w)
            self.v[i] = v - lr * a * g
            self.a[i] = np.clip(a - lr * (v - w) @ g, 0, 1)
            w = w - lr * self.world.gradient(i, w)
        yield {"delta": x - w}

    def scored(self):
        return self.a[:, None] * self.v + (1 - self.a[:, None]) * self.x


class Ditto(Method, name="ditto", lam=0.7):
    def first(self):
        self.v = self.rows(self.x)

    def train(self, i, steps, x):
        def pulled(v):
            return self.world.gradient(i, v) + self.lam * (v - x)

        self.v[i] = self.world.local(i, self.v[i], steps, pulled)
        yield {"delta": x - self.local(i, x, steps)}

    def scored(self):
        return self.v


class PFedMe(Method, name="pfedme", lam=2.0, inner_steps=3, inner_lr=0.1, server_lr=0.9):
    def theta(self, i, w):
        theta = w
        for _ in range(self.inner_steps):
            g = self.world.gradient(i, theta) + self.lam * (theta - w)
            theta = theta - self.inner_lr * g
        return theta

    def gradient(self, i, x, anchor):
        return self.lam * (x - self.theta(i, x))

    def scored(self):
        return np.stack([self.theta(i, self.x) for i in range(N)])


class PerFedAvg(Method, name="per-fedavg", alpha=0.1, variant="first-order"):
    def ahead(self, i, x):
        return x - self.alpha * self.world.gradient(i, x)

    def gradient(self, i, x, anchor):
        return self.world.gradient(i, self.ahead(i, x))

    def scored(self):
        return np.stack([self.ahead(i, self.x) for i in range(N)])


class PerFedAvgExact(PerFedAvg, variant="exact"):
    def gradient(self, i, x, anchor):
        g = self.world.gradient(i, self.ahead(i, x))
        return g - self.alpha * self.world.hessian(i) @ g


class FineTuned(Method, name="fedavg-finetuned", tune={"steps": 2, "batch": "full", "lr": 0.05}):
    def scored(self):
        out = []
        for i in range(N):
            x = self.x
            for _ in range(2):
                x = x - 0.05 * self.world.gradient(i, x)
            out.append(x)
        return np.stack(out)


class LocalOnly(Method, name="local-only"):
    coded = ()

    def first(self):
        self.models = self.rows(self.x)

    def sends(self):
        return {}

    def train(self, i, steps):
        self.models[i] = self.local(i, self.models[i], steps)
        yield {}

    def step(self, mean, replies):
        """Do nothing."""

    def scored(self):
        return self.models


class MaxFL(Method, name="maxfl", server_lr=0.9, alone=5):
    """x <- x - server_lr sum q_i Delta_i / sum q_i, q_i = s'(F_i(x) - rho_i)."""

    coded = ("pull",)
    by_size = False

    def first(self):
        alone = [self.local(i, self.x, 5) for i in range(N)]
        self.rho = [self.world.value(i, x) for i, x in enumerate(alone)]

    def train(self, i, steps, x):
        small = np.exp(-abs(self.world.value(i, x) - self.rho[i]))
        q = small / (1 + small) ** 2
        yield {"pull": q * (x - self.local(i, x, steps)), "q": q}

    def step(self, mean, replies):
        if mean["q"] > 0:
            self.x = self.x - self.server_lr * mean["pull"] / mean["q"]


class FedPer(Method, name="fedper", server_lr=0.8):
    """The output layer stays with the clients."""

    world = Net

    def first(self):
        self.own = self.rows(self.x[12:])

    def sends(self):
        return {"base": self.x[:12]}

    def train(self, i, steps, base):
        end = self.world.local(i, np.append(base, self.own[i]), steps)
        self.own[i] = end[12:]
        yield {"delta": base - end[:12]}

    def step(self, mean, replies):
        self.x = np.append(self.x[:12] - self.server_lr * mean["delta"], self.x[12:])

    def scored(self):
        return np.stack([np.append(self.x[:12], own) for own in self.own])


class FedRep(FedPer, name="fedrep", head={"steps": 2, "batch": "full", "lr": 0.2}):
    def train(self, i, steps, base):
        for _ in range(2):
            g = self.world.gradient(i, np.append(base, self.own[i]))
            self.own[i] = self.own[i] - 0.2 * g[12:]
        own = self.own[i]
        end = self.world.local(
            i, base, steps, lambda b: self.world.gradient(i, np.append(b, own))[:12]
        )
        yield {"delta": base - end}


class Moon(Method, name="moon", mu=0.8, temperature=0.7):
    """Plus mu log(1 + exp((sim(z, z_prev) - sim(z, z_glob)) / tau)) a row."""

    world = Net

    def first(self):
        self.previous = self.rows(self.x)

    def gradient(self, i, x, anchor):
        def of_hidden(X, z):
            near, towards = cosine(z, self.world.hidden(X, anchor))
            far, away = cosine(z, self.world.hidden(X, self.previous[i]))
            chance = 1 / (1 + np.exp((near - far) / self.temperature))
            return (self.mu / self.temperature / len(X)) * chance * (away - towards)

        return self.world.gradient(i, x, of_hidden)

    def train(self, i, steps, x):
        end = self.local(i, x, steps)
        self.previous[i] = end
        yield {"delta": x - end}


def cosine(z, c):
    """Return the cosines (B, 1) of rows, and their derivatives in z; 0 where either is 0."""
    of_z, of_c = (np.linalg.norm(v, axis=1, keepdims=True) for v in (z, c))
    of_z, of_c = (np.where(length > 0, length, np.inf) for length in (of_z, of_c))
    similarity = np.sum(z * c, axis=1, keepdims=True) / (of_z * of_c)
    return similarity, c / (of_z * of_c) - similarity * z / of_z**2


# -- clusters, derivatives -------------------------------------------------------------------------


class GradientDescent(Method, name="gradient-descent", lr=0.2):
    coded = ("gradient",)

    def train(self, i, steps, x):
        yield {"gradient": self.world.gradient(i, x)}

    def step(self, mean, replies):
        self.x = self.x - self.lr * mean["gradient"]


class GIANT(Method, name="giant", ridge=0.3):
    """Mean local Newton directions for the gradient, and the first step that decreases enough."""

    coded = ("gradient", "direction")

    def first(self):
        self.at = self.rows(self.x)

    def train(self, i, steps, x):
        self.at[i] = x
        yield {"gradient": self.world.gradient(i, x)}

    def direction(self, i, steps, g):
        H = self.world.hessian(i) + self.ridge * np.eye(g.size)
        yield {"direction": np.linalg.solve(H, g)}

    def values(self, i, steps, v):
        yield {"values": np.array([self.world.value(i, self.at[i] - t * v) for t in self.trials])}

    trials = (0.0, *(1 / 4**j for j in range(10)))

    def round(self, t):
        mean, _ = yield "train", {"x": self.x}
        g = mean["gradient"]
        mean, _ = yield "direction", {"g": g}
        v = mean["direction"]
        mean, _ = yield "values", {"v": v}
        now, *after = mean["values"]
        for step, value in zip(self.trials[1:], after, strict=True):
            if value <= now - 0.1 * step * (g @ v):
                self.x = self.x - step * v
                break


class FedHybrid(
    Method,
    name="fedhybrid",
    newton=[1, 3],
    mu=1.0,
    alpha_gradient=0.2,
    beta_gradient=0.3,
    alpha_newton=0.5,
    beta_newton=0.4,
):
    """Primal-dual steps; x_0 is the mean of x_i - lambda_i / mu over all clients."""

    coded = ()

    def first(self):
        self.x_i, self.dual = self.rows(self.x), self.rows(np.zeros_like(self.x))
        self.x_0 = self.x

    def train(self, i, steps, x):
        old, f = self.x_i[i].copy(), SIZES[i] / SIZES.mean()
        r = f * self.world.gradient(i, old) - self.dual[i] + self.mu * (old - x)
        if i in self.newton:
            M = f * self.world.hessian(i) + self.mu * np.eye(x.size)
            self.x_i[i] = old - self.alpha_newton * np.linalg.solve(M, r)
            self.dual[i] = self.dual[i] + self.beta_newton * M @ (x - old)
        else:
            self.x_i[i] = old - self.alpha_gradient * r
            self.dual[i] = self.dual[i] + self.beta_gradient * (x - old)
        yield {}

    def step(self, mean, replies):
        self.x = (self.x_i - self.dual / self.mu).mean(axis=0)


class Walkman(Method, name="rwsadmm", beta=20.0):
    """RWSADMM with epsilon 0 (Mao et al. 2020)."""

    coded = ()

    def first(self):
        self.x_j, self.z = self.rows(self.x), self.rows(np.zeros_like(self.x))

    def sends(self):
        return {"y": self.x}

    def train(self, i, steps, y):
        for _ in range(steps):
            g = self.world.gradient(i, self.x_j[i])
            self.x_j[i] = y + (self.z[i] - g) / self.beta
            self.z[i] = self.z[i] + self.beta * (y - self.x_j[i])
        yield {}

    def step(self, mean, replies):
        self.x = (self.x_j - self.z / self.beta).mean(axis=0)

    def scored(self):
        return self.x_j


class FedDrift(Method, name="feddrift", delta=0.6, most=4):
    """Clusters that open when the least loss of a client rises, and merge when they are near."""

    coded = ("delta",)

    def first(self):
        self.models, self.before, self.choice = [self.x], np.full(N, np.inf), np.zeros(N, int)
        self.start = self.x

    def choose(self, i, steps, models):
        losses = np.array([self.world.value(i, m) for m in models])
        drifted = losses.min() > self.before[i] + self.delta
        self.before[i], self.choice[i] = losses.min(), losses.argmin()
        yield {"losses": losses, "drifted": drifted}

    def train(self, i, steps, models, of):
        yield {"delta": models[of[i]] - self.local(i, models[of[i]], steps)}

    def round(self, t):
        _, replies = yield "choose", {"models": np.stack(self.models)}
        models, place = self.merged([r for r in replies if not r.got["drifted"]])
        of = dict(enumerate(place[self.choice]))
        for r in replies:
            if r.got["drifted"] and len(models) < self.most:
                of[r.client] = len(models)
                models.append(self.start)
        _, replies = yield "train", {"models": np.stack(models), "of": of}
        weight = np.zeros(len(models))
        for m in sorted({of[r.client] for r in replies}):
            mine = [r for r in replies if of[r.client] == m]
            weight[m] = sum(r.weight for r in mine)
            models[m] = models[m] - sum(r.weight * r.got["delta"] for r in mine) / weight[m]
        self.models, self.x = models, models[weight.argmax()]

    def merged(self, replies):
        """Merge clusters whose clients lose less than delta more with each other's models.

        Returns
        -------
        models : list of (p,) array
        place : (M,) array of int
            Where each of the models is among these.
        """
        models, place = list(self.models), np.arange(len(self.models))
        who = sorted({self.choice[r.client] for r in replies})
        mine = {c: [r for r in replies if self.choice[r.client] == c] for c in who}
        w = {c: sum(r.weight for r in mine[c]) for c in who}
        L = {c: sum(r.weight * r.got["losses"] for r in mine[c]) / w[c] for c in who}
        apart = {
            (a, b): max(L[b][a] - L[b][b], L[a][b] - L[a][a], 0.0)
            for a in who for b in who if a < b
        }  # fmt: skip
        while apart and min(apart.values()) < self.delta:
            a, b = min(apart, key=lambda pair: (apart[pair], pair))
            share = w[b] / (w[a] + w[b])
            models[a] = (1 - share) * models[a] + share * models[b]
            w[a] += w[b]
            for c in who:
                if c not in (a, b):
                    one, other = tuple(sorted((a, c))), tuple(sorted((b, c)))
                    apart[one] = max(apart[one], apart[other])
            apart = {pair: far for pair, far in apart.items() if b not in pair}
            who.remove(b)
            place[place == b] = a
        left = np.unique(place)
        return [models[m] for m in left], np.searchsorted(left, place)

    def scored(self):
        losses = [[self.world.value(i, m) for m in self.models] for i in range(N)]
        return np.stack([self.models[np.argmin(row)] for row in losses])


# -- methods without rounds ------------------------------------------------------------------------


class HierFAVG(Method, name="hierfavg", edges=[1, 0, 0, 1, 0], edge_rounds=3):
    """Edge means after every Ask; their mean, by what each has used, after three."""

    def train(self, i, steps, x):
        mine = x[self.edges[i]]
        yield {"delta": mine - self.local(i, mine, steps)}

    def round(self, t):
        models, mass = np.stack([self.x, self.x]), np.zeros(2)
        for _ in range(self.edge_rounds):
            _, replies = yield "train", {"x": models.copy()}
            for edge in (0, 1):
                own = [r for r in replies if self.edges[r.client] == edge]
                total = sum(r.weight for r in own)
                for r in own:
                    models[edge] -= r.weight / total * r.got["delta"]
                mass[edge] += total
        self.x = np.average(models, axis=0, weights=mass)


class Asynchronous(Method):
    by_size = False

    def discount(self, staleness):
        return (1 + staleness) ** -0.5


class FedBuff(Asynchronous, name="fedbuff", buffer=3, concurrency=4, server_lr=0.8):
    """The mean of a buffer, discounted by age."""


class FedAsync(Asynchronous, name="fedasync", concurrency=3):
    """x <- (1 - a) x + a x_i; the client sends x_v - x_i, and the server knows x_v."""

    def step(self, mean, replies):
        (r,) = replies
        a = 0.6 * r.discount
        self.x = (1 - a) * self.x + a * (r.sent["x"] - r.got["delta"])


class AsyncSGD(Asynchronous, name="async-sgd", concurrency=3, smoothness=2.0):
    def discount(self, staleness):
        return 1.0 if staleness <= 3 else min(1.0, 1 / (4 * 2.0 * RATE * staleness))


class CA2FL(Asynchronous, name="ca2fl", buffer=2, concurrency=3, server_lr=0.5):
    coded = ("change",)

    def first(self):
        self.h, self.h_i = np.zeros_like(self.x), self.rows(np.zeros_like(self.x))

    def discount(self, staleness):
        return 1.0

    def train(self, i, steps, x):
        got = yield {"change": x - self.local(i, x, steps) - self.h_i[i]}
        self.h_i[i] = self.h_i[i] + got["change"]

    def step(self, mean, replies):
        self.x = self.x - self.server_lr * (self.h + mean["change"])
        self.h = self.h_i.mean(axis=0)


class FedAT(Asynchronous, name="fedat", tiers=[0, 0, 1, 1, 1], concurrency=5):
    def first(self):
        self.w, self.T = [self.x, self.x], np.zeros(2)

    def discount(self, staleness):
        return 1.0

    def step(self, mean, replies):
        m = self.tiers[replies[0].client]
        self.w[m] = replies[0].sent["x"] - mean["delta"]
        self.T[m] += 1
        self.x = (self.T[1] * self.w[0] + self.T[0] * self.w[1]) / self.T.sum()


# -- methods that ask everybody --------------------------------------------------------------------


class OverlapSGD(Method, name="overlap-sgd", alpha=0.5, beta=0.3):
    """x_i pulled to the anchor z; v <- beta v + mean x_i - z, z <- z + v."""

    coded = ("moved",)

    def first(self):
        self.x_i, self.v = self.rows(self.x), np.zeros_like(self.x)

    def train(self, i, steps, x):
        end = self.local(i, self.x_i[i], steps)
        self.x_i[i] = end - self.alpha * (end - x)
        yield {"moved": self.x_i[i] - x}

    def step(self, mean, replies):
        self.v = self.beta * self.v + replies[0].sent["x"] + mean["moved"] - self.x
        self.x = self.x + self.v


class Everyone(Method):
    coded = ()

    def compressed(self, v, i, t, purpose):
        """Return Q(v), drawn by rayfed's codec."""
        draws = Draws(Key(SEED, purpose), np.array([i]), np.array([t]), 0, t)
        return RandK(k=2).coded(v[None], draws)[0]


class Marina(Everyone, name="marina", codec={"name": "rand-k", "share": 0.5}, lr=0.1, p=0.3):
    def first(self):
        self.g, self.g_i = 0.0, self.rows(self.x)

    def train(self, i, steps, x, whole, t):
        g = self.world.gradient(i, x)
        change = g if whole else self.compressed(g - self.g_i[i], i, t, "marina")
        self.g_i[i] = g
        yield {"change": change}

    def round(self, t):
        coin = Key(SEED, "marina/coin").uniforms([0], round=t - 1)[0] < self.p
        whole = t == 1 or coin
        mean, _ = yield "train", {"x": self.x, "whole": whole, "t": t}
        self.g = mean["change"] + (0 if whole else self.g)
        self.x = self.x - self.lr * self.g


class Dasha(Everyone, name="dasha", codec={"name": "rand-k", "share": 0.5}, lr=0.1, a=0.4):
    def first(self):
        self.g, self.g_i, self.h = 0.0, self.rows(self.x), self.rows(self.x)

    def train(self, i, steps, x, t):
        g = self.world.gradient(i, x)
        if t == 1:
            m = self.g_i[i] = g.copy()
        else:
            lacking = g - self.h[i] - self.a * (self.g_i[i] - self.h[i])
            m = self.compressed(lacking, i, t, "dasha")
            self.g_i[i] = self.g_i[i] + m
        self.h[i] = g
        yield {"change": m}

    def round(self, t):
        mean, _ = yield "train", {"x": self.x, "t": t}
        self.g = self.g + mean["change"]
        self.x = self.x - self.lr * self.g


class ProxSkip(Everyone, name="proxskip", p=0.4):
    """y <- y - lr (g_i(y) - h_i) until the coin falls; h_i <- h_i + (p / lr) (mean y - y_i)."""

    def first(self):
        self.h, self.y = self.rows(np.zeros_like(self.x)), self.rows(self.x)

    def train(self, i, steps, x):
        self.h[i] = self.h[i] + self.p / RATE * (x - self.y[i])
        y = x
        for _ in range(steps):
            y = y - RATE * (self.world.gradient(i, y) - self.h[i])
        self.y[i] = y
        yield {"delta": y}

    def step(self, mean, replies):
        self.x = mean["delta"]


METHODS = {
    "fedavg": FedAvg, "fedprox": FedProx, "fedavgm": FedAvgM, "fedadagrad": FedAdagrad,
    "fedadam": FedAdam, "fedyogi": FedYogi, "fedexp": FedExP, "fedexp control": FedExPControlled,
    "scaffold": Scaffold, "scaffold gradient": ScaffoldGradient, "fednova": FedNova,
    "fednova control": FedNovaControlled, "feddyn": FedDyn, "fedvarp": FedVARP,
    "clusterfedvarp": ClusterFedVARP, "mifa": MIFA, "apfl": APFL, "ditto": Ditto,
    "pfedme": PFedMe, "per-fedavg": PerFedAvg, "per-fedavg exact": PerFedAvgExact,
    "fedavg-finetuned": FineTuned, "local-only": LocalOnly, "maxfl": MaxFL, "fedper": FedPer,
    "fedrep": FedRep, "moon": Moon, "gradient-descent": GradientDescent, "giant": GIANT,
    "fedhybrid": FedHybrid, "rwsadmm": Walkman, "feddrift": FedDrift, "fedbuff": FedBuff,
    "fedasync": FedAsync, "async-sgd": AsyncSGD, "ca2fl": CA2FL, "fedat": FedAT,
    "overlap-sgd": OverlapSGD, "marina": Marina, "dasha": Dasha, "proxskip": ProxSkip,
    "hierfavg": HierFAVG,
}  # fmt: skip
"""The references by name. `disco`, whose steps of conjugate gradients end by a tolerance, and
`fedbn`, whose layers normalise, have none: they are run, and must not fail."""
