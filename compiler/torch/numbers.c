/* numbers: the numbers of a program that depend on the batch size, on the context length or on
 * options, found by comparing it with programs of other sizes and options.
 *
 *     loss = total * 0.0005     16 sequences of 128 tokens
 *     loss = total * 0.00025    32 sequences of 128 tokens   -->  1 / (sequences * length)
 *     loss = total * 0.00025    16 sequences of 256 tokens
 *
 * An option is free if its other values change nothing but such numbers and repeat counts. Values
 * of another sign are not free: `if window > 0` applies or omits an equation.
 */
#include "torch/torch.h"

#include "ir/call.h"

#include <math.h>
#include <string.h>

/* ---- the numbers of a program, in a fixed order ---- */

/* Sizes of a run may change numbers and subscripts; free options may change numbers and fields, of
 * which some are counts. */
typedef enum SlotKind { SLOT_NUMBER, SLOT_SUBSCRIPT, SLOT_FIELD, SLOT_COUNT, SLOT_FIXED } SlotKind;

/* A number, by the address of its expression or field. */
typedef struct TorchSlot {
    const void *key;
    double value;
    SlotKind kind;
} TorchSlot;

/* The program without its numbers, as text, and its numbers. */
typedef struct Slots {
    Arena *arena;
    Text shape;
    List list;      /* TorchSlot * */
    List decisions; /* double[3]: see Unit; no two are equal */
} Slots;

static void add_slot(Slots *slots, const void *key, double value, SlotKind kind) {
    const TorchSlot slot = {key, value, kind};
    list_copy(slots->arena, &slots->list, &slot, sizeof slot);
}

static void expr_slots(Slots *slots, const Expr *expr, SlotKind kind) {
    bool read = expr->kind == EXPR_READ;
    if (expr->kind == EXPR_NUMBER) add_slot(slots, expr, expr->number, kind);
    text_add(&slots->shape, " %d:%d", (int)expr->kind, read ? expr->tensor->id : (int)expr->op);
    if (expr->kind == EXPR_INDEX) text_add(&slots->shape, "%s", expr->index->name);
    for (int i = 0; i < expr->count; i++) {
        /* The number of an iteration, x[4,b,s,d], is not printed. */
        const bool step = read && !i && expr->tensor->role == ROLE_TEMP &&
                          expr->tensor->axes[0]->kind == AXIS_REPEAT;
        expr_slots(slots, expr->args[i], step ? SLOT_NUMBER : read ? SLOT_SUBSCRIPT : kind);
    }
    text_add(&slots->shape, ";");
}

static void list_slots(Slots *slots, const List *exprs) {
    for (int i = 0; i < exprs->count; i++) expr_slots(slots, exprs->items[i], SLOT_SUBSCRIPT);
}

static void call_slots(Slots *slots, const Statement *statement) {
    const AttendOptions *attend = &statement->attention;
    const Expr *input = statement->inputs.count ? statement->inputs.items[0] : NULL;
    text_add(&slots->shape, "%s %d %d", statement->row->name, (int)attend->mask,
             statement->top.dimension);
    add_slot(slots, &attend->window, (double)attend->window, SLOT_COUNT);
    add_slot(slots, &attend->scale, attend->scale, SLOT_FIELD);
    add_slot(slots, &attend->cap, attend->cap, SLOT_FIELD);
    add_slot(slots, NULL, (double)attend->best, SLOT_FIXED);
    for (int i = 0; i < 3; i++) add_slot(slots, NULL, (double)attend->block[i], SLOT_FIXED);
    bool positions = input && input->count &&
                     input->tensor->axes[statement->top.dimension]->kind == AXIS_SEQUENCE;
    add_slot(slots, &statement->top.k, (double)statement->top.k,
             positions ? SLOT_FIXED : SLOT_COUNT);
}

static void block_slots(Slots *slots, const Block *block) {
    LIST_EACH(const Statement, statement, &block->statements) {
        text_add(&slots->shape, "\n%d %d %d", (int)statement->kind, (int)statement->reduction,
                 statement->reverse);
        for (int j = 0; j < statement->loop_count; j++)
            text_add(&slots->shape, " %s", statement->loops[j]->name);
        if (statement->target) expr_slots(slots, statement->target, SLOT_SUBSCRIPT);
        if (statement->value) expr_slots(slots, statement->value, SLOT_NUMBER);
        if (statement->row) call_slots(slots, statement);
        list_slots(slots, &statement->inputs);
        list_slots(slots, &statement->outputs);
        block_slots(slots, &statement->body);
    }
}

static bool has_decision(const List *decisions, const double *decision) {
    for (int i = 0; i < decisions->count; i++)
        if (!memcmp(decisions->items[i], decision, 3 * sizeof *decision)) return true;
    return false;
}

