"""Configuration of @MODEL@: the options of its spec."""

from transformers import PretrainedConfig


class @NAME@Config(PretrainedConfig):
    model_type = "@MODEL@"

    def __init__(self, options=None, vocab_size=@VOCABULARY@, max_position_embeddings=@CONTEXT@, **kwargs):
        self.options = options or {}
        self.vocab_size = vocab_size
        self.max_position_embeddings = max_position_embeddings
        super().__init__(**kwargs)
