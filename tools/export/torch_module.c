/* The Python module of a network: constants, what PyTorch has no module for, the network's classes, and functions that
 * load weights and images. */
#include "tools/export/torch_module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/decimal.h"
#include "stage/text/text_stream.h"
#include "tools/export/python_text.h"
#include "tools/export/torch_code.h"
#include "tools/export/torch_tree.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/results/tensor_file.h"
#include "tools/lib/run/run_state.h"

/* ---- literals ---- */

static void put_text(FILE *out, const char *text)
{
    python_literal_write(out, text, strlen(text));
}

static void put_floats(FILE *out, const char *name, const float *numbers, uint32_t count)
{
    char text[DECIMAL_SIZE];
    fprintf(out, "%s = [", name);
    for (uint32_t i = 0; i < count; i++) {
        decimal_write_float(numbers[i], text, sizeof(text));
        fprintf(out, "%s%s", i > 0 ? ", " : "", text);
    }
    fputs("]\n", out);
}

static void put_names(FILE *out, const struct torch_module *module)
{
    if (module->names == NULL) {
        fprintf(out, "CLASSES = [str(number) for number in range(%u)]       # the weights have no names\n",
                module->net->classes);
        return;
    }
    fputs("CLASSES = [\n", out);
    for (uint32_t i = 0; i < module->net->classes; i++) {
        fputs("    ", out);
        put_text(out, module->names[i]);
        fputs(",\n", out);
    }
    fputs("]\n", out);
}

/* ---- the beginning ---- */

static bool has_transform(const struct net *net)
{
    return net->input.channels == 1 || net->input.channels == 3;
}

/* Is a part of the image scaled? False: the whole image. */
static bool is_central(const struct augment *augment)
{
    return augment->crop[PHASE_EVALUATE] != CROP_NONE && augment->resize == 0;
}

static void put_documentation(FILE *out, const struct net *net, bool has_heads)
{
    fputs("\"\"\"A network of pipetrain for PyTorch. To classify an image:\n\n"
          "    network = load(\"weights.safetensors\")\n", out);
    if (has_transform(net))
        fputs("    image = transform(PIL.Image.open(\"photo.jpg\"))\n", out);
    else
        fputs("    image = preprocess(pixels)          # uint8 [C, H, W]\n", out);
    fputs("    with torch.inference_mode():\n"
          "        probabilities = network(image[None]).softmax(1)[0]\n"
          "    print(CLASSES[probabilities.argmax()])\n\n"
          "Training goes on after network.train(): dropout and batch normalisation are those of the training run",
          out);
    fputs(has_heads ? ",\nand the network returns the outputs of its auxiliary heads as well, which loss() takes.\n"
                    : ".\n", out);
    fputs("\"\"\"\n", out);
}

static void put_imports(FILE *out, const struct torch_module *module, unsigned uses, bool has_heads)
{
    const bool turns = module->augment->orientation == ORIENTATION_EXIF;
    const bool has_math = has_transform(module->net) && is_central(module->augment);
    if (has_math)
        fputs("import math\n", out);
    if (uses & USE_ORDERED_DICT)
        fputs("from collections import OrderedDict\n", out);
    fputs(has_math || (uses & USE_ORDERED_DICT) ? "\nimport torch\n" : "import torch\n", out);
    if ((uses & USE_FUNCTIONAL) || has_heads)
        fputs("import torch.nn.functional as F\n", out);
    if (has_transform(module->net))
        fputs(turns ? "from PIL import Image, ImageOps\n" : "from PIL import Image\n", out);
    fputs("from safetensors.torch import load_file\nfrom torch import nn\n\n", out);
}

static void put_constants(FILE *out, const struct torch_module *module)
{
    const struct net *const net = module->net;
    const struct input_transform *const transform = &net->transform;
    char divisor[DECIMAL_SIZE];
    decimal_write_float(transform->divisor, divisor, sizeof(divisor));
    fputs("MODEL = ", out);
    put_text(out, net->model);
    fprintf(out, "\nSIZE = (%u, %u)       # of images: height, width\n", net->input.height, net->input.width);
    fprintf(out, "DIVISOR = %s       # of pixels, which are 0 to 255\n", divisor);
    if (!transform->is_plain) {
        put_floats(out, "MEAN", transform->mean, net->input.channels);
        put_floats(out, "DEVIATION", transform->std, net->input.channels);
    }
    put_names(out, module);
}

