"""The scalar mix of an encoder's layers."""

from __future__ import annotations

import numpy as np
import torch

from rmreader.model.encoder import ScalarMix


def test_the_mix_is_the_softmax_weighted_sum_times_gamma() -> None:
    rng = np.random.default_rng(0)
    mix = ScalarMix(4).double()
    layers, weights = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=4)
    with torch.no_grad():
        mix.weights.copy_(torch.from_numpy(weights))
        mix.gamma.fill_(1.7)
    expected = np.zeros((2, 3, 5))
    for layer in range(4):
        expected += 1.7 * np.exp(weights[layer]) / np.exp(weights).sum() * layers[:, :, layer]
    np.testing.assert_allclose(mix(torch.from_numpy(layers)).detach(), expected, rtol=1e-12)


def test_half_precision_layers_are_mixed_in_single_precision() -> None:
    layers = torch.full((1, 2, 3), 2048.0, dtype=torch.float16)
    layers[0, 1] = 1.0  # 2048 + 1 is no half-precision number
    mixed = ScalarMix(2)(layers)
    assert mixed.dtype == torch.float32
    assert mixed[0, 0] == (2048 + 1) / 2
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(ScalarMix(2)(layers), mixed)


def test_it_starts_as_the_mean_and_every_weight_gets_a_gradient() -> None:
    mix = ScalarMix(3)
    layers = torch.randn(5, 3, 4)
    mixed = mix(layers)
    torch.testing.assert_close(mixed, layers.mean(dim=1))
    mixed.square().sum().backward()
    assert mix.weights.grad is not None
    assert mix.weights.grad.abs().min() > 0
    assert mix.gamma.grad is not None


def test_layers_are_dropped_in_training_only() -> None:
    torch.manual_seed(0)
    mix = ScalarMix(3, dropout=0.4)
    layers = torch.eye(3).expand(2, 3, 3)
    kinds = {tuple((mix(layers)[0] > 0.01).tolist()) for _ in range(200)}
    assert len(kinds) == 7  # every choice of layers; none left means all
    for _ in range(20):
        torch.testing.assert_close(mix(layers)[0].sum(), torch.tensor(1.0))
    assert torch.allclose(mix.eval()(layers), torch.full((2, 3), 1 / 3))
