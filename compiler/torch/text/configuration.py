"""Configuration of @MODEL@: the options of its spec."""

from transformers import PretrainedConfig

# The values in the equations of modeling_@MODEL@.py.
OPTIONS = {
@OPTIONS@}
# Options that may have other values of the same sign. Other values of the rest need other equations.
FREE = {@FREE@}


class @NAME@Config(PretrainedConfig):
    model_type = "@MODEL@"

    def __init__(self, options=None, vocab_size=@VOCABULARY@, max_position_embeddings=@CONTEXT@, **kwargs):
        self.options = {**OPTIONS, **(options or {})}
        self.vocab_size = vocab_size
        self.max_position_embeddings = max_position_embeddings
        super().__init__(**kwargs)

    def check(self):
        """Completes the options; refuses values for which the equations are not written."""
        self.options = {**OPTIONS, **self.options}
        if self.vocab_size != @VOCABULARY@:
            raise ValueError(f"vocab_size is @VOCABULARY@ in these equations, got {self.vocab_size}")
        other = vars(PretrainedConfig())
        for name in OPTIONS:
            if name in vars(self) and name not in other and name != "vocab_size":
                raise ValueError(f"set config.options[{name!r}], not config.{name}")
        for name, value in self.options.items():
            if name not in OPTIONS:
                raise ValueError(f"unknown option {name!r}; the options are {', '.join(OPTIONS)}")
            if value == OPTIONS[name]:
                continue
            if name not in FREE:
                raise ValueError(
                    f"option {name!r} is {OPTIONS[name]!r} in these equations, got {value!r}: "
                    f"write the model again with `moec emit --set {name}={value}`"
                )
            if isinstance(value, bool) or not isinstance(value, (int, FREE[name])) or value * OPTIONS[name] <= 0:
                sign = "positive" if OPTIONS[name] > 0 else "negative"
                raise ValueError(f"option {name!r} must be a {sign} {FREE[name].__name__}, got {value!r}")
