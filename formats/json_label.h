/* The label of an image in a JSON document beside it, as in WebDataset. */
#ifndef PIPETRAIN_JSON_LABEL_H
#define PIPETRAIN_JSON_LABEL_H

#include <stddef.h>

#define JSON_LABEL_BYTES 512u   /* size of a label as text, with its zero */
#define JSON_MEMBER_BYTES 128u  /* size of a member's name, with its zero */

/* Read the label in a document: its member `member` or, if that is "", the only member with a usual name (label,
 * class, cls, category, target, ...), whose name is written to `member`. A document that is only a number or a string
 * is a label itself. The label is written as text: a string as it is, a whole number without a point, true or false.
 * 0; -ENODATA: no such member, or it is null; -EBADMSG: no JSON, or the member cannot be a label, with the reason in
 * problem_out; -EINVAL: several members have usual names, which problem_out lists; -ENOMEM. */
int json_label_read(const char *text, size_t bytes, char member[JSON_MEMBER_BYTES],
                    char label_out[JSON_LABEL_BYTES], char *problem_out, size_t problem_size);

#endif
