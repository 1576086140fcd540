"""Three small encoders with random weights, as Hugging Face writes them: BERT, RoBERTa and MPNet."""

from __future__ import annotations

from pathlib import Path

import torch

TEXTS = [
    "The Reinforced Mnemonic Reader points at the answer of a question, wherever in the passage it stands.",
    "In 1912 two ships met off the coast; 37 sailors were saved, and their captain wrote of it in a long letter.",
    "Questions and passages, words and pieces: encoded apart or together, they are read in windows.",
]


def build_bert(folder: Path, window: int = 128) -> Path:
    """An uncased WordPiece encoder of two layers."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=_save_word_pieces(
            folder,
            special=["[PAD]", "[UNK]", "[CLS]", "[SEP]"],
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        ),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=window,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    _save(BertModel(config), folder)
    return folder


def build_mpnet(folder: Path, window: int = 96) -> Path:
    """MPNet: WordPiece, a bias for the distance between pieces, positions counted from the padding id on."""
    from transformers import MPNetConfig, MPNetModel

    config = MPNetConfig(
        vocab_size=_save_word_pieces(
            folder,
            special=["<s>", "<pad>", "</s>", "[UNK]"],
            single="<s> $A </s>",
            pair="<s> $A </s> </s> $B </s>",
        ),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=window + 2,
        pad_token_id=1,
    )
    torch.manual_seed(0)
    _save(MPNetModel(config), folder)
    return folder


def build_roberta(folder: Path, window: int = 96) -> Path:
    """A byte-level BPE encoder whose positions are counted from the padding id on, and that knows one segment only."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import RobertaConfig, RobertaModel

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "<pad>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=window + 2,
        type_vocab_size=1,
        pad_token_id=1,
    )
    torch.manual_seed(0)
    _save(RobertaModel(config), folder)
    return folder


def _save_word_pieces(folder: Path, special: list[str], single: str, pair: str) -> int:
    """Train an uncased WordPiece tokenizer on the texts, write it, and return its size."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=160, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    used = [(token, number) for number, token in enumerate(special) if token in single]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=used)
    tokenizer.save(str(folder / "tokenizer.json"))
    return int(tokenizer.get_vocab_size())


def _save(model: torch.nn.Module, folder: Path) -> None:
    """With the larger weights of a trained model, so that what words stand beside does show in their vectors."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.2)
    model.save_pretrained(folder)  # type: ignore[operator]
