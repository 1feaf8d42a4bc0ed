/* The verifier of lowered programs: every kind of fault, planted in the module of a real model, is reported; random models
 * (random_spec.h, random_forms.h) have none. MOEC_MODELS and MOEC_SEED set their number and the first seed. Runs in the root of the
 * project. */
#include <setjmp.h>
#include <stdarg.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/driver.h"
#include "module/lowered.h"
#include "schedule/nest.h"

#include "random_forms.h"

/* ---- modules ---- */

static const Target *const targets[] = {&target_processor, &target_device};

/* A model, lowered up to a pass. */
typedef struct Planted {
    MoecCompiler *compiler;
    Module *module;
    Entry *entry;
    Arena *arena;
} Planted;

static Fault fault_of(const Planted *planted) {
    for (int i = 0; i < planted->module->kernels.count; i++)
        ((LoopKernel *)planted->module->kernels.items[i])->state = 0;
    module_changed(planted->module);
    return module_check(planted->module, planted->compiler->scratch);
}

static Planted lowered(const char *spec, const char *model, MoecGraph graph, const Target *target, const char *pass) {
    Planted planted = {.compiler = moec_open(spec, model, NULL, 0, NULL)};
    MoecProgram *program = moec_compile(planted.compiler, graph, 0, 0, graph == MOEC_DECODE);
    assert_non_null(program);
    planted.module = lowered_module(planted.compiler, &program, 1, target, pass);
    assert_non_null(planted.module);
    planted.entry = planted.module->entries.items[0];
    planted.arena = planted.module->arena;
    assert_null(fault_of(&planted).what);
    return planted;
}

/* The fault is found in a kernel or step. */
static void expect(Planted *planted, FaultKind kind) {
    const Fault fault = fault_of(planted);
    assert_non_null(fault.what);
    assert_string_equal(fault_name(fault.kind), fault_name(kind));
    assert_true(fault.kernel || fault.step);
    assert_true(strstr(fault_text(planted->arena, &fault), fault.what) != NULL);
    moec_close(planted->compiler);
}

/* ---- positions of faults ---- */

static bool always(const FormNode *node, const Term *term) {
    (void)node;
    (void)term;
    return true;
}

/* The first part of a term of that kind, or NULL. */
static const Term *part_of(const FormNode *node, const Term *term, bool (*wanted)(const FormNode *node, const Term *term)) {
    if (wanted(node, term)) return term;
    for (int i = 0; i < term->count; i++) {
        const Term *found = part_of(node, term->args[i], wanted);
        if (found) return found;
    }
    return NULL;
}

/* A value of a node, and its part. */
typedef struct Place {
    FormNode *node, *before; /* before: in the same block, or NULL */
    FormBlock *block;
    int value;
    const Term *part;
} Place;

static bool find_in(FormBlock *block, FormKind kind, int value, bool (*wanted)(const FormNode *node, const Term *term),
                    Place *place) {
    FormNode *before = NULL;
    for (FormNode *node = block->first; node; before = node, node = node->next) {
        const Term *term = value >= 0 ? node->values[value] : NULL;
        const Term *part = node->kind == kind && term ? part_of(node, term, wanted) : NULL;
        if (node->kind == kind && (part || value < 0)) {
            *place = (Place){node, before, block, value, part};
            return true;
        }
        if (find_in(&node->body, kind, value, wanted, place)) return true;
    }
    return false;
}

/* The first such position in a launched kernel; value: -1: any node of that kind. */
static Place find(const Planted *planted, FormKind kind, int value, bool (*wanted)(const FormNode *node, const Term *term)) {
    Place place = {0};
    for (int i = 0; i < planted->module->kernels.count; i++) {
        LoopKernel *kernel = planted->module->kernels.items[i];
        if (!kernel->form.is_store && find_in(&kernel->form.block, kind, value, wanted, &place)) return place;
    }
    fail_msg("no such position");
    return place;
}

static void replace(const Planted *planted, const Place *place, const Term *by) {
    const Term **value = &place->node->values[place->value];
    *value = term_replace(planted->arena, *value, place->part, by);
}

