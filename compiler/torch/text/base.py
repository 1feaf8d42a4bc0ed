class @NAME@Cache(Cache):
    """Tensors of earlier positions: keys, values, other tensors that equations read at earlier positions, and recurrent
    states. During one call it also has the positions of the current tokens.
    """

    def __init__(self):
        super().__init__(layers=[])
        self.tensors = {}
        self.given = {}  # tensors that depend on inputs other than the tokens
        self.total = 0
        self.keeps = False
        self.rows = None  # a cache per sequence, if some are padded

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
        return self.tensors.get(self.key(module, name), start)

    def store(self, module, name, state):
        if self.keeps:
            self.tensors[id(module), name, self.calls[id(module), name]] = state

    def get_seq_length(self, layer_idx=0):
        return self.total

    def get_max_cache_shape(self, layer_idx=0):
        return -1

    def reorder_cache(self, beams):
        if self.rows is not None:
            self.rows = [copy.deepcopy(self.rows[beam]) for beam in beams.tolist()]
        for key, x in self.tensors.items():
            self.tensors[key] = x.index_select(0, beams.to(x.device))
        for name, x in self.given.items():
            self.given[name] = x.index_select(0, beams.to(x.device))

    @property
    def is_initialized(self):
        return self.total > 0


class @NAME@Base(PreTrainedModel, GenerationMixin):
    """Everything except the equations."""

    config_class = @NAME@Config
    base_model_prefix = ""
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    cache_name = "cache" if "cache" in CausalLMOutputWithPast.__annotations__ else "past_key_values"
    # Inputs other than the tokens, each with its shape without the batch. None: the positions of the targets.
    inputs = ()
    # The reason why the model cannot decode; empty: it can.
    hindrance = "@HINDRANCE@"

    def __init__(self, config):
        config.check()
        super().__init__(config)

@FROZEN@    @torch.no_grad()
    def _init_weights(self, module):
        tensors = {**module._parameters, **module._buffers}
        for name, kind, a, b in getattr(module, "initial", ()):
            if kind == "normal":
                nn.init.normal_(tensors[name], a, b)
            elif kind == "uniform":
                nn.init.uniform_(tensors[name], min(a, b), max(a, b))
            else:
                nn.init.constant_(tensors[name], a)

    def forward(
        self,
        input_ids,
        attention_mask=None,
        past_key_values=None,
        labels=None,
        targets=None,
        use_cache=None,
        cache=None,
        **inputs,
    ):
        """`labels` are the tokens themselves, as in other models of transformers: the loss is that of all tokens after the
        first. `targets` are the tokens of the next positions.
        """
        if labels is not None:
            input_ids, targets = input_ids[:, :-1], labels[:, 1:]
        if targets is not None and (targets < 0).any():
            raise ValueError("labels of -100 are not supported: the loss of this model covers all tokens")
        use_cache = bool(use_cache)
        inputs = {name: self.checked(inputs.get(name), name, shape, targets) for name, *shape in self.inputs}
        if self.hindrance and use_cache:
            raise ValueError("this model cannot decode: " + self.hindrance)
        cache = past_key_values if cache is None else cache
        if not isinstance(cache, @NAME@Cache):
            cache = @NAME@Cache()
        if targets is None and attention_mask is not None and not attention_mask.all():
            logits, losses = self.padded(input_ids, attention_mask, cache, use_cache, inputs), {}
        else:
            cache.begin(input_ids, use_cache)
            logits, losses = self.equations(input_ids, targets, cache, **inputs)
        out = CausalLMOutputWithPast(loss=losses.get("loss"), logits=logits)
        if use_cache:
            out[self.cache_name] = cache
        return out

    @staticmethod
    def checked(x, name, shape, targets):
        if x is None and targets is None and None in shape:
            return None
        if x is None or x.dim() != len(shape) + 1 or any(n and n != m for n, m in zip(shape, x.shape[1:])):
            text = ", ".join(["b", *(str(n or "s") for n in shape)])
            raise ValueError(f"this model needs a tensor {name}=... of shape [{text}]")
        return x

    def padded(self, tokens, attention_mask, cache, keeps, inputs):
        """Sequences of different lengths, one after the other: positions and states do not count the padding."""
        if cache.rows is None:
            cache.rows = [@NAME@Cache() for _ in tokens]
        masks = attention_mask[:, -tokens.shape[1] :].bool()
        logits = None
        for row, (own, mask) in enumerate(zip(cache.rows, masks)):
            own.begin(tokens[row : row + 1, mask], keeps)
            own_inputs = {name: x if x is None else x[row : row + 1] for name, x in inputs.items()}
            values, _ = self.equations(tokens[row : row + 1, mask], None, own, **own_inputs)
            if logits is None:
                logits = values.new_zeros(*tokens.shape, values.shape[-1])
            logits[row, mask] = values[0]
        cache.total += tokens.shape[1]
        return logits

    def weight_decay_groups(self, weight_decay):
        """Groups of parameters for an optimizer of torch: weight decay applies to those that the spec decays."""
        groups = {True: [], False: []}
        for module in self.modules():
            for name, parameter in module.named_parameters(recurse=False):
                groups[name in getattr(module, "decayed", ())].append(parameter)
        return [
            {"params": groups[True], "weight_decay": weight_decay},
            {"params": groups[False], "weight_decay": 0.0},
        ]

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, *args, **kwargs):
        model_kwargs[self.cache_name] = @NAME@Cache()

    def _validate_model_kwargs(self, model_kwargs):
        names = [name for name, *_ in self.inputs]
        super()._validate_model_kwargs({name: x for name, x in model_kwargs.items() if name not in names})

    def prepare_inputs_for_generation(self, input_ids, past_key_values=None, cache=None, attention_mask=None, **others):
        cache = past_key_values if cache is None else cache
        past = cache.get_seq_length() if cache is not None else 0
        return {
            "input_ids": input_ids[:, past:],
            "attention_mask": attention_mask,
            self.cache_name: cache,
            "use_cache": cache is not None,
            **{name: others.get(name) for name, *_ in self.inputs},
        }


