"""The tokenizer in a folder in Hugging Face layout: `tokenizer.json`, and what the files beside it add.

`tokenizer_config.json` and `special_tokens_map.json` name the special tokens, `generation_config.json` and
`config.json` the ends of a text; chat templates lie in `chat_template.jinja`, `additional_chat_templates/` or the
configuration. It runs no code from the folder, and reads no SentencePiece model (`tokenizer.model`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tokenizers import Tokenizer as Encoder

from runners.runtime.json_file import read_json_object
from runners.runtime.model_file import ModelFileError, shown
from runners.runtime.safetensors_folder import folder_file
from runners.runtime.token_text import SPACE, byte_level_bytes, piece_bytes, plain_bytes
from runners.runtime.tokenizer_parts import MAX_VOCAB, UNBOUNDED_TOKEN_BYTES, TokenizerParts, longest_bytes

MAX_TOKENIZER_BYTES = 1 << 27
"""The largest `tokenizer.json` read; Gemma's takes 33 MB."""

_TRIAL_TEXT = "A b,\n\té 12 \U0001f642"
"""Encoded once on opening, so that what can't work is found before anybody waits for it."""

Result = TypeVar("Result")

_MAX_CONFIG_BYTES = 1 << 24
_MAX_TEMPLATE_BYTES = 1 << 20
_MAX_TEMPLATES = 100


def read_folder(folder: Path) -> TokenizerParts:
    """The parts of a folder's tokenizer. Raises ModelFileError naming the file that is absent or can't be used."""
    encoder = _read_encoder(folder)
    config = _optional(folder, "tokenizer_config.json")
    named = _special_texts(_optional(folder, "special_tokens_map.json")) | _special_texts(config)
    model_config = _optional(folder, "config.json")
    texts = _texts(folder, encoder, model_config)
    added = encoder.get_added_tokens_decoder()
    value_of, strips_space = _decoding(folder, encoder)
    values = [plain_bytes(added[i].content) if i in added else value_of(text) for i, text in enumerate(texts)]
    id_of: dict[str, int | None] = {name: encoder.token_to_id(text) for name, text in named.items()}
    return TokenizerParts(
        path=folder,
        encoder=encoder,
        texts=texts,
        values=values,
        special_ids=frozenset(token_id for token_id, token in added.items() if token.special),
        around=_around(folder, config, id_of),
        strips_space=strips_space,
        longest_token_bytes=_longest(encoder, texts, values),
        bos_id=id_of.get("bos_token"),
        eos_ids=_end_ids(folder, id_of.get("eos_token"), model_config, len(texts)),
        special_texts={"bos_token": "", "eos_token": "", **named},
        templates=_templates(folder, config),
    )


def _read_encoder(folder: Path) -> Encoder:
    if not (folder / "tokenizer.json").exists() and (folder / "tokenizer.model").exists():
        found = "a SentencePiece model (tokenizer.model); convert it with transformers"
        raise ModelFileError(folder, "tokenizer", "tokenizer.json", found)
    path = folder_file(folder, "tokenizer.json")
    model = read_json_object(path, MAX_TOKENIZER_BYTES).get("model")
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        if isinstance(model, dict) and model.get(name):  # the library may take the whole process down over these
            raise ModelFileError(path, f"model.{name}", "none", shown(repr(model[name])))
    encoder = _attempt(path, lambda: Encoder.from_file(str(path)))
    encoder.no_truncation()
    encoder.no_padding()
    ids = _attempt(path, lambda: encoder.encode(_TRIAL_TEXT, add_special_tokens=True).ids)
    known = set(encoder.get_vocab(with_added_tokens=True).values())
    if not known.issuperset(ids):
        raise ModelFileError(path, "post_processor", "ids of the vocabulary", shown(str(sorted(set(ids) - known))))
    return encoder


def _attempt(path: Path, action: Callable[[], Result]) -> Result:
    """What an action of the library gives. It raises bare Exception for what it can't use; a panic of its Rust code
    arrives as a BaseException."""
    try:
        return action()
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ModelFileError(path, "file", "a tokenizer", shown(str(error), 200)) from error


def _texts(folder: Path, encoder: Encoder, model_config: Mapping[str, Any]) -> list[str]:
    """Spellings by id, empty for ids that the model has a row for but the tokenizer no entry."""
    vocab: dict[str, int] = encoder.get_vocab(with_added_tokens=True)
    size = max(vocab.values(), default=-1) + 1
    for config in (model_config, model_config.get("text_config")):
        if isinstance(config, dict) and type(config.get("vocab_size")) is int:
            size = max(size, config["vocab_size"])
    if not vocab or size > MAX_VOCAB:
        raise ModelFileError(folder, "vocabulary", f"1 … {MAX_VOCAB} token ids", str(size if vocab else 0))
    texts = [""] * size
    for text, token_id in vocab.items():
        texts[token_id] = text
    return texts