static void remove_node(const Place *place) {
    FormNode *const next = place->node->next;
    *(place->before ? &place->before->next : &place->block->first) = next;
    if (!next) place->block->last = place->before;
}

static HostStep *find_step(List *steps, HostStepKind kind, bool (*wanted)(const HostStep *step)) {
    for (int i = 0; i < steps->count; i++) {
        HostStep *step = steps->items[i], *inside = find_step(&step->body, kind, wanted);
        if (step->kind == kind && wanted(step)) return step;
        if (inside) return inside;
    }
    return NULL;
}

static bool any_step(const HostStep *step) {
    (void)step;
    return true;
}

/* ---- faults of kernels ---- */

static bool is_memory(const FormNode *node, const Term *term) {
    (void)node;
    return term->op == TERM_ELEMENT && term->args[0]->op == TERM_NAME && term->args[0]->variable->tensor &&
           term->args[0]->variable->tensor->role != ROLE_TEMP;
}

static bool is_loop_name(const FormNode *node, const Term *term) {
    (void)node;
    return term->op == TERM_NAME && term->type == T_I64 && term->variable->wanted;
}

/* x[s] becomes x[s + 1]. */
static void test_offset(void **state) {
    (void)state;
    Planted planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, &target_processor, "parallel");
    const Place place = find(&planted, FORM_SET, 0, is_memory);
    const Term *element = place.part, *one = term_whole(planted.arena, 1);
    replace(&planted, &place,
            term_element(planted.arena, element->args[0], term(planted.arena, TERM_ADD, element->args[1], one)));
    expect(&planted, FAULT_BOUNDS);
}

static bool is_row(const FormNode *node, const Term *term) {
    return node->stores && term->op == TERM_MUL && term->args[1]->op == TERM_NUMBER && term->args[1]->whole > 2;
}

/* y[s * 64 + d] becomes y[s * 63 + d]; the rows of a product become longer. */
static void test_stride(void **state) {
    (void)state;
    Planted planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, &target_processor, "parallel");
    const Place place = find(&planted, FORM_SET, 0, is_row);
    replace(&planted, &place,
            term(planted.arena, TERM_MUL, place.part->args[0], term_whole(planted.arena, place.part->args[1]->whole - 1)));
    expect(&planted, FAULT_WRITER);
    planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, &target_device, "names");
    HostStep *step = find_step(&planted.entry->steps, STEP_PRODUCT, any_step);
    ((Product *)planted.module->products.items[step->product.row])->a_m++;
    expect(&planted, FAULT_BOUNDS);
}

static bool is_slot(const FormNode *node, const Term *term) {
    (void)node;
    return term->op == TERM_BIT_AND;
}

/* x[(i & 1) * 64 + d] becomes x[i * 64 + d]. */
static void test_slot(void **state) {
    (void)state;
    Planted planted = lowered("models/gpt2.moe", "gpt2_small", MOEC_TRAIN, &target_processor, "parallel");
    const Place place = find(&planted, FORM_SET, 0, is_slot);
    replace(&planted, &place, place.part->args[0]);
    expect(&planted, FAULT_BOUNDS);
}

static bool is_guarded(const FormNode *node, const Term *term) {
    (void)node;
    return term->op == TERM_SELECT && term->args[1]->op == TERM_ELEMENT && term->args[0]->op == TERM_GE;
}

/* s - 1 >= 0 ? x[s - 1] : 0 becomes x[s - 1]. */
static void test_guard(void **state) {
    (void)state;
    Planted planted = lowered("models/hybrid.moe", "mamba2_small", MOEC_FORWARD, &target_device, "loops");
    const Place place = find(&planted, FORM_LET, 0, is_guarded);
    replace(&planted, &place, place.part->args[1]);
    expect(&planted, FAULT_BOUNDS);
}

/* An integer is stored as a float. */
static void test_type(void **state) {
    (void)state;
    Planted planted = lowered("models/tiny.moe", "tiny", MOEC_FORWARD, &target_processor, "loops");
    const Place place = find(&planted, FORM_SET, 1, always);
    place.node->values[1] = term_whole(planted.arena, 1);
    expect(&planted, FAULT_SCOPE);
}

