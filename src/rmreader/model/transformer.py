"""A Hugging Face encoder from its folder, behind one
small interface: sequences of pieces in, vectors out."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmreader.core.errors import UserError, user_error_on
from rmreader.core.files.reading import read_json
from rmreader.model.precision import product_type
from rmreader.text.pieces import encoder_config

_HIDDEN = -1e9  # a logit of what is not there, also in 16 bits
_MOST_WEIGHTS = 2 << 30  # of an encoder: 8 GiB


class Transformer(nn.Module):
    """One encoder: ``layers`` vectors of ``size`` numbers
    for every piece, the embeddings' layer first."""

    def __init__(self, model: nn.Module, layer_dropout: float = 0.0) -> None:
        """``layer_dropout``: chance that a layer is skipped in a training step."""
        super().__init__()
        config: Any = model.config
        self.model = model
        self.layers = int(config.num_hidden_layers) + 1
        self.size = int(config.hidden_size)
        self.takes_types = "token_type_ids" in inspect.signature(model.forward).parameters
        self.segments = int(getattr(config, "type_vocab_size", 1) or 1)
        self.layer_dropout = layer_dropout
        self.position_bias: PositionBias | None = None
        if config.model_type == "mpnet":
            self.position_bias = PositionBias(model.encoder)

        if layer_dropout > 0:
            for layer in _stack(model, self.layers - 1):
                layer.register_forward_hook(self._maybe_skip)

    def forward(self, pieces: Tensor, types: Tensor | None, mask: Tensor) -> tuple[Tensor, ...]:
        """[R, s] each -> the layers, [R, s, size] each."""
        types = torch.zeros_like(pieces) if types is None or self.segments < 2 else types
        extra = {"token_type_ids": types} if self.takes_types else {}
        visible = mask.long() if self.position_bias is None else self.position_bias(mask)
        output = self.model(
            input_ids=pieces,
            attention_mask=visible,
            output_hidden_states=True,
            **extra,
        )
        hidden: tuple[Tensor, ...] = output.hidden_states

        return hidden

    def compile_layers(self) -> None:
        """Compile every layer where it is; names and weights stay as they are."""
        for layer in _stack(self.model, self.layers - 1):
            layer.compile(dynamic=True)

    def _maybe_skip(self, layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
        """LayerDrop, drawn on the device so that a captured graph draws anew at each replay."""
        if not layer.training:
            return output

        after = output[0] if isinstance(output, tuple) else output
        keep = torch.rand((), device=after.device) >= self.layer_dropout
        after = torch.where(keep, after, inputs[0])

        return (after, *output[1:]) if isinstance(output, tuple) else after


class PositionBias(nn.Module):
    """MPNet's bias for the distance between two pieces,
    with the padding's mask as one tensor for all layers.

    MPNet as transformers has it adds the bias in every layer, outside any fused
    kernel, and computes it on the CPU, so that no step could be captured as a
    graph. The bias of 32 distances for each head stays as it was pretrained.
    """

    def __init__(self, encoder: Any) -> None:
        """``encoder``: MPNet's stack of layers, which is changed to use this."""
        super().__init__()
        encoder.relative_attention_bias.requires_grad_(False)
        encoder.compute_position_bias = _no_bias
        for layer in encoder.layer:
            layer.attention.attn = FusedAttention(layer.attention.attn)

        # In a list, so that torch does not count its weights twice.
        self._encoder = [encoder]

    def forward(self, mask: Tensor) -> Tensor:
        """Which pieces are there [R, s] -> what is added
        to the attention's logits [R, heads, s, s]."""
        encoder = self._encoder[0]
        steps = torch.arange(mask.shape[1], device=mask.device)
        distances = steps[None, :] - steps[:, None]
        buckets = encoder.relative_position_bucket(distances)
        bias: Tensor = encoder.relative_attention_bias(buckets)
        bias = bias.permute(2, 0, 1)[None]
        hidden = torch.where(mask, 0.0, _HIDDEN)
        added = bias + hidden[:, None, None, :]

        # The sum lies in memory as the bias does, heads last. The fused kernels take no such mask,
        # and torch would compute every pair of pieces in float instead, in three times the time.
        return added.to(product_type(bias)).contiguous()


def _no_bias(hidden: Tensor) -> None:
    """In the place of MPNet's own bias, which ``PositionBias`` has put into the mask."""


@torch.compiler.disable  # type: ignore[untyped-decorator]
def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: float) -> Tensor:
    """Attention by a fused kernel.

    Not compiled: for lengths it does not know, the compiler takes none of the fused kernels, and
    keeps a matrix of all pairs of pieces for each head and layer.
    """
    return F.scaled_dot_product_attention(query, key, value, mask, dropout)


