"""A compact Qwen3-MoE for training, and its weights under the names Qwen ships them with.

The same function as transformers' Qwen3MoeForCausalLM, which evaluate.py runs on the saved
files. Here every expert runs on every token and the router's weights mask the result:
for experts this small two wide matrix products beat any gather, and dropout is at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """Sizes of the model; the defaults are the shipped ones."""

    vocab: int = 4096
    hidden: int = 192
    layers: int = 6
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 32
    experts: int = 8
    top_k: int = 2
    expert_dim: int = 128
    max_positions: int = 2048
    rope_theta: float = 10000.0
    eps: float = 1e-6

    def config(self, end_of_text: int) -> dict:
        """config.json, readable by transformers 4 (rope_theta) and 5 (rope_parameters)."""
        return {
            "architectures": ["Qwen3MoeForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": end_of_text,
            "decoder_sparse_step": 1,
            "dtype": "bfloat16",
            "eos_token_id": end_of_text,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "initializer_range": 0.02,
            "intermediate_size": self.expert_dim * self.top_k,
            "max_position_embeddings": self.max_positions,
            "mlp_only_layers": [],
            "model_type": "qwen3_moe",
            "moe_intermediate_size": self.expert_dim,
            "norm_topk_prob": True,
            "num_attention_heads": self.heads,
            "num_experts": self.experts,
            "num_experts_per_tok": self.top_k,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "output_router_logits": False,
            "pad_token_id": end_of_text,
            "rms_norm_eps": self.eps,
            "rope_parameters": {"rope_theta": self.rope_theta, "rope_type": "default"},
            "rope_theta": self.rope_theta,
            "router_aux_loss_coef": 0.001,
            "sliding_window": None,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": self.vocab,
        }


class RMSNorm(nn.Module):
    """Root-mean-square norm, computed in fp32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], self.weight.float(), self.eps).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding on halves, as in Llama and Qwen."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Grouped-query attention with a norm on each head's query and key."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.shape = s
        self.q_proj = nn.Linear(s.hidden, s.heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.heads * s.head_dim, s.hidden, bias=False)
        self.q_norm = RMSNorm(s.head_dim, s.eps)
        self.k_norm = RMSNorm(s.head_dim, s.eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        split = (batch, length, -1, self.shape.head_dim)
        q = rotate(self.q_norm(self.q_proj(x).view(split)).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(self.k_proj(x).view(split)).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(split).transpose(1, 2)
        groups = self.shape.heads // self.shape.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        out = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))


class SparseMoe(nn.Module):
    """Top-k of several small SwiGLU experts, the chosen weights scaled to sum to one."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.shape = s
        self.gate = nn.Linear(s.hidden, s.experts, bias=False)
        self.gate_proj = nn.Parameter(torch.empty(s.experts, s.expert_dim, s.hidden))
        self.up_proj = nn.Parameter(torch.empty(s.experts, s.expert_dim, s.hidden))
        self.down_proj = nn.Parameter(torch.empty(s.experts, s.hidden, s.expert_dim))

    def forward(self, x: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """The output and the load-balancing loss over tokens where `real` is true."""
        s = self.shape
        with torch.autocast(x.device.type, enabled=False):
            probs = F.linear(x.float(), self.gate.weight.float()).softmax(-1)
        top, chosen = probs.topk(s.top_k, dim=-1)
        top = top / top.sum(-1, keepdim=True)
        weights = torch.zeros_like(probs).scatter(-1, chosen, top)
        load = (weights[real] > 0).float().mean(0) / s.top_k
        balance = s.experts * (load * probs[real].mean(0)).sum()
        inner = F.silu(F.linear(x, self.gate_proj.flatten(0, 1)))
        inner = inner * F.linear(x, self.up_proj.flatten(0, 1))
        share = weights.unsqueeze(-1).to(inner.dtype)
        inner = inner.unflatten(-1, (s.experts, s.expert_dim)) * share
        down = self.down_proj.transpose(0, 1).reshape(s.hidden, s.experts * s.expert_dim)
        return F.linear(inner.flatten(-2), down), balance


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, s: Shape, dropout: float) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(s.hidden, s.eps)
        self.self_attn = Attention(s)
        self.post_attention_layernorm = RMSNorm(s.hidden, s.eps)
        self.mlp = SparseMoe(s)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        x = x + self.dropout(self.self_attn(self.input_layernorm(x), cos, sin))
        out, balance = self.mlp(self.post_attention_layernorm(x), real)
        return x + self.dropout(out), balance


class DemoMoe(nn.Module):
    """The decoder; its head is the transposed embedding."""

    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, dropout) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.eps)
        self.dropout = nn.Dropout(dropout)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                back = name.endswith(("o_proj.weight", "down_proj"))
                nn.init.normal_(weight, std=0.02 / (2 * shape.layers) ** 0.5 if back else 0.02)

    def forward(self, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Final hidden states of right-padded ids, and the mean load-balancing loss."""
        s = self.shape
        steps = torch.arange(0, s.head_dim, 2, device=ids.device) / s.head_dim
        angles = torch.outer(torch.arange(ids.shape[1], device=ids.device), s.rope_theta**-steps)
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        x = self.dropout(self.embed_tokens(ids))
        balances = []
        for layer in self.layers:
            x, balance = layer(x, cos, sin, real)
            balances.append(balance)
        return self.norm(x), torch.stack(balances).mean()

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of every vocabulary entry."""
        return F.linear(hidden, self.embed_tokens.weight)


def qwen_tensors(state: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """bf16 tensors of a DemoMoe state under Qwen3-MoE's names, one per expert."""
    for name, tensor in state.items():
        value = tensor.detach().to("cpu", torch.bfloat16)
        path, _, last = name.rpartition(".")
        if path.endswith(".mlp") and last in ("gate_proj", "up_proj", "down_proj"):
            for expert, part in enumerate(value):
                yield f"model.{path}.experts.{expert}.{last}.weight", part.contiguous().clone()
        else:
            yield f"model.{name}", value.contiguous()