/* A variable of one kernel is used in another one; an array that is no parameter. */
static void test_scope(void **state) {
    (void)state;
    Planted planted = lowered("models/tiny.moe", "tiny", MOEC_FORWARD, &target_processor, "loops");
    const Place place = find(&planted, FORM_SET, 0, is_loop_name);
    replace(&planted, &place, term_variable(planted.arena, T_I64, "other"));
    expect(&planted, FAULT_SCOPE);
    planted = lowered("models/tiny.moe", "tiny", MOEC_FORWARD, &target_processor, "names");
    LoopKernel *kernel = planted.module->kernels.items[0];
    kernel->params.count--;
    HostStep *step = find_step(&planted.entry->steps, STEP_LAUNCH, any_step);
    step->launch.arguments.count--;
    expect(&planted, FAULT_SCOPE);
}

static bool is_owner(const FormNode *node, const Term *term) {
    (void)node;
    return term->op == TERM_EQ && term->args[0]->op == TERM_THREAD;
}

/* All threads of a block store its result. */
static void test_owner(void **state) {
    (void)state;
    Planted planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, &target_device, "owners");
    const Place place = find(&planted, FORM_IF, 0, is_owner);
    *place.node = *place.node->body.first;
    expect(&planted, FAULT_WRITER);
}

/* A barrier is removed; a barrier that only some threads reach. */
static void test_barrier(void **state) {
    (void)state;
    Planted planted = lowered("tests/layers.moe", "groups", MOEC_DECODE, &target_device, "names");
    Fault fault = {0};
    for (int i = 0; i < planted.module->kernels.count && !fault.what; i++) {
        LoopKernel *kernel = planted.module->kernels.items[i];
        Place place;
        while (!fault.what && find_in(&kernel->form.block, FORM_BARRIER, -1, always, &place)) {
            remove_node(&place);
            fault = fault_of(&planted);
        }
    }
    expect(&planted, FAULT_BARRIER);
    planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, &target_device, "names");
    const Place place = find(&planted, FORM_IF, 0, is_owner);
    form_add(planted.arena, &place.node->body, FORM_BARRIER);
    expect(&planted, FAULT_BARRIER);
}

static bool is_next_slot(const FormNode *node, const Term *term) {
    (void)node;
    return term->op == TERM_BIT_AND && term->args[0]->op == TERM_ADD;
}

/* before[(i + 1) & 1] becomes before[i & 1] or before[(i + 2) & 1], which other threads read. */
static void test_carried_slots(void **state) {
    (void)state;
    for (int distance = 0; distance <= 2; distance += 2) {
        Planted planted = lowered("tests/layers.moe", "scores_of_before", MOEC_DECODE, &target_device, "names");
        Fault fault = {0};
        for (int i = 0; i < planted.module->kernels.count && !fault.what; i++) {
            LoopKernel *kernel = planted.module->kernels.items[i];
            Place place;
            if (!find_in(&kernel->form.block, FORM_SET, 0, is_next_slot, &place)) continue;
            const Term *index = place.part->args[0]->args[0], *one = term_whole(planted.arena, 1),
                       *moved = term(planted.arena, TERM_ADD, index, term_whole(planted.arena, distance));
            replace(&planted, &place, term(planted.arena, TERM_BIT_AND, distance ? moved : index, one));
            fault = fault_of(&planted);
        }
        expect(&planted, FAULT_BARRIER);
    }
}

static bool is_parallel(const FormNode *node, const Term *term) {
    (void)term;
    return node->run & RUN_PARALLEL || node->by == BY_ALL;
}

static const Buffer *buffers;

static bool is_stored(const FormNode *node, const Term *term) {
    const bool writes = node->kind == FORM_SET || node->values[0]->op == TERM_WRITE;
    const Tensor *tensor = term->op == TERM_ELEMENT && term->args[0]->op == TERM_NAME ? term->args[0]->variable->tensor : NULL;
    return writes && tensor && !term->args[0]->variable->wanted && buffers[tensor->id].used;
}