static Slots slots_of(Arena *arena, const TorchView *view) {
    Slots slots = {.arena = arena, .shape.arena = arena};
    const Program *program = view->program;
    LIST_EACH(const Tensor, tensor, &program->tensors) {
        text_add(&slots.shape, "\n%d %s", (int)tensor->role, tensor->path ? tensor->path : "");
        for (int j = 0; j < tensor->rank; j++) {
            const Axis *axis = tensor->axes[j];
            text_add(&slots.shape, " %d", (int)axis->kind);
            add_slot(&slots, axis, (double)axis->size,
                     axis->kind == AXIS_REPEAT ? SLOT_COUNT : SLOT_FIXED);
        }
        add_slot(&slots, NULL, tensor->init.a, SLOT_FIXED);
        add_slot(&slots, NULL, tensor->init.b, SLOT_FIXED);
    }
    block_slots(&slots, &program->body);
    LIST_EACH(const double, decision, &view->decisions) {
        if (has_decision(&slots.decisions, decision)) continue;
        list_copy(arena, &slots.decisions, decision, 3 * sizeof *decision);
    }
    return slots;
}

static double slot_value(const Slots *slots, int i) {
    return ((TorchSlot *)slots->list.items[i])->value;
}

static bool same_shape(const Slots *one, const Slots *other) {
    return one->list.count == other->list.count && !strcmp(one->shape.text, other->shape.text);
}

/* The other program may compare more numbers, as a repeat with more iterations does, but not round
 * others. */
static bool same_decisions(const Slots *one, const Slots *other) {
    for (int i = 0; i < one->decisions.count; i++)
        if (!has_decision(&other->decisions, one->decisions.items[i])) return false;
    LIST_EACH(const double, decision, &other->decisions) {
        bool rounds = decision[0] == OP_FLOOR || decision[0] == OP_MOD;
        if (rounds && !has_decision(&one->decisions, decision)) return false;
    }
    return true;
}

/* ---- how a number depends on a variable ---- */

static bool near(double a, double b, double limit) {
    return a == b || fabs(a - b) <= limit * fabs(b);
}

/* The power p with after = before * (to / from)^p. */
static bool find_power(double before, double after, double from, double to, double *power) {
    static const double powers[] = {1, -1, 0.5, -0.5, 2, -2};
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) {
        *power = powers[i];
        if (near(after, before * pow(to / from, *power), 1e-12)) return true;
    }
    return false;
}

/* The difference of one number between two programs as a term of it. Equal numbers: no term. */
static bool add_factor(Torch *torch, TorchNumber *number, const TorchVariable *variable,
                       double before, double after, double to, bool count) {
    double from = variable->now, power = 0;
    bool option = variable->path != NULL;
    if (near(after, before, option ? 1e-8 : 0)) return true;
    if (number->added || (count && variable->real)) return false;
    if (!find_power(before, after, from, to, &power) ||
        (count && (power != 1 || fmod(before, from) != 0))) {
        if (!near(after - before, to - from, 1e-9) || number->terms.count) return false;
        number->added = variable;
        return true;
    }
    list_copy(torch->arena, &number->terms, &(TorchTerm){variable, power}, sizeof(TorchTerm));
    return true;
}

/* Adds a term of the variable to each number that differs. An option of which one does not fit adds
 * none, and the result is false. */
static bool add_factors(Torch *torch, TorchNumber *numbers, const TorchVariable *variable,
                        const Slots *before, const Slots *after, double to) {
    const int count = before->list.count;
    const bool option = variable->path != NULL;
    TorchNumber *made = arena_alloc(torch->arena, (size_t)(count + 1) * sizeof *made);
    memcpy(made, numbers, (size_t)count * sizeof *made);
    for (int i = 0; i < count; i++) {
        SlotKind kind = ((TorchSlot *)before->list.items[i])->kind;
        double was = slot_value(before, i), is = slot_value(after, i);
        bool field = kind == SLOT_FIELD || kind == SLOT_COUNT;
        bool changes = kind == SLOT_NUMBER || (option ? field : kind == SLOT_SUBSCRIPT);
        if (!changes && !option) continue;
        bool good = !changes || made[i].lost
                        ? near(is, was, 1e-8)
                        : add_factor(torch, &made[i], variable, was, is, to, kind == SLOT_COUNT);
        if (!good && option) return false;
        made[i].lost |= !good;
    }
    memcpy(numbers, made, (size_t)count * sizeof *made);
    return true;
}

static double torch_number_value(const TorchNumber *number) {
    if (number->added) return number->factor + number->added->now;
    double value = number->factor;
    LIST_EACH(const TorchTerm, term, &number->terms) value *= pow(term->variable->now, term->power);
    return value;
}

/* ---- the variables ---- */

/* The numbers of the program with the current values of the options; false: it is refused. */
static bool read_slots(Torch *torch, const TorchReader *reader, long batch, long context,
                       Slots *slots) {
    TorchView view = {0};
    bool good = reader->open(reader->data, batch, context, &torch->variables, &view);
    if (good) *slots = slots_of(torch->arena, &view);
    reader->close(&view);
    return good;
}

