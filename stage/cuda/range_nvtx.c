/* NVTX ranges. NVTX looks for a profiling tool at the first call; without a tool there is no domain, and a range costs
 * one comparison. */
#include "stage/trace/range.h"

#include <stddef.h>

#include <nvtx3/nvToolsExt.h>

static nvtxDomainHandle_t domain;       /* NULL: no profiling tool */
static nvtxStringHandle_t names[TRACE_NAME_COUNT];

void range_prepare(void)
{
    if (domain != NULL)
        return;
    domain = nvtxDomainCreateA("pipetrain");
    for (enum trace_name name = 0; domain != NULL && name < TRACE_NAME_COUNT; name++)
        names[name] = nvtxDomainRegisterStringA(domain, trace_name_words(name));
}

void range_begin(enum trace_name name, uint64_t batch)
{
    if (domain == NULL)
        return;
    const nvtxEventAttributes_t attributes = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .payloadType = batch != RANGE_NO_BATCH ? NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 : NVTX_PAYLOAD_UNKNOWN,
        .payload.ullValue = batch,
        .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
        .message.registered = names[name],
    };
    nvtxDomainRangePushEx(domain, &attributes);
}

void range_end(void)
{
    if (domain != NULL)
        nvtxDomainRangePop(domain);
}
