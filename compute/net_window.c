/* Windows of convolutions and pools: their places on an image, and its padding (doc/models.md). */
#include <stdio.h>

#include "compute/net_build.h"

/* One axis of a window: so many places of it, so many pixels of padding. */
struct axis { uint32_t out, before, after; };

/* ceil(n / stride) places, the padding spread around, the odd one behind. */
static bool find_same(uint32_t n, uint32_t kernel, uint32_t stride, struct axis *axis_out)
{
    const uint32_t out = (n - 1) / stride + 1;
    const uint64_t reach = (uint64_t)(out - 1) * stride + kernel;
    const uint32_t total = reach > n ? (uint32_t)(reach - n) : 0;
    *axis_out = (struct axis){ .out = out, .before = total / 2, .after = total - total / 2 };
    return true;
}

/* As many whole windows as fit on the padded axis. A window that saw nothing of the image would
 * have no largest value and no mean. */
static bool find_explicit(uint32_t n, uint32_t kernel, uint32_t stride, struct axis padding, struct axis *axis_out)
{
    const uint64_t padded = (uint64_t)n + padding.before + padding.after;
    if (kernel > padded || padding.before >= kernel || padding.after >= kernel)
        return false;
    *axis_out = (struct axis){ (uint32_t)((padded - kernel) / stride + 1), padding.before, padding.after };
    return true;
}

static bool find_axis(uint32_t n, uint32_t kernel, uint32_t stride, enum padding padding, struct axis given,
                      struct axis *axis_out)
{
    if (kernel == 0 || stride == 0 || kernel > NET_COUNT_MAX)
        return false;
    if (padding == PADDING_SAME)
        return find_same(n, kernel, stride, axis_out);
    return find_explicit(n, kernel, stride, padding == PADDING_EXPLICIT ? given : (struct axis){ 0 }, axis_out);
}

bool layer_pads_same(const struct layer *layer)
{
    struct axis rows, columns;
    find_same(layer->in.height, layer->kernel_h, layer->stride_h, &rows);
    find_same(layer->in.width, layer->kernel_w, layer->stride_w, &columns);
    return layer->pad_top == rows.before && layer->pad_bottom == rows.after && layer->pad_left == columns.before &&
           layer->pad_right == columns.after;
}

/* Pixels of an axis that surely make so many places of a window. */
static uint64_t pixels_for(uint64_t places, uint32_t kernel, uint32_t stride, uint32_t padding)
{
    return (places - 1) * (stride > 0 ? stride : 1) + (kernel > padding ? kernel - padding : 1);
}

/* The mean of a whole image is one pixel of any image. */
static bool is_whole_mean(const struct layer *layer)
{
    return layer->kind == LAYER_AVERAGE_POOL && layer->stride_h == 1 && layer->stride_w == 1 &&
           layer->kernel_h == layer->in.height && layer->kernel_w == layer->in.width;
}

/* How large an image makes at least this many pixels of what `from` makes. False where none is sure to. */
static bool find_image(const struct net *net, uint32_t from, uint64_t *height, uint64_t *width)
{
    while (from != NET_INPUT && *height <= NET_COUNT_MAX && *width <= NET_COUNT_MAX) {
        const struct layer *const layer = &net->layers[from];
        if (layer->kind == LAYER_DENSE || is_whole_mean(layer))
            return false;
        *height = pixels_for(*height, layer->kernel_h, layer->stride_h, layer->pad_top + layer->pad_bottom);
        *width = pixels_for(*width, layer->kernel_w, layer->stride_w, layer->pad_left + layer->pad_right);
        from = layer->inputs[0];
    }
    return *height <= NET_COUNT_MAX && *width <= NET_COUNT_MAX &&
           shape_fits((struct shape){ net->input.channels, (uint32_t)*height, (uint32_t)*width });
}

static bool pads_whole_windows(const struct window *window)
{
    return window->padding == PADDING_EXPLICIT &&
           (window->top >= window->kernel_h || window->bottom >= window->kernel_h ||
            window->left >= window->kernel_w || window->right >= window->kernel_w);
}

/* With the images on which the window would fit. */
static int refuse_window(struct net *net, const struct layer *layer, const struct window *window)
{
    if (pads_whole_windows(window))
        return net_refuse(net, layer->name, "padding %u,%u,%u,%u is not smaller than the %ux%u window", window->top,
                          window->bottom, window->left, window->right, window->kernel_h, window->kernel_w);
    const bool is_given = window->padding == PADDING_EXPLICIT;
    uint64_t height = pixels_for(1, window->kernel_h, 1, is_given ? window->top + window->bottom : 0);
    uint64_t width = pixels_for(1, window->kernel_w, 1, is_given ? window->left + window->right : 0);
    const bool can_fit = window->kernel_h > 0 && window->kernel_w > 0 && window->stride_h > 0 && window->stride_w > 0;
    char images[64] = "";
    if (can_fit && find_image(net, layer->inputs[0], &height, &width))
        snprintf(images, sizeof(images), " (on images of %ux%u or more it would)", (uint32_t)height, (uint32_t)width);
    return net_refuse(net, layer->name, "a %ux%u window with stride %ux%u does not fit on %ux%u%s", window->kernel_h,
                      window->kernel_w, window->stride_h, window->stride_w, layer->in.height, layer->in.width, images);
}

int layer_set_window(struct net *net, struct layer *layer, struct window window)
{
    const struct axis rows = { .before = window.top, .after = window.bottom };
    const struct axis columns = { .before = window.left, .after = window.right };
    struct axis vertical, horizontal;
    if (!find_axis(layer->in.height, window.kernel_h, window.stride_h, window.padding, rows, &vertical) ||
        !find_axis(layer->in.width, window.kernel_w, window.stride_w, window.padding, columns, &horizontal))
        return refuse_window(net, layer, &window);
    layer->kernel_h = window.kernel_h;
    layer->kernel_w = window.kernel_w;
    layer->stride_h = window.stride_h;
    layer->stride_w = window.stride_w;
    layer->pad_top = vertical.before;
    layer->pad_bottom = vertical.after;
    layer->pad_left = horizontal.before;
    layer->pad_right = horizontal.after;
    layer->out.height = vertical.out;
    layer->out.width = horizontal.out;
    return 0;
}
