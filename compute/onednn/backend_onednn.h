/* The operations of the oneDNN backend that work on plans; see backend.h for what each
 * does, and how parameters lie. Private to the backend. */
#ifndef PIPETRAIN_BACKEND_ONEDNN_H
#define PIPETRAIN_BACKEND_ONEDNN_H

#include "compute/backend.h"

int onednn_plan_open(struct backend *backend, uint32_t count, bool training, struct plan **plan_out);
void onednn_plan_close(struct plan *plan);
void onednn_plan_describe(const struct plan *plan, void (*write)(void *arg, const char *line), void *arg);
int onednn_input(struct plan *plan, const struct backend_input *input);
int onednn_forward(struct plan *plan);
int onednn_backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg);
int onednn_result(struct plan *plan, struct backend_result *result_out);
/* onednn_loss.c: */
int onednn_logits(struct plan *plan, float *logits_out);
/* onednn_store.c: */
int onednn_plain(const struct backend *backend, uint32_t parameter, const float *stored, float *plain);
int onednn_unpack(struct backend *backend, uint32_t parameter, const float *stored, float *plain);

#endif