class FusedAttention(nn.Module):
    """MPNet's attention by a fused kernel, with the weights of its own under their names.

    A module like any other, so that all layers share what was compiled for the first.
    """

    def __init__(self, own: Any) -> None:
        super().__init__()
        self.q = own.q
        self.k = own.k
        self.v = own.v
        self.o = own.o
        self.heads = int(own.num_attention_heads)
        self.head_size = int(own.attention_head_size)
        self.dropout = float(own.dropout.p)
        self.train(own.training)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor,
        *_: Any,
        **__: Any,
    ) -> tuple[Tensor]:
        """``attention_mask`` has the bias of the positions in it."""
        shape = (*hidden_states.shape[:2], self.heads, self.head_size)
        query = self.q(hidden_states).view(shape).transpose(1, 2)
        key = self.k(hidden_states).view(shape).transpose(1, 2)
        value = self.v(hidden_states).view(shape).transpose(1, 2)

        # The mask must be of the products' type.
        dropout = self.dropout if self.training else 0.0
        mixed = attend(query, key, value, attention_mask.to(query.dtype), dropout)
        mixed = mixed.transpose(1, 2).reshape(hidden_states.shape)

        return (self.o(mixed),)


def _stack(model: nn.Module, count: int) -> nn.ModuleList:
    """The encoder's layers: the one list of as many modules as it has layers."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module

    raise UserError(
        f"{type(model).__name__}: its layers were not found; set inputs.contextual_layer_dropout=0."
    )


def load_transformer(folder: Path, layer_dropout: float = 0.0, weights: bool = True) -> Transformer:
    """Read an encoder; without ``weights`` only its shape,
    at random (a reader brings trained ones of its own)."""
    with user_error_on(
        "A transformer encoder needs pip install 'rmreader[transformer]'.", ImportError
    ):
        from transformers import AutoConfig, AutoModel

    encoder_config(folder)  # never code of a stranger's, nor a question whether to run it
    _own_files(folder)
    own: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    # transformers and safetensors raise many kinds for a bad folder
    with (
        user_error_on(
            f"{folder}: cannot be read as an encoder ({{why}}); fetch its files again.", Exception
        ),
        _quiet(),
    ):
        config = AutoConfig.from_pretrained(str(folder), **own)
        with torch.device("meta"):  # takes no memory
            size = sum(
                p.numel()
                for p in AutoModel.from_config(config, trust_remote_code=False).parameters()
            )

        if size > _MOST_WEIGHTS:
            raise ValueError(
                f"{size:,} weights are more than the {_MOST_WEIGHTS:,} that may be read"
            )

        if weights:
            model = AutoModel.from_pretrained(str(folder), use_safetensors=True, **own)
        else:
            model = AutoModel.from_config(config, trust_remote_code=False)

    if not hasattr(model.config, "hidden_size") or getattr(
        model.config,
        "is_encoder_decoder",
        False,
    ):
        raise UserError(
            f"{folder}: {type(model).__name__} is not an encoder "
            "that gives a vector for each piece."
        )

    if getattr(model, "pooler", None) is not None:
        model.pooler = None  # sentence vectors are not read, and would never get a gradient

    return Transformer(model.float().eval(), layer_dropout)


def _own_files(folder: Path) -> None:
    """Refuse a folder that would have its weights read from another."""
    if (folder / "adapter_config.json").exists():
        raise UserError(
            f"{folder / 'adapter_config.json'}: adapters are not read; "
            "merge it into its encoder first."
        )

    index = folder / "model.safetensors.index.json"
    if index.exists():
        shards = read_json(index, "fetch the file again", limit=64 << 20)
        names = shards.get("weight_map") if isinstance(shards, dict) else None
        if not isinstance(names, dict) or any(
            Path(str(name)).name != name for name in names.values()
        ):
            raise UserError(f"{index}: it names weights outside {folder}; fetch the files again.")


@contextmanager
def _quiet() -> Iterator[None]:
    """No bars and no report on the pooler's missing weights while an encoder is read."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
