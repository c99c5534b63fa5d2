/* Classify images with a network that `pipetrain export --layout=nhwc` wrote, by the C++ interface of ONNX Runtime: an
 * example to copy from (doc/serving.md).
 *
 *     g++ -O2 -std=c++17 serve_onnx.cc -o serve_onnx $(pkg-config --cflags --libs libonnxruntime)
 *     ./serve_onnx MODEL.onnx IMAGE...
 *
 * Images are binary PPM or PGM files of the network's size, which are computed in one batch. A line of output is image,
 * class, its name and its probability, with tabs between them. */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <onnxruntime_cxx_api.h>

using Pixels = std::vector<uint8_t>;
using Shape = std::vector<int64_t>;     // N, H, W, C

// Append the pixels of an image, which are in the order of the network's already.
static void append_image(const std::string &path, const Shape &shape, Pixels &pixels)
{
    std::ifstream file(path, std::ios::binary);
    std::string magic;
    int64_t width = 0, height = 0, brightest = 0;
    file >> magic >> width >> height >> brightest;
    file.get();
    if (!file || magic != (shape[3] == 1 ? "P5" : "P6") || height != shape[1] || width != shape[2] || brightest != 255)
        throw std::runtime_error(path + ": is no binary " + (shape[3] == 1 ? "PGM" : "PPM") + " of " +
                                 std::to_string(shape[2]) + "x" + std::to_string(shape[1]) + " pixels of 8 bits");
    const size_t before = pixels.size(), bytes = size_t(height * width * shape[3]);
    pixels.resize(before + bytes);
    if (!file.read(reinterpret_cast<char *>(&pixels[before]), std::streamsize(bytes)))
        throw std::runtime_error(path + ": ends early");
}

// The names of the classes, from an array of JSON. Escapes of a letter and a number, as of control characters, stay.
static std::vector<std::string> class_names(const Ort::Session &session, size_t count)
{
    Ort::AllocatorWithDefaultOptions allocator;
    const auto text = session.GetModelMetadata().LookupCustomMetadataMapAllocated("class_names", allocator);
    std::vector<std::string> names;
    bool inside = false;
    for (const char *at = text ? text.get() : ""; *at != '\0'; at++) {
        if (*at == '"') {
            inside = !inside;
            if (inside)
                names.emplace_back();
        } else if (inside) {
            at += *at == '\\' && (at[1] == '"' || at[1] == '\\');
            names.back() += *at;
        }
    }
    names.resize(count);
    return names;
}

static void classify(const char *model, const std::vector<std::string> &paths)
{
    Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "serve");
    Ort::Session session(env, model, Ort::SessionOptions());
    Shape shape = session.GetInputTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape();
    if (shape.size() != 4 || (shape[3] != 1 && shape[3] != 3))
        throw std::runtime_error(std::string(model) + ": was not exported with --layout=nhwc");
    shape[0] = int64_t(paths.size());
    Pixels pixels;
    for (const std::string &path : paths)
        append_image(path, shape, pixels);
    Ort::Value input = Ort::Value::CreateTensor<uint8_t>(
        Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault), pixels.data(), pixels.size(), shape.data(),
        shape.size());
    const char *const inputs[] = { "image" }, *const outputs[] = { "probabilities" };
    const auto results = session.Run(Ort::RunOptions(), inputs, &input, 1, outputs, 1);
    const size_t classes = size_t(results[0].GetTensorTypeAndShapeInfo().GetShape()[1]);
    const std::vector<std::string> names = class_names(session, classes);
    const float *probabilities = results[0].GetTensorData<float>();
    for (const std::string &path : paths) {
        const size_t best = size_t(std::max_element(probabilities, probabilities + classes) - probabilities);
        std::printf("%s\t%zu\t%s\t%.6f\n", path.c_str(), best, names[best].c_str(), double(probabilities[best]));
        probabilities += classes;
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        std::fprintf(stderr, "usage: serve_onnx MODEL.onnx IMAGE...\n");
        return 2;
    }
    try {
        classify(argv[1], std::vector<std::string>(argv + 2, argv + argc));
    } catch (const std::exception &error) {     // Ort::Exception, too
        std::fprintf(stderr, "serve_onnx: %s\n", error.what());
        return 1;
    }
    return 0;
}