/* An iteration of a parallel loop reads an element that another one stores: on a CPU, between blocks of a GPU. */
static void test_race(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        Planted planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, targets[i], "names");
        Place store = {0};
        buffers = planted.entry->buffers;
        const Place loop = find(&planted, FORM_FOR, 1, is_parallel);
        assert_true(find_in(&loop.node->body, FORM_DO, 0, is_stored, &store) ||
                    find_in(&loop.node->body, FORM_SET, 0, is_stored, &store));
        const Term *first = term_element(planted.arena, store.part->args[0], term_whole(planted.arena, 0));
        FormNode *let = form_add(planted.arena, &loop.node->body, FORM_LET);
        let->name = term_variable(planted.arena, first->type, "first");
        let->values[0] = first;
        expect(&planted, FAULT_BARRIER);
    }
}

/* ---- faults of the map ---- */

static const Schedule *mapped(MoecCompiler **compiler, const Target *target) {
    *compiler = moec_open("models/tiny.moe", "tiny", NULL, 0, NULL);
    MoecProgram *program = moec_compile(*compiler, MOEC_TRAIN, 0, 0, 0);
    assert_non_null(program);
    moec_lower(*compiler, program, target);
    const Schedule *schedule = moec_schedule(*compiler, program);
    assert_null(map_fault((*compiler)->arena, schedule));
    return schedule;
}

/* The first kernel with a nest that is distributed so; its launch and the nest. */
static Kernel *kernel_by(const List *units, LoopBy by, LaunchMap **launch, Nest **nest) {
    for (int i = 0; i < units->count; i++) {
        const ScheduleUnit *unit = units->items[i];
        for (int j = 0; unit->kernel && j < unit->kernel->launches.count; j++) {
            *launch = unit->kernel->launches.items[j];
            *nest = (*launch)->nest;
            if ((*nest)->map.by == by) return unit->kernel;
        }
        Kernel *inside = kernel_by(&unit->body, by, launch, nest);
        if (inside) return inside;
    }
    return NULL;
}

typedef struct MapFault {
    LoopBy by; /* of the loops of a nest that is changed */
    const char *found;
} MapFault;

/* A launch without whole warps; a nest without a launch; loops of other threads; joined loops that do not exist, or whose iterations
 * add to one element; vectors of a width that the loop is no multiple of; a sum that is not independent. */
static void test_map(void **state) {
    (void)state;
    static const MapFault faults[] = {{BY_BLOCKS, "a launch of"},    {BY_BLOCKS, "exactly one launch"},
                                      {BY_BLOCKS, "wrong threads"},  {BY_ALL, "does not have"},
                                      {BY_COLUMNS, "same element"},  {BY_ALL, "several iterations together"},
                                      {BY_COLUMNS, "not independent"}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        MoecCompiler *compiler;
        LaunchMap *launch;
        Nest *nest;
        const Schedule *schedule = mapped(&compiler, &target_device);
        Kernel *kernel = kernel_by(&schedule->units, faults[i].by, &launch, &nest);
        assert_non_null(kernel);
        if (i == 0) launch->launch.threads = 48;
        if (i == 1) kernel->launches.count = 0;
        if (i == 2) nest->map.by = BY_THREADS;
        if (i == 3 || i == 4) nest->map.joined++;
        if (i == 5) nest->map.width = 7;
        if (i == 6) ((Nest *)last_joined(nest)->children.items[0])->map.independent = true;
        const char *fault = map_fault(compiler->arena, schedule);
        assert_non_null(fault);
        if (!strstr(fault, faults[i].found)) fail_msg("%s, not %s", fault, faults[i].found);
        moec_close(compiler);
    }
    MoecCompiler *compiler;
    mapped(&compiler, &target_processor);
    moec_close(compiler);
}

/* ---- faults of host steps ---- */

/* A gradient that several kernels add to is not cleared; two steps in the wrong order. */
static void test_clear(void **state) {
    (void)state;
    Planted planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, &target_processor, "names");
    assert_true(planted.entry->gradients.count > 0);
    planted.entry->gradients.count = 0;
    expect(&planted, FAULT_FLOW);
    planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, &target_device, "names");
    List *steps = &planted.entry->steps;
    void *first = steps->items[0];
    steps->items[0] = steps->items[steps->count - 1];
    steps->items[steps->count - 1] = first;
    expect(&planted, FAULT_FLOW);
}

