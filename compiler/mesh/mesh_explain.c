/* mesh_explain: the collectives of the local program of a mesh, for display. */
#include "ir/call.h"
#include "mesh/mesh_plan.h"
#include "passes.h"

#include <string.h>

/* A row of the table. */
typedef struct ExplainedCollective {
    const char *name, *runs, *kind, *over, *from;
    double bytes, sends;     /* of one run in one process: of the result, and sent at least */
    double seconds, exposed; /* of one run, at least: in all, and while the process waits */
    const char *hidden;      /* the units that compute meanwhile */
} ExplainedCollective;

typedef struct CollectiveList {
    Arena *arena;
    const Program *program;
    double data;                  /* processes */
    List rows;                    /* ExplainedCollective * */
    double steps;                 /* iterations of the enclosing repeats */
    double sent;                  /* by all runs */
    const MachineRecord *machine; /* or NULL: without times */
    List timed;                   /* TimedExchange * */
    double seconds, exposed;      /* of all runs of exchanges, at least */
} CollectiveList;

static const char *bytes_text(Arena *arena, double bytes) {
    if (bytes < 1e3) return arena_format(arena, "%.0f B", bytes);
    if (bytes < 1e6) return arena_format(arena, "%.3g kB", bytes / 1e3);
    return bytes < 1e9 ? arena_format(arena, "%.3g MB", bytes / 1e6)
                       : arena_format(arena, "%.3g GB", bytes / 1e9);
}

/* "std/moe.moe:90". */
static const char *line_text(Arena *arena, Span span) {
    if (!span.source) return "-";
    return arena_format(arena, "%s:%d", span.source->path, span_line(span));
}

/* The bytes that a process has to send: twice its share of a reduction, its part of a gather to all
 * others, the rows with keys of other processes if all keys have equally many. */
static double sent_bytes(const Program *program, const Statement *statement) {
    const double size = (double)program->mesh[statement->collective.over],
                 share = (size - 1) / size, from = exchanged_bytes(statement);
    switch (statement->collective.kind) {
    case COLLECTIVE_GATHER:
        return from * (size - 1);
    case COLLECTIVE_COUNTS:
    case COLLECTIVE_DISPATCH:
    case COLLECTIVE_COMBINE:
        return from * share;
    default:
        return 2 * from * share;
    }
}

/* The axis and the number of processes: "data 4". */
static const char *group_text(const CollectiveList *list, MeshAxis over, double size) {
    return arena_format(list->arena, "%s %.0f", mesh_axis_name(over), size);
}

/* "shared_gate_product, 3 others". */
static const char *hiders_text(Arena *arena, const TimedExchange *timed) {
    if (!timed->hider) return "-";
    if (timed->hiders == 1) return timed->hider;
    return arena_format(arena, "%s, %d other%s", timed->hider, timed->hiders - 1,
                        timed->hiders == 2 ? "" : "s");
}

static void set_times(CollectiveList *list, ExplainedCollective *row, const Statement *statement) {
    const TimedExchange *timed =
        list_find_by(&list->timed, offsetof(TimedExchange, statement), statement);
    row->hidden = "-";
    if (!timed) return;
    row->seconds = timed->seconds;
    row->exposed = timed->exposed / timed->runs;
    row->hidden = hiders_text(list->arena, timed);
    list->seconds += timed->seconds * timed->runs;
    list->exposed += timed->exposed;
}

static void add_collectives(CollectiveList *list, const Block *block) {
    LIST_EACH(const Statement, statement, &block->statements) {
        if (statement->kind == STATEMENT_REPEAT) {
            const double outer = list->steps;
            list->steps *= (double)statement->index->axis->size;
            add_collectives(list, &statement->body);
            list->steps = outer;
        }
        if (!statement->row || !statement->row->exchanges) continue;
        ExplainedCollective row = {
            .name = call_input(statement, 0)->tensor->name,
            .runs = arena_format(list->arena, "%.0f", list->steps),
            .kind = collective_name(statement->collective.kind),
            .over = group_text(list, statement->collective.over,
                               (double)list->program->mesh[statement->collective.over]),
            .from = line_text(list->arena, statement->span),
            .bytes = exchanged_bytes(statement),
            .sends = sent_bytes(list->program, statement),
        };
        set_times(list, &row, statement);
        list->sent += list->steps * row.sends;
        list_copy(list->arena, &list->rows, &row, sizeof row);
    }
}

/* The gradients at the end of a step: the slots of divided ones return to their processes; all of
 * them are added. */
