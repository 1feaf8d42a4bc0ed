class @NAME@Cache(Cache):
    """Tensors of earlier positions: keys, values, other tensors that equations read at earlier positions, and recurrent
    states. During one call it also has the positions of the current tokens.
    """

    def __init__(self):
        super().__init__(layers=[])
        self.tensors = {}
        self.total = 0
        self.keeps = False

    def begin(self, tokens, keeps):
        """Starts a call with new tokens [b, s]."""
        self.sequences, self.length = tokens.shape
        self.past, self.total = self.total, self.total + self.length
        self.device, self.keeps, self.calls = tokens.device, keeps, {}
        self.all_positions = self.range(self.total)
        self.positions = self.all_positions[self.past :]

    def range(self, size):
        return torch.arange(size, device=self.device)

    def key(self, module, name):
        """A layer that is applied twice keeps two tensors."""
        key = (id(module), name)
        self.calls[key] = self.calls.get(key, 0) + 1
        return (*key, self.calls[key])

    def keep(self, module, name, x, dim):
        """The tensor at all positions so far, along `dim`."""
        key = self.key(module, name)
        if key in self.tensors:
            x = torch.cat([self.tensors[key], x], dim)
        if self.keeps:
            self.tensors[key] = x
        return x

    def state(self, module, name, start):
        """The state of a recurrence after the earlier positions."""
        return self.tensors.get((id(module), name), start)

    def store(self, module, name, state):
        if self.keeps:
            self.tensors[id(module), name] = state

    def get_seq_length(self, layer_idx=0):
        return self.total

    def get_max_cache_shape(self, layer_idx=0):
        return -1

    def reorder_cache(self, beams):
        for key, x in self.tensors.items():
            self.tensors[key] = x.index_select(0, beams.to(x.device))

    @property
    def is_initialized(self):
        return self.total > 0


class @NAME@Base(PreTrainedModel, GenerationMixin):
    """Everything except the equations."""

    config_class = @NAME@Config
    base_model_prefix = ""
    main_input_name = "input_ids"
    _no_split_modules = []
    hindrance = "@HINDRANCE@"  # why the model cannot decode; empty: it can

    @torch.no_grad()
    def _init_weights(self, module):
        tensors = {**module._parameters, **module._buffers}
        for name, (kind, a, b) in getattr(module, "initial", {}).items():
            if kind == "normal":
                nn.init.normal_(tensors[name], a, b)
            elif kind == "uniform":
                nn.init.uniform_(tensors[name], a, b)
            else:
                nn.init.constant_(tensors[name], a)

    def forward(
        self, input_ids, attention_mask=None, past_key_values=None, labels=None, targets=None, use_cache=None, **_
    ):
        """`labels` are the tokens themselves, as in other models of transformers, or -100 for tokens without a loss;
        `targets` are the tokens of the next positions.
        """
        if attention_mask is not None and not attention_mask.all():
            raise ValueError("padding is not supported: pass sequences of equal length, or one at a time")
        cache = past_key_values if isinstance(past_key_values, @NAME@Cache) else @NAME@Cache()
        if self.hindrance and use_cache:
            raise ValueError("this model cannot decode: " + self.hindrance)
        cache.begin(input_ids, bool(use_cache))
        logits, losses = self.equations(input_ids, targets, cache)
        loss = losses.get("loss")
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache if use_cache else None)

    def _supports_default_dynamic_cache(self):
        return False

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, *args, **kwargs):
        model_kwargs["past_key_values"] = @NAME@Cache()

    def prepare_inputs_for_generation(self, input_ids, past_key_values=None, attention_mask=None, **_):
        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        return {
            "input_ids": input_ids[:, past:],
            "attention_mask": attention_mask,
            "past_key_values": past_key_values,
            "use_cache": True,
        }


