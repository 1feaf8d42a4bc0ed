/* record_set: changes a record of options by path. Records merge, other values are replaced. A
 * number in a path is the index of an element of a list.
 *
 *     attention = { heads = { q = 4 } }    attention.heads.q = 8    parameters.0.lr = 0.5
 *
 * A model that derives from another is a record first, in which an index is a name as any other.
 * When the record merges into that of the base, the name meets the list.
 */
#include "elaborate/elaborate.h"

#include <stdlib.h>
#include <string.h>

Record *record_new(Elaborator *e) {
    return arena_alloc(e->arena, sizeof(Record));
}

RecordField *record_find(const Record *record, const char *name) {
    return record ? list_named(&record->entries, offsetof(RecordField, name), name) : NULL;
}

RecordField *given_entry(const Record *given, const char *path) {
    size_t head = strcspn(path, ".");
    if (!given) return NULL;
    LIST_EACH(RecordField, entry, &given->entries) {
        if (strncmp(entry->name, path, head) != 0 || entry->name[head]) continue;
        if (!path[head]) return entry;
        const Value *value = entry->value;
        return value->kind == KIND_RECORD ? given_entry(value->record, path + head + 1) : NULL;
    }
    return NULL;
}

Value *value_copy(Elaborator *e, const Value *value) {
    Value *copy = arena_alloc(e->arena, sizeof *copy);
    *copy = *value;
    if (value->record) copy->record = record_copy(e, value->record);
    return copy;
}

Record *record_copy(Elaborator *e, const Record *record) {
    Record *copy = record_new(e);
    if (!record) return copy;
    LIST_EACH(const RecordField, entry, &record->entries) {
        RecordField *own = list_copy(e->arena, &copy->entries, entry, sizeof *entry);
        own->value = value_copy(e, entry->value);
    }
    return copy;
}

void record_merge(Elaborator *e, Record *into, const Record *from) {
    if (!from) return;
    LIST_EACH(const RecordField, entry, &from->entries)
        record_set(e, into, entry->name, entry->value, entry->span);
}

/* The element of a list at the index with which a path begins, or -1 after a message. */
static long element_index(Elaborator *e, const RecordField *entry, const char *path, Span span) {
    const int count = entry->value->list.count, length = (int)strcspn(path, ".");
    const bool number = (int)strspn(path, "0123456789") == length;
    const long index = number && length <= 9 ? strtol(path, NULL, 10) : count;
    if (index < count) return index;
    if (number)
        report_error(e->reports, span, "'%s' has no element %.*s: it has %d", entry->name, length,
                     path, count);
    else
        report_error(e->reports, span, "'%s' is a list: cannot set '%s' inside it", entry->name,
                     path);
    report_note(e->reports, entry->value->span, "the list is here");
    if (!number)
        report_help(e->reports, "write the index of an element: %s.0.%s, or set the whole list",
                    entry->name, path);
    else if (count)
        report_help(e->reports, "write an index from 0 to %d", count - 1);
    else
        report_help(e->reports, "set the whole list: %s = [...]", entry->name);
    return -1;
}

/* parameters.0.init = value: the list is copied, because other variants share it. */
static void element_set(Elaborator *e, RecordField *entry, const char *path, Value *value,
                        Span span) {
    const char *dot = strchr(path, '.');
    const long index = element_index(e, entry, path, span);
    if (index < 0) return;
    Value *list = value_copy(e, entry->value);
    Record *holder = record_new(e);
    record_set(e, holder, "element", list->list.items[index], span);
    record_set(e, holder, arena_format(e->arena, "element%s", dot ? dot : ""), value, span);
    list->list = (List){0};
    list_append(e->arena, &list->list, &entry->value->list);
    list->list.items[index] = record_find(holder, "element")->value;
    entry->value = list;
}

bool is_index(const char *name) {
    return name[strspn(name, "0123456789")] == 0;
}

static bool has_indices(const Value *value) {
    LIST_EACH(const RecordField, entry, &value->record->entries)
        if (!is_index(entry->name)) return false;
    return value->record->entries.count > 0;
}

/* path = value: a record is merged into the existing value; other values replace it. */
void record_set(Elaborator *e, Record *record, const char *path, Value *value, Span span) {
    const char *dot = strchr(path, '.');
    char *head = dot ? arena_copy(e->arena, path, (size_t)(dot - path))
                     : arena_copy(e->arena, path, strlen(path));
    RecordField *entry = record_find(record, head);
    if (dot && entry && entry->value->kind == KIND_LIST) {
        element_set(e, entry, dot + 1, value, span);
        return;
    }
    if (!entry) {
        entry = arena_alloc(e->arena, sizeof *entry);
        entry->name = head;
        entry->span = span;
        list_push(e->arena, &record->entries, entry);
    }
    Value *old = entry->value;
    if (dot) {
        if (!old ||
            (old->kind != KIND_RECORD && old->kind != KIND_WORD && old->kind != KIND_LAYER)) {
            entry->value = value_new(e, KIND_RECORD, span);
            entry->value->record = record_new(e);
        } else if (!old->record)
            old->record = record_new(e);
        if (old && span.source && old->span.source != span.source) old->changed = span;
        record_set(e, entry->value->record, dot + 1, value, span);
        return;
    }
    bool holds = old && (old->kind == KIND_RECORD || old->kind == KIND_WORD || old->record);
    if (value->kind == KIND_RECORD && holds) {
        if (!old->record) old->record = record_new(e);
        old->changed = value->changed.source ? value->changed : value->span;
        record_merge(e, old->record, value->record);
        return;
    }
    if (value->kind == KIND_RECORD && old && old->kind == KIND_LIST && has_indices(value)) {
        LIST_EACH(const RecordField, element, &value->record->entries)
            element_set(e, entry, element->name, element->value, element->span);
        return;
    }
    entry->value = value_copy(e, value);
    entry->span = span;
    entry->order = e->order;
}

Record *record_evaluate(Elaborator *e, const Node *node) {
    Record *record = record_new(e);
    for (int i = 0; node && i < node->count; i++) {
        const Node *entry = node->kids[i];
        Value *value = evaluate(e, entry->kids[0]);
        if (value->kind == KIND_ERROR) continue;
        warn_rounded(e, entry->kids[0]);
        if (!strchr(entry->name, '.')) {
            RecordField *before = record_find(record, entry->name);
            if (before && value->kind != KIND_RECORD) {
                report_error(e->reports, entry->name_span, "duplicate entry '%s'", entry->name);
                report_note(e->reports, before->span, "first set here");
                report_help(e->reports, "remove one of the entries");
                continue;
            }
        }
        record_set(e, record, entry->name, value, entry->name_span);
    }
    return record;
}