static void add_gradients(CollectiveList *list, bool divided) {
    const Program *program = list->program;
    int count = 0;
    double bytes = 0;
    LIST_EACH(const Tensor, tensor, &program->tensors) {
        if (tensor->role != ROLE_GRADIENT ||
            (divided && tensor->placed[MESH_EXPERT].kind != PLACED_DIVIDED))
            continue;
        count++;
        bytes += (double)tensor_elements(tensor) * (double)type_bytes(tensor->type);
    }
    const MeshAxis over = divided ? MESH_EXPERT : MESH_DATA;
    const double size = divided ? (double)program->mesh[over] : list->data;
    if (!count || size <= 1) return;
    ExplainedCollective row = {
        .name = arena_format(list->arena, "%d %sgradients", count, divided ? "divided " : ""),
        .runs = "step",
        .kind = divided ? "all-to-all" : collective_name(COLLECTIVE_SUM),
        .over = group_text(list, over, size),
        .from = "-",
        .bytes = bytes,
        .sends = (divided ? 1 : 2) * bytes * (size - 1) / size,
        .hidden = "-",
    };
    if (list->machine)
        row.seconds = row.exposed =
            mesh_gradient_seconds(list->machine, (long)size, divided, bytes);
    list_copy(list->arena, &list->rows, &row, sizeof row);
}

enum { COLUMNS = 9 };

/* Names are on the left of their column, numbers on the right. The last column has no width. */
static const struct {
    const char *head;
    bool right, of_machine;
} columns[COLUMNS] = {
    {"tensor", false, false}, {"runs", true, false},   {"kind", false, false},
    {"over", false, false},   {"bytes", true, false},  {"sends", true, false},
    {"ms", true, true},       {"exposed", true, true}, {"hidden by", false, true},
};

static void set_cells(const CollectiveList *list, const ExplainedCollective *row,
                      const char **cells) {
    Arena *arena = list->arena;
    const char *const all[COLUMNS] = {
        row->name,
        row->runs,
        row->kind,
        row->over,
        bytes_text(arena, row->bytes),
        bytes_text(arena, row->sends),
        arena_format(arena, "%.4g", 1e3 * row->seconds),
        arena_format(arena, "%.4g", 1e3 * row->exposed),
        row->hidden,
    };
    for (int i = 0; i < COLUMNS; i++) cells[i] = all[i];
}

static void print_collective_row(Text *text, const CollectiveList *list, const int *widths,
                                 const char *const *cells, const char *from) {
    for (int i = 0; i < COLUMNS; i++)
        if (list->machine || !columns[i].of_machine)
            text_add(text, "  %*s", columns[i].right ? widths[i] : -widths[i], cells[i]);
    text_add(text, "  %s\n", from);
}

static void print_collectives(Text *text, const CollectiveList *list) {
    const char *cells[COLUMNS];
    int widths[COLUMNS] = {[4] = 9, [5] = 9};
    for (int i = -1; i < list->rows.count; i++) {
        if (i >= 0) set_cells(list, list->rows.items[i], cells);
        for (int column = 0; column < COLUMNS; column++) {
            const int width = (int)strlen(i < 0 ? columns[column].head : cells[column]);
            if (width > widths[column]) widths[column] = width;
        }
    }
    for (int i = 0; i < COLUMNS; i++) cells[i] = columns[i].head;
    print_collective_row(text, list, widths, cells, "equation");
    LIST_EACH(const ExplainedCollective, row, &list->rows) {
        set_cells(list, row, cells);
        print_collective_row(text, list, widths, cells, row->from);
    }
}

const char *mesh_text(const Program *program, long data, const MachineRecord *machine,
                      const Schedule *schedule) {
    CollectiveList list = {
        .arena = program->arena, .program = program, .data = (double)data, .steps = 1};
    Text text = {.arena = program->arena};
    list.machine = machine;
    if (machine) list.timed = mesh_exchanges(list.arena, machine, schedule);
    add_collectives(&list, &program->body);
    add_gradients(&list, true);
    add_gradients(&list, false);
    text_add(&text, "%s: collectives of %s on a mesh of data = %ld, %s = %ld\n", program->name,
             graph_name(program->graph), data, mesh_axis_name(MESH_EXPERT),
             program->mesh[MESH_EXPERT]);
    if (list.rows.count)
        print_collectives(&text, &list);
    else
        text_add(&text, "  none\n");
    text_add(&text, "each process sends at least %s per micro-batch",
             bytes_text(program->arena, list.sent));
    if (machine)
        text_add(&text, "; exchanges on %s: at least %.4g ms, of which %.4g ms are exposed",
                 machine->name, 1e3 * list.seconds, 1e3 * list.exposed);
    text_add(&text, "\n");
    return text.text;
}