static TorchVariable *add_variable(Torch *torch, const char *path, double written, bool real) {
    const TorchVariable variable = {path, written, written, real};
    return list_copy(torch->arena, &torch->variables, &variable, sizeof variable);
}

static void try_size(Torch *torch, const TorchReader *reader, TorchNumber *numbers,
                     const Slots *own, bool of_batch) {
    const Program *program = torch->program;
    long size = of_batch ? program->batch->size : program->sequence->size;
    const TorchVariable *variable = add_variable(torch, NULL, (double)size, false);
    Slots slots;
    if (read_slots(torch, reader, of_batch ? 3 * size : 0, of_batch ? 0 : 3 * size, &slots) &&
        same_shape(own, &slots))
        add_factors(torch, numbers, variable, own, &slots, 3.0 * (double)size);
}

/* Keeps the option as a variable if it is free. Its value then stays changed: later options are
 * tried together with it. */
static void try_option(Torch *torch, const TorchReader *reader, TorchNumber *numbers,
                       const Setting *setting, Slots *last) {
    double written = setting->number;
    TorchVariable *option = add_variable(torch, setting->path, written, setting->real);
    for (int sign = 1; sign >= -1; sign -= 2) {
        double other = setting->real ? written * (1 + 0.25 * sign) : written + sign;
        Slots slots;
        option->now = other;
        bool good = other != 0 && read_slots(torch, reader, 0, 0, &slots) &&
                    same_shape(last, &slots) && same_decisions(last, &slots);
        option->now = written;
        if (!good) continue;
        if (!add_factors(torch, numbers, option, last, &slots, other)) break;
        option->now = other;
        *last = slots;
        return;
    }
    torch->variables.count--;
}

bool is_equation_option(const char *path) {
    return strncmp(path, "train.", 6) != 0 && strncmp(path, "inference.", 10) != 0;
}

static bool may_be_free(const Setting *setting) {
    return setting->kind == VALUE_NUMBER && !setting->unread && setting->number != 0 &&
           is_equation_option(setting->path);
}

/* The factors, from the values in the model itself; lists the numbers with a variable. */
static void list_numbers(Torch *torch, TorchNumber *numbers, const Slots *own) {
    LIST_EACH(TorchVariable, variable, &torch->variables) variable->now = variable->written;
    for (int i = 0; i < own->list.count; i++) {
        TorchNumber *number = &numbers[i];
        const TorchSlot *slot = own->list.items[i];
        if (!slot->key || number->lost || (!number->added && !number->terms.count)) continue;
        number->key = slot->key;
        number->factor = !number->added;
        double other = torch_number_value(number);
        number->factor = number->added ? slot->value - other : slot->value / other;
        double whole = round(number->factor);
        if (fabs(number->factor - whole) < 1e-9 && whole != 0) number->factor = whole;
        list_push(torch->arena, &torch->numbers, number);
    }
}

/* Whether the terms predict the numbers when all options have other values. */
static bool terms_hold(Torch *torch, const TorchReader *reader, const TorchNumber *numbers,
                       const Slots *own) {
    Slots slots;
    LIST_EACH(TorchVariable, variable, &torch->variables)
        if (variable->path) variable->now *= variable->real ? 0.75 : 1;
    bool good = read_slots(torch, reader, 0, 0, &slots) && same_shape(own, &slots);
    for (int i = 0; i < own->list.count && good; i++) {
        double expected = numbers[i].key ? torch_number_value(&numbers[i]) : slot_value(own, i);
        good = near(slot_value(&slots, i), expected, 1e-8);
    }
    list_numbers(torch, (TorchNumber *)numbers, &(Slots){0});
    return good;
}

const TorchNumber *torch_number(const Torch *torch, const void *key) {
    return list_find_by(&torch->numbers, offsetof(TorchNumber, key), key);
}

bool depends_on_run(const TorchNumber *number) {
    bool run = number && number->added && !number->added->path;
    for (int i = 0; number && i < number->terms.count; i++)
        run |= !((TorchTerm *)number->terms.items[i])->variable->path;
    return run;
}

void find_numbers(Torch *torch, const TorchReader *reader, const TorchView *view) {
    const Slots own = slots_of(torch->arena, view);
    const size_t bytes = (size_t)(own.list.count + 1) * sizeof(TorchNumber);
    for (int options = 1; options >= 0; options--) {
        TorchNumber *numbers = arena_alloc(torch->arena, bytes);
        Slots last = own;
        torch->variables = torch->numbers = (List){0};
        try_size(torch, reader, numbers, &own, true);
        try_size(torch, reader, numbers, &own, false);
        for (int i = 0; i < view->settings->count && options; i++)
            if (may_be_free(view->settings->items[i]))
                try_option(torch, reader, numbers, view->settings->items[i], &last);
        list_numbers(torch, numbers, &own);
        if (!options || terms_hold(torch, reader, numbers, &own)) return;
    }
}