/* ---- modules that PyTorch does not have ---- */

static void put_helpers(FILE *out, unsigned uses)
{
    static const struct { enum torch_use use; const char *text; } helpers[] = {
        { USE_PADDED_CONV,
          "class PaddedConv2d(nn.Conv2d):\n"
          "    \"\"\"A convolution with its own padding on each side: left, right, top, bottom.\"\"\"\n\n"
          "    def __init__(self, *sizes, pad, **options):\n"
          "        super().__init__(*sizes, **options)\n"
          "        self.pad = pad\n\n"
          "    def forward(self, x):\n"
          "        return super().forward(F.pad(x, self.pad))\n" },
        { USE_PADDED_MAX_POOL,
          "class PaddedMaxPool2d(nn.MaxPool2d):\n"
          "    \"\"\"A maximum with its own padding on each side: left, right, top, bottom.\"\"\"\n\n"
          "    def __init__(self, *sizes, pad):\n"
          "        super().__init__(*sizes)\n"
          "        self.pad = pad\n\n"
          "    def forward(self, x):\n"
          "        return super().forward(F.pad(x, self.pad, value=float(\"-inf\")))\n" },
        { USE_PADDED_AVERAGE_POOL,
          "class PaddedAvgPool2d(nn.AvgPool2d):\n"
          "    \"\"\"The mean of the pixels inside the image, with its own padding on each side: left, right, top, "
          "bottom.\"\"\"\n\n"
          "    def __init__(self, *sizes, pad):\n"
          "        super().__init__(*sizes)\n"
          "        self.pad = pad\n\n"
          "    def forward(self, x):\n"
          "        inside = F.pad(torch.ones_like(x[:1, :1]), self.pad)\n"
          "        return super().forward(F.pad(x, self.pad)) / super().forward(inside)\n" },
        { USE_NORM_OF_SHIFT,
          "class ShiftedNorm2d(nn.BatchNorm2d):\n"
          "    \"\"\"Batch normalisation with a bias and without a weight (gamma).\"\"\"\n\n"
          "    def __init__(self, *sizes, **options):\n"
          "        super().__init__(*sizes, **options)\n"
          "        self.weight = None\n" },
        { USE_FLAT_NORM_OF_SHIFT,
          "class ShiftedNorm1d(nn.BatchNorm1d):\n"
          "    \"\"\"Batch normalisation with a bias and without a weight (gamma).\"\"\"\n\n"
          "    def __init__(self, *sizes, **options):\n"
          "        super().__init__(*sizes, **options)\n"
          "        self.weight = None\n" },
        { USE_LAYER_NORM,
          "class LayerNorm2d(nn.LayerNorm):\n"
          "    \"\"\"Layer normalisation over the channels of each pixel.\"\"\"\n\n"
          "    def forward(self, x):\n"
          "        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)\n" },
        { USE_STOCHASTIC_DEPTH,
          "class StochasticDepth(nn.Module):\n"
          "    \"\"\"In training all values of a sample are 0 with probability `rate`.\"\"\"\n\n"
          "    def __init__(self, rate):\n"
          "        super().__init__()\n"
          "        self.rate = rate\n\n"
          "    def forward(self, x):\n"
          "        if not self.training:\n"
          "            return x\n"
          "        kept = torch.rand([len(x)] + [1] * (x.dim() - 1), device=x.device) >= self.rate\n"
          "        return x * kept / (1 - self.rate)\n" },
        { USE_PAD_CHANNELS,
          "class PadChannels(nn.Module):\n"
          "    \"\"\"Every stride-th pixel, between channels of zeros.\"\"\"\n\n"
          "    def __init__(self, before, after, stride):\n"
          "        super().__init__()\n"
          "        self.before, self.after, self.stride = before, after, stride\n\n"
          "    def forward(self, x):\n"
          "        return F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.before, self.after))\n" },
    };
    for (size_t i = 0; i < sizeof(helpers) / sizeof(*helpers); i++)
        if (uses & helpers[i].use)
            fprintf(out, "\n\n%s", helpers[i].text);
}

/* ---- images ---- */

