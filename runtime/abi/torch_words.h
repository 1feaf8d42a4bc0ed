/* torch_words: names that an attribute of a PyTorch model cannot have: keywords of Python and
 * attributes of PreTrainedModel of transformers, of nn.Module and of the emitted base class. */
#ifndef TORCH_WORDS_H
#define TORCH_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char torch_words[] =
    "activation_checkpointing_enable active_adapters add_adapter add_model_tags add_module "
    "adjust_generation_fn all_tied_weights_keys and apply as assert async await "
    "barrier_after_gathered_checkpoint_save base_model base_model_prefix bfloat16 break buffers "
    "cache_name call_super_init can_generate can_record_outputs checked children class compile "
    "compute_transition_scores config config_class continue continuous_batching_context_manager "
    "cpu cuda decayed def del delete_adapter dequantize "
    "destroy_cached_continuous_batching_manager device disable_adapters "
    "disable_input_require_grads double dtype dummy_inputs dump_patches elif else enable_adapters "
    "enable_input_require_grads enable_peft_hotswap ep_plan equations eval except extra_repr "
    "False finally float for forward from from_pretrained fsdp_plan fsdp_size "
    "gather_sharded_state_dict_for_save generate generate_batch generation_config "
    "generation_config_class get_adapter_state_dict get_buffer get_compiled_call "
    "get_correct_attn_implementation get_correct_experts_implementation get_decoder get_encoder "
    "get_expanded_tied_weights_keys get_experts_implementation get_extra_state get_init_context "
    "get_input_embeddings get_memory_footprint get_output_embeddings get_parameter "
    "get_parameter_or_buffer get_position_embeddings get_submodule global "
    "gradient_checkpointing_disable gradient_checkpointing_enable half heal_tokens hindrance if "
    "import in init_continuous_batching init_parallel_plans init_weights initial "
    "initialize_weights input_modalities inputs ipu is is_activation_checkpointing "
    "is_backend_compatible is_custom_code is_distributed_loading_by_transformers "
    "is_gradient_checkpointing is_remote_code kernel_config lambda load_adapter "
    "load_custom_generate load_state_dict loss_function loss_type main_input_name "
    "mark_tied_weights_as_initialized maybe_distribute_model model_tags modules mtia name_or_path "
    "named_buffers named_children named_modules named_non_persistent_buffers named_parameters "
    "None nonlocal not num_parameters or output_modalities padded parameters pass post_init "
    "pp_plan prepare_distribute_model prepare_inputs_for_generation push_to_hub raise "
    "register_backward_hook register_buffer register_for_auto_class register_forward_hook "
    "register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook "
    "register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module "
    "register_parameter register_state_dict_post_hook register_state_dict_pre_hook "
    "resize_position_embeddings resize_token_embeddings retrieve_modules_from_names return "
    "save_distributed_checkpoint save_pretrained self set_adapter set_attn_implementation "
    "set_decoder set_encoder set_experts_implementation set_extra_state set_input_embeddings "
    "set_output_embeddings set_submodule set_use_kernels share_memory should_save_on_this_rank "
    "smart_apply state_dict supports_context_parallel supports_gradient_checkpointing "
    "supports_pp_plan supports_tp_plan T_destination tie_weights to to_empty tp_plan tp_size "
    "train training True try type use_kernels warn_if_padding_and_no_attention_mask "
    "weight_decay_groups while with xpu yield zero_grad ";

/* True if "_" follows the name in PyTorch: for "class", and for "class_", which "class" becomes. */
static inline bool torch_is_reserved(const char *name, size_t length) {
    while (length && name[length - 1] == '_') length--;
    for (const char *word = torch_words; *word; word += strcspn(word, " ") + 1)
        if (!strncmp(word, name, length) && word[length] == ' ') return true;
    return false;
}

#endif
