"""Model @MODEL@ in PyTorch. Comments are the equations of the spec that each line computes.

b: sequences, s: positions of the current tokens, t: all positions so far.
"""

import copy
@MATH@
import torch
@FUNCTIONAL@from torch import nn
from transformers import Cache, GenerationMixin, PreTrainedModel
@LAYERS@from transformers.modeling_outputs import CausalLMOutputWithPast

from .configuration_@MODEL@ import @NAME@Config