/* A buffer gets the memory of another one that is in use. */
static void test_lifetime(void **state) {
    (void)state;
    Planted planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, &target_processor, "names");
    Buffer *first = NULL;
    for (int i = 0; i < planted.entry->program->tensors.count; i++) {
        Buffer *buffer = &planted.entry->buffers[i];
        const bool kept = buffer->tensor->kept && buffer->block == MOEC_ARENA && buffer->used;
        if (kept && first) buffer->offset = first->offset;
        if (kept) first = buffer;
    }
    expect(&planted, FAULT_LIFETIME);
}

/* The program of one process of a mesh, and an exchange of rows in it. */
typedef struct PlantedExchange {
    Planted planted;
    List *steps; /* with the exchange */
    int begin, end;
} PlantedExchange;

static bool begins_rows(const HostStep *step) {
    return step->call.exchange && step->operands.count == 3; /* rows, table, rows */
}

static List *list_with(List *steps, const HostStep *wanted) {
    for (int i = 0; i < steps->count; i++) {
        HostStep *step = steps->items[i];
        List *inside = step == wanted ? steps : list_with(&step->body, wanted);
        if (inside) return inside;
    }
    return NULL;
}

static HostStep *step_at(const PlantedExchange *exchange, int at) {
    assert_true(at < exchange->steps->count);
    return exchange->steps->items[at];
}

static bool ends_exchange(const HostStep *step) {
    return step->kind == STEP_CALL && step->call.begun;
}

static PlantedExchange exchanging(void) {
    Planted planted = {.compiler = moec_open("models/tiny.moe", "tiny_sigmoid_moe", NULL, 0, NULL)};
    assert_true(moec_set_mesh(planted.compiler, "data=4,expert=4", 0));
    moec_divide(planted.compiler, 1);
    MoecProgram *program = moec_compile(planted.compiler, MOEC_TRAIN, 0, 0, 0);
    planted.module = lowered_module(planted.compiler, &program, 1, &target_processor, "names");
    planted.entry = planted.module->entries.items[0];
    planted.arena = planted.module->arena;
    assert_null(fault_of(&planted).what);
    const HostStep *begin = find_step(&planted.entry->steps, STEP_CALL, begins_rows);
    PlantedExchange exchange = {.planted = planted, .steps = list_with(&planted.entry->steps, begin)};
    while (step_at(&exchange, exchange.begin) != begin) exchange.begin++;
    while (!ends_exchange(step_at(&exchange, exchange.end)) || step_at(&exchange, exchange.end)->call.begun != begin) exchange.end++;
    assert_true(exchange.end > exchange.begin + 1);
    return exchange;
}

/* Moves a step to the position after others or before them. */
static void move_step(const PlantedExchange *exchange, int from, int to) {
    HostStep *step = step_at(exchange, from);
    for (int i = from; i != to; i += from < to ? 1 : -1) exchange->steps->items[i] = step_at(exchange, i + (from < to ? 1 : -1));
    exchange->steps->items[to] = step;
}

/* A begin without its end, an end before its begin, two ends of one begin, ends in another order. */
static void test_exchange_pairs(void **state) {
    (void)state;
    PlantedExchange exchange = exchanging();
    move_step(&exchange, exchange.end, exchange.steps->count - 1);
    exchange.steps->count--;
    expect(&exchange.planted, FAULT_EXCHANGE);
    exchange = exchanging();
    move_step(&exchange, exchange.end, exchange.begin);
    expect(&exchange.planted, FAULT_EXCHANGE);
    exchange = exchanging();
    list_push(exchange.planted.arena, exchange.steps, step_at(&exchange, exchange.end));
    expect(&exchange.planted, FAULT_EXCHANGE);
    exchange = exchanging();
    int later = exchange.end + 1;
    while (!ends_exchange(step_at(&exchange, later))) later++;
    move_step(&exchange, exchange.end, later);
    expect(&exchange.planted, FAULT_EXCHANGE);
}

