    def post_init(self):
        super().post_init()
        self._frozen = [name for name, parameter in self.named_parameters() if not parameter.requires_grad]

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        """Freezes parameters again: those that transformers loads are all trainable."""
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        for name in model._frozen:
            model.get_parameter(name).requires_grad_(False)
        return loaded