def _decoding(folder: Path, encoder: Encoder) -> tuple[Callable[[str], bytes], bool]:
    """(what an entry stands for, whether decoding takes a leading space away), as the file's decoder does it."""
    steps = list(_steps(_state(encoder.decoder)))
    kinds = {step["type"] for step in steps}
    strips = any(step["type"] == "Strip" and step.get("content") == " " and step.get("start") for step in steps)
    strips |= any(step["type"] == "Metaspace" and step.get("prepend_scheme") != "never" for step in steps)
    if "ByteLevel" in kinds and kinds <= {"ByteLevel", "Fuse"}:
        return byte_level_bytes, False
    spaces = [step for step in steps if step["type"] in ("Metaspace", "Replace")]
    known = {"Metaspace", "Replace", "ByteFallback", "Fuse", "Strip"}
    if spaces and kinds <= known and all(map(_is_space_step, spaces)):
        has_bytes = "ByteFallback" in kinds
        return lambda text: piece_bytes(text, byte_fallback=has_bytes), strips
    found = ", ".join(sorted(kinds)) or "none"
    raise ModelFileError(folder / "tokenizer.json", "decoder", "ByteLevel, or SentencePiece's steps", shown(found))


def _is_space_step(step: Mapping[str, Any]) -> bool:
    if step["type"] == "Metaspace":
        return step.get("replacement") == SPACE
    return step.get("pattern") == {"String": SPACE} and step.get("content") == " "


def _state(component: Any) -> dict[str, Any]:
    """A component of the tokenizer as its JSON; empty for one that is absent."""
    if component is None:
        return {}
    state: dict[str, Any] = json.loads(component.__getstate__())
    return state


def _steps(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A decoder's or normalizer's steps, in order."""
    if state.get("type") == "Sequence":
        for step in [*state.get("decoders", ()), *state.get("normalizers", ())]:
            yield from _steps(step)
    elif state:
        yield state


def _longest(encoder: Encoder, texts: list[str], values: list[bytes]) -> int:
    """See Tokenizer: no bound where a token may swallow text of any length, four times the spelling for NFC."""
    kinds = {step["type"] for step in _steps(_state(encoder.normalizer))}
    swallows = getattr(encoder.model, "fuse_unk", True) and not getattr(encoder.model, "byte_fallback", False)
    swallows = swallows and getattr(encoder.model, "unk_token", None) is not None
    eats_spaces = any(token.lstrip or token.rstrip for token in encoder.get_added_tokens_decoder().values())
    if swallows or eats_spaces or not kinds <= {"NFC", "Replace", "Prepend"}:
        return UNBOUNDED_TOKEN_BYTES
    return longest_bytes(texts, values) * (4 if "NFC" in kinds else 1)


def _around(
    folder: Path, config: Mapping[str, Any], id_of: Mapping[str, int | None]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The ids around a text where the configuration says so outright, which then overrides tokenizer.json."""
    flags = {name: config[f"add_{name}_token"] for name in ("bos", "eos") if f"add_{name}_token" in config}
    if not flags:
        return None
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            path = folder / "tokenizer_config.json"
            raise ModelFileError(path, f"add_{name}_token", "true or false", shown(repr(flag)))
    sides = [id_of.get(f"{name}_token") if flags.get(name) else None for name in ("bos", "eos")]
    before, after = (() if side is None else (side,) for side in sides)
    return before, after


def _end_ids(folder: Path, eos_id: int | None, model_config: Mapping[str, Any], vocab_size: int) -> tuple[int, ...]:
    ends = [] if eos_id is None else [eos_id]
    for name, config in (
        ("generation_config.json", _optional(folder, "generation_config.json")),
        ("config.json", model_config),
    ):
        told = config.get("eos_token_id")
        for end in told if isinstance(told, list) else [] if told is None else [told]:
            if type(end) is not int or not 0 <= end < vocab_size:
                raise ModelFileError(folder / name, "eos_token_id", f"ids 0 … {vocab_size - 1}", shown(repr(end)))
            ends.append(end)
    return tuple(dict.fromkeys(ends))


def _special_texts(config: Mapping[str, Any]) -> dict[str, str]:
    """Texts by name (`bos_token` …), each given as a text or as an object with its `content`."""
    found = {}
    for name, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(text, str):
            found[name] = text
    return found


def _templates(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Chat templates by name. Files win over the configuration, where they are one text or a list of named ones."""
    told = config.get("chat_template")
    found: dict[str, str] = {}
    for entry in told if isinstance(told, list) else [] if told is None else [{"name": "default", "template": told}]:
        match entry:
            case {"name": str(name), "template": str(template)} if len(found) < _MAX_TEMPLATES:
                found[name] = template
            case _:
                path = folder / "tokenizer_config.json"
                raise ModelFileError(path, "chat_template", "a text, or a list of names and templates", "another value")
    if (folder / "chat_template.jinja").exists():
        found["default"] = _read_text(folder_file(folder, "chat_template.jinja"), _MAX_TEMPLATE_BYTES)
    more = folder / "additional_chat_templates"
    for path in sorted(more.glob("*.jinja"))[:_MAX_TEMPLATES] if more.is_dir() else ():
        found[path.stem] = _read_text(folder_file(folder, f"{more.name}/{path.name}"), _MAX_TEMPLATE_BYTES)
    return found


def _optional(folder: Path, name: str) -> dict[str, Any]:
    """The object in a file, empty where there is no such file."""
    return read_json_object(folder_file(folder, name), _MAX_CONFIG_BYTES) if (folder / name).exists() else {}


def _read_text(path: Path, most_bytes: int) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise ModelFileError(path, "file", f"at most {most_bytes} bytes", "more")
        return data.decode("utf-8")
    except OSError as error:
        raise ModelFileError(path, "file", "a readable file", error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ModelFileError(path, "file", "UTF-8 text", str(error)) from error
