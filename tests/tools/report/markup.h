/* Is a text well-formed, as XML has it? */
#ifndef PIPETRAIN_MARKUP_H
#define PIPETRAIN_MARKUP_H

/* NULL where elements are nested and closed, attributes are quoted, '&' begins one of XML's five names or a number, and
 * all is UTF-8 without control characters; else where it is not. Style elements and doctype are passed over. */
const char *markup_problem(const char *text);

#endif