static void put_preprocess(FILE *out, const struct net *net)
{
    fputs("\n\ndef preprocess(pixels):\n"
          "    \"\"\"The network's input from pixels of 0 to 255, [N, C, H, W] or [C, H, W].\"\"\"\n", out);
    if (net->transform.is_plain) {
        fputs("    return pixels.float() / DIVISOR\n", out);
        return;
    }
    fputs("    mean = torch.tensor(MEAN, dtype=torch.float32, device=pixels.device).view(-1, 1, 1)\n"
          "    deviation = torch.tensor(DEVIATION, dtype=torch.float32, device=pixels.device).view(-1, 1, 1)\n"
          "    return (pixels.float() / DIVISOR - mean) / deviation\n", out);
}

static void put_resize(FILE *out, const struct augment *augment, const char *filter, const char *indent)
{
    const unsigned side = augment->resize;
    fprintf(out, "%sshorter = min(image.size)\n", indent);
    fprintf(out, "%simage = image.resize([%u * side // shorter for side in image.size], %s)\n", indent, side, filter);
    fprintf(out, "%sleft, top = round((image.width - width) / 2), round((image.height - height) / 2)\n", indent);
    fprintf(out, "%simage = image.crop((left, top, left + width, top + height))\n", indent);
}

/* The part of the image is scaled that is in the middle when the image has `scale` times the network's size. It is
 * cropped first, to whole pixels, because Pillow's filters read pixels beside the box. */
static void put_central(FILE *out, const struct augment *augment, const char *filter, const char *indent)
{
    char scale[DECIMAL_SIZE];
    decimal_write(augment->scale, scale, sizeof(scale));
    fprintf(out, "%sfactor = %s * max(height / image.height, width / image.width)\n", indent, scale);
    fprintf(out, "%srows = max(height, int(image.height * factor))\n", indent);
    fprintf(out, "%scolumns = max(width, int(image.width * factor))\n", indent);
    fprintf(out, "%stop, left = (rows - height) // 2, (columns - width) // 2\n", indent);
    fprintf(out, "%sy, x = image.height / rows, image.width / columns\n", indent);
    fprintf(out, "%sbottom, right = min((top + height) * y, image.height), min((left + width) * x, image.width)\n",
            indent);
    fprintf(out, "%stop, left = top * y, left * x\n", indent);
    fprintf(out, "%simage = image.crop((int(left), int(top), math.ceil(right), math.ceil(bottom)))\n", indent);
    fprintf(out, "%spart = (left %% 1, top %% 1, right - int(left), bottom - int(top))\n", indent);
    fprintf(out, "%simage = image.resize((width, height), %s, box=part)\n", indent, filter);
}

static void put_scaling(FILE *out, const struct augment *augment)
{
    static const char *const filters[FILTER_COUNT] = {
        [FILTER_BILINEAR] = "Image.Resampling.BILINEAR", [FILTER_AREA] = "Image.Resampling.BOX",
        [FILTER_BICUBIC] = "Image.Resampling.BICUBIC",   [FILTER_NEAREST] = "Image.Resampling.NEAREST",
    };
    const enum crop crop = augment->crop[PHASE_EVALUATE];
    const char *const filter = filters[augment->filter], *const indent = crop == CROP_AUTO ? "        " : "    ";
    if (crop == CROP_AUTO)
        fputs("    if image.size != (width, height):\n", out);
    if (crop == CROP_NONE)
        fprintf(out, "%simage = image.resize((width, height), %s)\n", indent, filter);
    else if (augment->resize > 0)
        put_resize(out, augment, filter, indent);
    else
        put_central(out, augment, filter, indent);
}

static void put_transform(FILE *out, const struct net *net, const struct augment *augment)
{
    const bool is_grey = net->input.channels == 1;
    fputs("\n\ndef transform(image):\n"
          "    \"\"\"The network's input [C, H, W] from a Pillow image of any size.\"\"\"\n"
          "    height, width = SIZE\n", out);
    if (augment->orientation == ORIENTATION_EXIF)
        fputs("    if image.format == \"JPEG\":\n"
              "        image = ImageOps.exif_transpose(image)\n", out);
    fputs("    if image.mode.startswith(\"I\"):          # 16 bits: the high ones\n"
          "        image = image.convert(\"I\").point(lambda value: value * (1 / 256)).convert(\"L\")\n", out);
    fprintf(out, "    image = image.convert(\"%s\")\n", is_grey ? "L" : "RGB");
    put_scaling(out, augment);
    fprintf(out, "    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)\n"
            "    return preprocess(pixels.view(height, width, %u).permute(2, 0, 1))\n", net->input.channels);
}

