"""Causal language models of transformers, with adapters of peft, against transformers' own loss."""

import numpy as np
import pytest
import torch

import rayfed
from rayfed import api

SIZES, LR = (4, 1, 2), 0.3
N, T, C = sum(SIZES), 7, 11
RNG = np.random.default_rng(2)
IDS = RNG.integers(1, C, (N, T))
LENGTHS = np.array([7, 2, 5, 3, 4, 7, 2])
REAL = np.arange(T) < LENGTHS[:, None]
X = np.where(REAL, IDS, 0)
Y = np.where(np.arange(T) < LENGTHS[:, None] - 1, np.roll(IDS, -1, axis=1), -100)


@pytest.fixture(autouse=True)
def _libraries():
    """Skip without the libraries, whose imports would slow every collection of tests."""
    pytest.importorskip("transformers")
    pytest.importorskip("peft")


def full():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=C, n_positions=T, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def adapted(rank=2, alpha=8):
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(
        r=rank, lora_alpha=alpha, target_modules=["c_attn"], fan_in_fan_out=True,
        task_type="CAUSAL_LM",
    )  # fmt: skip
    return get_peft_model(full(), lora)


def study(model):
    data = {"X": X, "y": Y, "client": np.repeat(np.arange(3), SIZES)}
    return {
        "name": "lm", "rounds": 2, "dtype": "float64", "executor": "serial",
        "problem": {"name": "network", "model": model,
                    "dataset": {"name": "arrays", "data": data}},
        "participation": {"select": "all", "cohort": None},
        "algorithms": [{"name": "fedavg", "local": {"steps": 2, "batch": "full", "lr": LR}}],
        "evaluate": {"measures": [{"name": "metrics", "of": ["perplexity"]}]},
    }  # fmt: skip


def loss(net, row):
    """Return transformers' loss of a text, cut to its length; it is in single precision."""
    ids = torch.from_numpy(IDS[row : row + 1, : LENGTHS[row]])
    return net(input_ids=ids, labels=ids).loss


@pytest.mark.parametrize("model", [full, adapted])
def test_rounds_are_those_of_a_plain_script(model, tmp_path):
    problem = api.prepare(api.read(study(model))).runs[0].training
    net = problem.problem.module(problem.x0).double().train()
    trained = [p for p in net.parameters() if p.requires_grad]
    frozen = [p.clone() for p in net.parameters() if not p.requires_grad]
    assert bool(frozen) == (model is adapted)
    ends = np.cumsum(SIZES)
    rows = [range(end - n, end) for n, end in zip(SIZES, ends, strict=True)]

    def mean(client):
        return torch.stack([loss(net, row) for row in rows[client]]).mean()

    losses = []
    for _ in range(2):
        start = [p.detach().clone() for p in trained]
        mixed = [torch.zeros_like(p) for p in trained]
        losses.append(sum(n / N * mean(i).item() for i, n in enumerate(SIZES)))
        for i, n in enumerate(SIZES):
            for p, at in zip(trained, start, strict=True):
                p.data.copy_(at)
            for _ in range(2):
                for p, g in zip(trained, torch.autograd.grad(mean(i), trained), strict=True):
                    p.data -= LR * g
            for total, p in zip(mixed, trained, strict=True):
                total += n / N * p.data
        for p, total in zip(trained, mixed, strict=True):
            p.data.copy_(total)
    result = rayfed.run(study(model), out=tmp_path / "out")
    np.testing.assert_allclose(result.rounds.loss[:2], losses, rtol=1e-6)
    flat = torch.cat([p.detach().ravel() for p in trained])
    np.testing.assert_allclose(result.weights("fedavg-seed0"), flat, rtol=1e-5, atol=1e-7)
    sent = 3 * 8 * len(flat)
    assert result.rounds.bytes_up.iloc[-1] == sent
    tokens = LENGTHS - 1
    nll = sum(n * loss(net, row).item() for row, n in enumerate(tokens))
    np.testing.assert_allclose(
        result.rounds.perplexity.iloc[-1], np.exp(nll / tokens.sum()), rtol=1e-6
    )


RANK, CAPACITIES = 4, (1.0, 0.5, 0.25)


def small(net, rank):
    """Return a module of peft with the first ranks of the adapters of another of rank 4."""
    values = net.state_dict()
    for name, value in values.items():
        if "lora_A" in name:
            values[name] = value[:rank]
        if "lora_B" in name:
            values[name] = value[:, :rank]
    made = adapted(rank, alpha=8 * rank / RANK).double().train()  # alpha / r as in the other
    made.load_state_dict(values)
    return made


@pytest.mark.parametrize("name", ["hetlora", "heterofl"])
def test_ranks_by_capacity_are_those_of_smaller_adapters_of_peft(name, tmp_path):
    given = study(adapted)
    given["problem"]["model"] = {"name": adapted, "rank": RANK}
    given["clients"] = {"groups": [{"ids": [i], "capacity": c} for i, c in enumerate(CAPACITIES)]}
    given["algorithms"][0]["name"] = name
    result = rayfed.run(given, out=tmp_path / "out", page=False)
    problem = api.prepare(api.read(given)).runs[0].training
    net = problem.problem.module(problem.x0).double()
    ends = np.cumsum(SIZES)
    for _ in range(2):
        A, B = (p.detach().clone() for p in net.parameters() if p.requires_grad)
        total, weight = [torch.zeros_like(A), torch.zeros_like(B)], torch.zeros(RANK)
        for n, end, capacity in zip(SIZES, ends, CAPACITIES, strict=True):
            rank = int(RANK * capacity)
            own = small(net, rank)
            trained = [p for p in own.parameters() if p.requires_grad]
            assert [tuple(p.shape) for p in trained] == [(rank, A.shape[1]), (B.shape[0], rank)]
            for _ in range(2):
                losses = torch.stack([loss(own, row) for row in range(end - n, end)])
                for p, g in zip(trained, torch.autograd.grad(losses.mean(), trained), strict=True):
                    p.data -= LR * g
            a, b = (p.detach() for p in trained)
            w = n * (torch.linalg.norm(b @ a) if name == "hetlora" else 1)
            total[0][:rank] += w * a
            total[1][:, :rank] += w * b
            weight[: RANK if name == "hetlora" else rank] += w
        values = {"lora_A": total[0] / weight[:, None], "lora_B": total[1] / weight}
        for key, p in net.named_parameters():
            if p.requires_grad:
                p.data.copy_(values["lora_A" if "lora_A" in key else "lora_B"])
    flat = torch.cat([p.detach().ravel() for p in net.parameters() if p.requires_grad])
    np.testing.assert_allclose(result.weights(), flat, rtol=1e-5, atol=1e-7)
    assert (flat != 0).all()
    first = sum(int(RANK * c) for c in CAPACITIES) * (A.shape[1] + B.shape[0]) * 8
    assert result.rounds.bytes_down.iloc[-1] == first
