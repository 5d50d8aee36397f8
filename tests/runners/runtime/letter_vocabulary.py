"""A vocabulary of single characters, as large as the reference executor's, with an end token and one without bytes."""

from __future__ import annotations

from reference_executor import VOCAB_SIZE

CHARACTERS = 'abcdefghijklmnopqrstuvwxyz0123456789{}[]":,. -_\n'
END = VOCAB_SIZE - 1
CONTROL = VOCAB_SIZE - 2


class LetterVocabulary:
    vocab_size = VOCAB_SIZE
    eos_ids = (END,)

    def token_bytes(self, token_id: int) -> bytes:
        return b"" if token_id in (END, CONTROL) else CHARACTERS[token_id].encode()

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        return [CHARACTERS.index(character) for character in text if character in CHARACTERS]

    def decode(self, token_ids: list[int]) -> str:
        return b"".join(map(self.token_bytes, token_ids)).decode()