/* ---- loss ---- */

static void put_loss(FILE *out, const struct torch_tree *tree)
{
    char weight[DECIMAL_SIZE];
    if (tree->head_count == 0)
        return;
    fputs("\n\ndef loss(outputs, labels):\n"
          "    \"\"\"The loss in training: that of the logits, and those of the auxiliary heads times their "
          "weights.\"\"\"\n"
          "    total = F.cross_entropy(outputs[0], labels)\n", out);
    for (uint32_t i = 0; i < tree->head_count; i++) {
        decimal_write_float(tree->heads[i].weight, weight, sizeof(weight));
        fprintf(out, "    total += %s * F.cross_entropy(outputs[%u], labels)\n", weight, i + 1);
    }
    fputs("    return total\n", out);
}

/* ---- weights ---- */

/* Is it a tensor of the network that has another name in the file? */
static bool is_renamed(const struct torch_module *module, size_t i)
{
    const char *const name = module->translated->tensors[i].name;
    return net_parameter_find(module->net, name) != NULL && strcmp(name, module->file->tensors[i].name) != 0;
}

/* Names of other programs, where the file has such. */
static bool put_renamed(FILE *out, const struct torch_module *module)
{
    bool is_any = false;
    for (size_t i = 0; module->file != NULL && i < module->file->count; i++) {
        if (!is_renamed(module, i))
            continue;
        if (!is_any)
            fputs("\n\n# The names of the tensors in the file that this module was written for.\nRENAMED = {\n", out);
        is_any = true;
        fputs("    ", out);
        put_text(out, module->file->tensors[i].name);
        fputs(": ", out);
        put_text(out, module->translated->tensors[i].name);
        fputs(",\n", out);
    }
    fputs(is_any ? "}\n" : "", out);
    return is_any;
}

static bool has_dims(const struct safetensors_tensor *tensor, const struct parameter *parameter)
{
    bool is_same = tensor->rank == parameter->rank;
    for (uint32_t i = 0; is_same && i < parameter->rank; i++)
        is_same = tensor->dims[i] == parameter->dims[i];
    return is_same;
}

/* Does a tensor of the file have its numbers in another shape, as a dense layer that is a convolution of 1x1 here? */
static bool is_reshaped(const struct torch_module *module)
{
    for (size_t i = 0; module->file != NULL && i < module->translated->count; i++) {
        const struct safetensors_tensor *const tensor = &module->translated->tensors[i];
        const struct parameter *const parameter = net_parameter_find(module->net, tensor->name);
        if (parameter != NULL && !has_dims(tensor, parameter))
            return true;
    }
    return false;
}

static void put_load(FILE *out, const struct torch_module *module)
{
    const bool has_renamed = put_renamed(out, module), has_reshaped = is_reshaped(module);
    fputs("\n\ndef load(path, device=\"cpu\"):\n"
          "    \"\"\"The network with the weights of a safetensors file of pipetrain, for evaluation; all must be "
          "there.\n\n"
          "    Of a checkpoint what only training needs is left out.\n"
          "    \"\"\"\n"
          "    network = Network()\n"
          "    wanted = network.state_dict()\n"
          "    others = (\"optim.\", \"raw.\", \"tower.\", \"carried\")\n"
          "    counters = (\"num_batches_tracked\", \"n_averaged\")\n", out);
    fputs(has_renamed ? "    tensors = {RENAMED.get(name, name): tensor for name, tensor in load_file(path).items()}\n"
                      : "    tensors = load_file(path)\n", out);
    fputs("    tensors = {name: tensor for name, tensor in tensors.items()\n"
          "               if name in wanted or not (name.startswith(others) or name.endswith(counters))}\n", out);
    if (has_reshaped)
        fputs("    for name in wanted.keys() & tensors.keys():\n"
              "        tensors[name] = tensors[name].reshape(wanted[name].shape)\n", out);
    fputs("    network.load_state_dict(tensors, strict=True)\n"
          "    return network.to(device).eval()\n", out);
}

/* ---- the whole ---- */