/* During an exchange its operand is written, its result read, or its memory used by another buffer. Its end has another condition. */
static void test_exchange_accesses(void **state) {
    (void)state;
    PlantedExchange exchange = exchanging();
    HostStep *clear = step_new(exchange.planted.arena, exchange.steps, STEP_CLEAR);
    clear->clear.buffer = ((const Operand *)step_at(&exchange, exchange.begin)->operands.items[0])->buffer;
    move_step(&exchange, exchange.steps->count - 1, exchange.end);
    expect(&exchange.planted, FAULT_EXCHANGE);
    exchange = exchanging();
    move_step(&exchange, exchange.end, exchange.end + 1);
    expect(&exchange.planted, FAULT_EXCHANGE);
    exchange = exchanging();
    int product = exchange.begin;
    while (step_at(&exchange, product)->kind != STEP_PRODUCT) product++;
    assert_true(product < exchange.end);
    const Operand *written = step_at(&exchange, product)->operands.items[2], *arrives = step_at(&exchange, exchange.begin)->operands.items[2];
    ((Buffer *)(uintptr_t)arrives->buffer)->offset = written->buffer->offset;
    expect(&exchange.planted, FAULT_LIFETIME);
    exchange = exchanging();
    list_push(exchange.planted.arena, steps_when(exchange.planted.arena, exchange.steps, LAST_MICRO_BATCH), step_at(&exchange, exchange.end));
    exchange.steps->items[exchange.end] = step_at(&exchange, exchange.steps->count - 1);
    exchange.steps->count--;
    expect(&exchange.planted, FAULT_EXCHANGE);
}

static bool has_loops(const HostStep *step) {
    return strncmp(step->launch.kernel, "kernel_", 7) == 0 && step->launch.arguments.count > 1;
}

/* More blocks than the kernel expects; more threads than a machine has. */
static void test_grid(void **state) {
    (void)state;
    Planted planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, &target_device, "names");
    find_step(&planted.entry->steps, STEP_LAUNCH, has_loops)->launch.launch.blocks *= 2;
    expect(&planted, FAULT_LAUNCH);
    planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, &target_device, "names");
    find_step(&planted.entry->steps, STEP_LAUNCH, has_loops)->launch.launch.threads = 2048;
    expect(&planted, FAULT_LAUNCH);
}

/* Two arguments of a launch are swapped. */
static void test_argument_order(void **state) {
    (void)state;
    Planted planted = lowered("models/tiny.moe", "tiny", MOEC_TRAIN, &target_device, "names");
    HostStep *step = find_step(&planted.entry->steps, STEP_LAUNCH, has_loops);
    const List kept = step->launch.arguments;
    step->launch.arguments = (List){0};
    for (int i = 0; i < kept.count; i++)
        list_push(planted.arena, &step->launch.arguments, kept.items[kept.count - 1 - i]);
    expect(&planted, FAULT_LAUNCH);
}

/* ---- random models ---- */

static uint64_t present_seed;

