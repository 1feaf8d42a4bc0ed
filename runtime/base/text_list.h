/* text_list: the values of a repeatable option of the command line. */
#ifndef TEXT_LIST_H
#define TEXT_LIST_H

enum { LIST_LIMIT = 64, SET_LIMIT = 16 };

typedef struct TextList {
    const char *items[LIST_LIMIT + SET_LIMIT]; /* the last SET_LIMIT: values that commands add */
    int count;
} TextList;

#endif