static void put_module(FILE *out, const struct torch_module *module, const struct torch_tree *tree, const char *classes,
                       unsigned uses)
{
    put_documentation(out, module->net, tree->head_count > 0);
    put_imports(out, module, uses, tree->head_count > 0);
    put_constants(out, module);
    put_helpers(out, uses);
    fprintf(out, "\n\n%s", classes);
    put_loss(out, tree);
    put_preprocess(out, module->net);
    if (has_transform(module->net))
        put_transform(out, module->net, module->augment);
    put_load(out, module);
}

int torch_module_print(const struct torch_module *module, FILE *out)
{
    struct torch_tree tree;
    char *classes = NULL;
    size_t bytes;
    unsigned uses = 0;
    int rc = torch_tree_init(&tree, module->net);
    if (rc != 0)
        return rc;
    FILE *const stream = open_memstream(&classes, &bytes);
    rc = stream != NULL ? torch_code_write(&tree, stream, &uses) : -ENOMEM;
    if (stream != NULL && text_stream_end(stream, &classes) != 0)
        rc = -ENOMEM;
    if (rc == 0)
        put_module(out, module, &tree, classes, uses);
    free(classes);
    torch_tree_release(&tree);
    return rc;
}

static int print_to_memory(const struct export_subject *subject, const struct safetensors_index *file, char **text_out,
                           size_t *bytes_out)
{
    const struct augment augment = pixels_augment(subject->settings, subject->net);
    const struct torch_module module = {
        .net = subject->net,
        .augment = &augment,
        .names = subject->names,
        .file = file,
        .translated = initial_weights_index(subject->weights),
    };
    FILE *const out = open_memstream(text_out, bytes_out);
    const int rc = out != NULL ? torch_module_print(&module, out) : -ENOMEM;
    return out != NULL && text_stream_end(out, text_out) != 0 ? -ENOMEM : rc;
}

static int write_text(const struct export_subject *subject, const struct safetensors_index *file,
                      struct export_output *output)
{
    char *text = NULL;
    size_t bytes = 0;
    const int rc = print_to_memory(subject, file, &text, &bytes);
    int code = EXIT_CODE_OK;
    if (rc != 0) {
        log_message(LOG_ERROR, "export: the text of the module: %s", strerror(-rc));
        code = EXIT_CODE_MEMORY;
    } else
        code = export_output_write(output, text, bytes);
    free(text);
    return code;
}

/* Has the name the word `training`, with any words before and after it? Every module has an attribute of this name,
 * which PyTorch sets, so that none inside can have it. */
static bool is_named_training(const char *name)
{
    static const char word[] = "training";
    for (const char *at = name; *at != '\0'; at += strcspn(at, ".") + (at[strcspn(at, ".")] == '.'))
        if (strcspn(at, ".") == strlen(word) && strncmp(at, word, strlen(word)) == 0)
            return true;
    return false;
}

static int check_layers(const struct net *net)
{
    const struct layer *const unknown = torch_code_find_unknown(net);
    if (unknown != NULL)
        log_message(LOG_ERROR, "export: layer '%s' is %s, which --torch cannot write", unknown->name,
                    layer_word(unknown));
    for (uint32_t i = 0; i < net->layer_count && unknown == NULL; i++)
        if (is_named_training(net->layers[i].name)) {
            log_message(LOG_ERROR, "export: layer '%s': no module of PyTorch can contain one with the name 'training': "
                        "give the layer another name, in the model file and in its tensors, or export to ONNX",
                        net->layers[i].name);
            return EXIT_CODE_USAGE;
        }
    return unknown == NULL ? EXIT_CODE_OK : EXIT_CODE_USAGE;
}

int torch_module_write(const struct export_subject *subject, struct export_output *output)
{
    char problem[256] = "";
    struct tensor_file file;
    int code = check_layers(subject->net);
    if (code == EXIT_CODE_OK)
        code = run_weights_check(subject->weights);
    if (code != EXIT_CODE_OK)
        return code;
    const int rc = tensor_file_open(&file, subject->weights_path, problem, sizeof(problem));
    if (rc != 0) {
        log_message(LOG_ERROR, "%s: %s", subject->weights_path, problem[0] != '\0' ? problem : strerror(-rc));
        return (int)exit_code_of(rc, EXIT_CODE_DATA);
    }
    code = write_text(subject, &file.index, output);
    tensor_file_close(&file);
    snprintf(output->note, sizeof(output->note), "a module for PyTorch that loads the weights from that file");
    return code;
}
