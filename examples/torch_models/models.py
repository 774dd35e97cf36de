"""Ten small models, each a few layers: enough for the ops that real ones are made of."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Self-attention with a fused kernel."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.after(x))


class LanguageModel(nn.Module):
    """Tokens to logits."""

    def __init__(self, words: int = 32, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, words)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.embed(tokens)))


class Residual(nn.Module):
    """A residual convolution block."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.norm(self.conv(x)))


class Recurrent(nn.Module):
    """A sequence classifier."""

    def __init__(self, width: int = 16, classes: int = 4) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        return self.head(states[:, -1])


class HalfPrecision(nn.Module):
    """A layer computed in bfloat16 by hand."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width).to(torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.bfloat16()).float()


class Mixture(nn.Module):
    """Two experts and a gate."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(width, width), nn.Linear(width, width)])
        self.gate = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        weights = self.gate(x).softmax(-1)
        return torch.stack([expert(x) for expert in self.experts], -1).mul(weights.unsqueeze(-2)).sum(-1)


def build() -> dict[str, tuple[nn.Module, Tensor]]:
    """Return each model with an input, the same in every process."""
    torch.manual_seed(0)
    sequence, image = torch.randn(4, 6, 16), torch.randn(2, 8, 12, 12)
    return {
        "mlp": (nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), sequence[0]),
        "convnet": (
            nn.Sequential(nn.Conv2d(8, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(100, 4)),
            image,
        ),
        "residual": (nn.Sequential(Residual(), Residual()), image),
        "attention": (Attention(), sequence),
        "transformer": (Block(), sequence),
        "language": (LanguageModel(), torch.randint(0, 32, (4, 6))),
        "recurrent": (Recurrent(), sequence),
        "autoencoder": (nn.Sequential(nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 16), nn.Sigmoid()), sequence),
        "half": (HalfPrecision(), sequence),
        "mixture": (Mixture(), sequence),
    }
