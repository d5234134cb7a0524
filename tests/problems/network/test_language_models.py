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


def adapted():
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
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