static void report_seed(int signal_number) {
    char line[64];
    const int length = snprintf(line, sizeof line, "seed %llu\n", (unsigned long long)present_seed);
    if (write(STDERR_FILENO, line, (size_t)length) != length) _exit(2);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void lower_graphs(const char *path, MoecGraph first, MoecGraph second, const Target *target) {
    MoecCompiler *compiler = moec_open(path, NULL, NULL, 0, NULL);
    const bool decodes = first == MOEC_DECODE;
    MoecProgram *programs[2] = {moec_compile(compiler, first, decodes, decodes ? 12 : 0, decodes),
                                moec_compile(compiler, second, decodes, decodes ? 12 : 0, decodes ? 5 : 0)};
    if (!moec_failed(compiler)) assert_non_null(lowered_module(compiler, programs, 2, target, "check"));
    moec_close(compiler);
}

static long exchanges;

static void count_exchanges(const List *steps) {
    for (int i = 0; i < steps->count; i++) {
        const HostStep *step = steps->items[i];
        exchanges += step->kind == STEP_CALL && step->call.exchange;
        count_exchanges(&step->body);
    }
}

/* The program of a process of a mesh; false if the model cannot be divided so. */
static bool lower_on_mesh(const char *path, const char *mesh) {
    MoecCompiler *compiler = moec_open(path, NULL, NULL, 0, NULL);
    assert_true(moec_set_mesh(compiler, mesh, 0));
    moec_divide(compiler, 4);
    MoecProgram *program = moec_compile(compiler, MOEC_TRAIN, 8, 0, 0);
    const bool good = program && !moec_failed(compiler);
    const Module *module = good ? lowered_module(compiler, &program, 1, &target_processor, "check") : NULL;
    assert_true(module || !good);
    if (good) count_exchanges(&((const Entry *)module->entries.items[0])->steps);
    moec_close(compiler);
    return good;
}

static void lower_model(void (*make)(Spec *spec, uint64_t seed), uint64_t seed, const char *path) {
    Spec *spec = calloc(1, sizeof *spec);
    assert_non_null(spec);
    make(spec, seed);
    FILE *file = fopen(path, "w");
    assert_true(file && fputs(spec->text, file) >= 0 && fclose(file) == 0);
    for (int i = 0; i < 2; i++) {
        lower_graphs(path, MOEC_TRAIN, MOEC_UPDATE, targets[i]);
        lower_graphs(path, MOEC_FORWARD, MOEC_MEASURE, targets[i]);
        if (spec->causal) lower_graphs(path, MOEC_DECODE, MOEC_DECODE, targets[i]);
    }
    if (!lower_on_mesh(path, "data=4,expert=2")) lower_on_mesh(path, "data=4,expert=1");
    free(spec);
}

static void test_random(void **state) {
    (void)state;
    static void (*const makers[])(Spec *spec, uint64_t seed) = {make_spec, make_recurrence, make_forms};
    const char *count = getenv("MOEC_MODELS"), *first = getenv("MOEC_SEED");
    char path[] = "/tmp/moec-module.XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    present_seed = first ? strtoull(first, NULL, 10) : 1;
    signal(SIGABRT, report_seed);
    for (long i = count ? strtol(count, NULL, 10) : 30; i > 0; i--, present_seed++)
        lower_model(makers[present_seed % 3], present_seed, path);
    assert_true(exchanges > 0);
    unlink(path);
}

static HostStep *first_call(const List *steps) {
    for (int i = 0; i < steps->count; i++) {
        HostStep *step = steps->items[i], *inner = first_call(&step->body);
        if (step->kind == STEP_CALL) return step;
        if (inner) return inner;
    }
    return NULL;
}

/* A call of a kernel that freestanding programs do not have. */
static void test_freestanding(void **state) {
    (void)state;
    Planted planted = lowered("models/tiny.moe", "tiny", MOEC_DECODE, &target_processor, "parallel");
    refuse_freestanding(planted.module, &planted.compiler->reports);
    assert_false(moec_failed(planted.compiler));
    HostStep *call = first_call(&planted.entry->steps);
    assert_string_equal(call->call.function, "moec_attend_step");
    call->call.function = "moec_attend_later";
    refuse_freestanding(planted.module, &planted.compiler->reports);
    assert_non_null(strstr(moec_reports(planted.compiler), "freestanding does not support 'attend'"));
    moec_close(planted.compiler);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offset), cmocka_unit_test(test_stride),   cmocka_unit_test(test_slot),
        cmocka_unit_test(test_guard),  cmocka_unit_test(test_type),     cmocka_unit_test(test_scope),
        cmocka_unit_test(test_owner),  cmocka_unit_test(test_barrier),  cmocka_unit_test(test_map), cmocka_unit_test(test_clear),
        cmocka_unit_test(test_carried_slots),
        cmocka_unit_test(test_grid),   cmocka_unit_test(test_lifetime), cmocka_unit_test(test_argument_order),
        cmocka_unit_test(test_race),   cmocka_unit_test(test_freestanding),
        cmocka_unit_test(test_exchange_pairs), cmocka_unit_test(test_exchange_accesses),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
