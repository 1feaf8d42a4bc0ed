/* mask_words: CPU kernels of attention read several elements of a fine mask as bits of one number.
 *
 * Needs:   a target with such kernels; masks that attention of whole sequences reads.
 * Leaves:  `words` of these calls. A mask that nothing else reads is not stored: its equation is
 *          part of that of the words.
 *
 *     near[s,t] = s - t < 256 or t < 4
 *     o[b,s,h,c] = attend(q[b,s,h,e], k, v, near[s,t]; chosen by 1 x 8 x 1)
 *   -->
 *     bit_value[bit] = 2 ^ bit
 *     near_words[s,w] = sum[bit] (s - (16 * w + bit) < 256 or 16 * w + bit < 4) * bit_value[bit]
 *     o[b,s,h,c] = attend(q[b,s,h,e], k, v, near_words[s,w]; chosen by 1 x 8 x 1 in words)
 *
 * Elements for MOEC_WORD keys or more stay. A word is exact in a float. Bits after the last element
 * may be any.
 */
#include "analysis/def_use.h"
#include "base/must.h"
#include "ir/call.h"
#include "passes.h"

typedef struct MaskWords {
    Program *program;
    const DefUse *def_use;
    Tensor *bit_values; /* NULL: not defined yet */
} MaskWords;

static bool reads_fine_mask(const Statement *statement, const Tensor *mask) {
    const AttendOptions *options = &statement->attention;
    return statement->kind == STATEMENT_CALL && options->chosen && !options->position &&
           options->block[2] < MOEC_WORD &&
           call_input(statement, attend_chosen(options))->tensor == mask;
}

/* The number of statements that read the mask in such a way, or in any. */
static int count_readers(const MaskWords *all, const Tensor *mask, bool fine) {
    const List *accesses = &all->def_use->accesses[mask->id];
    int count = 0;
    LIST_EACH(const TensorAccess, access, accesses) {
        const Statement *statement = all->def_use->points[access->position].statement;
        count += !access->write && (!fine || reads_fine_mask(statement, mask));
    }
    return count;
}

static Expr *bit_value(MaskWords *all, Index *bit) {
    Program *program = all->program;
    if (!all->bit_values) {
        Block made = {{0}};
        Index *own = index_over(program, bit->axis);
        all->bit_values =
            tensor_over(program, "bit_value", ROLE_TEMP, TYPE_REAL, &own, 1, (Span){0});
        statement_assign(
            program, &made, expr_read_indices(program, all->bit_values, &own),
            expr_apply(program, OP_POW, expr_number(program, 2), expr_index(program, own), NULL),
            (Span){0})
            ->in_double = true;
        list_insert(program->arena, &program->body.statements, 0, &made.statements);
    }
    return expr_read_indices(program, all->bit_values, &bit);
}

/* Can the equation of the mask become part of that of the words? */
static bool is_substitutable(const Statement *maker) {
    return maker->kind == STATEMENT_LOOP && maker->reduction == REDUCE_NONE && !maker->accumulate &&
           !maker->in_double && !statement_is_scatter(maker);
}

/* Defines the words of a mask after it, or instead of it. */
static Tensor *define_words(MaskWords *all, Tensor *mask, const TensorAccess *write, bool instead) {
    Program *program = all->program;
    const ProgramPoint *point = &all->def_use->points[write->position];
    const Statement *maker = point->statement;
    const int last = mask->rank - 1;
    Index *from[MAX_RANK];
    Expr *to[MAX_RANK], *subs[MAX_RANK];
    Axis *axes[MAX_RANK];
    int count = 0;
    for (int i = 0; i <= last; i++) {
        axes[i] = mask->axes[i];
        subs[i] = write->expr->args[i];
        if (subs[i]->kind != EXPR_INDEX || subs[i]->index->of_repeat) continue;
        from[count] = subs[i]->index;
        subs[i] = to[count++] = expr_index(program, index_over(program, axes[i]));
    }
    MUST(count > 0 && from[count - 1] == write->expr->args[last]->index);
    axes[last] = axis_new(program, "word", (axes[last]->size + MOEC_WORD - 1) / MOEC_WORD,
                          AXIS_PLAIN, mask->span);
    Index *word = index_over(program, axes[last]),
          *bit = index_over(program, axis_new(program, "bit", MOEC_WORD, AXIS_PLAIN, mask->span));
    Expr *element = expr_apply(program, OP_ADD,
                               expr_apply(program, OP_MUL, expr_number(program, MOEC_WORD),
                                          expr_index(program, word), NULL),
                               expr_index(program, bit), NULL);
    subs[last] = to[count - 1] = element;
    Expr *value = instead ? expr_substitute(program, maker->value, from, to, count)
                          : expr_read(program, mask, subs);
    if (!expr_is_truth(value))
        value = expr_apply(program, OP_NE, value, expr_number(program, 0), NULL);
    subs[last] = expr_index(program, word);
    Tensor *words = tensor_new(program, arena_format(program->arena, "%s_words", mask->name),
                               ROLE_TEMP, TYPE_REAL, mask->rank, axes, mask->span);
    Block made = {{0}};
    Statement *statement =
        statement_loop(program, &made, expr_read(program, words, subs), false, REDUCE_SUM, &bit, 1,
                       expr_apply(program, OP_MUL, value, bit_value(all, bit), NULL), maker->span);
    statement->application = maker->application;
    List *block = &point->block->statements;
    list_insert(program->arena, block, list_find(block, maker) + 1, &made.statements);
    if (instead) list_remove(block, maker);
    return words;
}

static void read_bits(const MaskWords *all, const Tensor *mask, Tensor *words) {
    LIST_EACH(const TensorAccess, access, &all->def_use->accesses[mask->id]) {
        Statement *statement = all->def_use->points[access->position].statement;
        AttendOptions *options = &statement->attention;
        if (access->write || !reads_fine_mask(statement, mask)) continue;
        Expr **operand = (Expr **)&statement->inputs.items[attend_chosen(options)];
        Expr *subs[MAX_RANK];
        for (int i = 0; i < mask->rank; i++) subs[i] = (*operand)->args[i];
        subs[mask->rank - 1] =
            expr_index(all->program, index_over(all->program, words->axes[mask->rank - 1]));
        *operand = expr_read(all->program, words, subs);
        options->words = true;
    }
}

void mask_words(Program *program) {
    if (!program->target->mask_words) return;
    MaskWords all = {.program = program, .def_use = def_use_new(program)};
    for (int i = 0; i < all.def_use->tensor_count; i++) {
        Tensor *mask = program->tensors.items[i];
        const int readers = count_readers(&all, mask, true);
        if (readers == 0 || !def_use_is_plain(all.def_use, mask)) continue;
        const TensorAccess *write = all.def_use->writes[i].items[0];
        const Expr *end = write->expr->args[mask->rank - 1];
        if (end->kind != EXPR_INDEX || end->index->of_repeat) continue;
        const bool instead = readers == count_readers(&all, mask, false) &&
                             is_substitutable(all.def_use->points[write->position].statement);
        read_bits(&all, mask, define_words(&all, mask, write, instead));
    }
}
