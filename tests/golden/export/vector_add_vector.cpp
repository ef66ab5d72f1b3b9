// kernel vector_add, schedule vector (T=256, W=4)
#include "vector_add_launch.h"

#include <atomic>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <initializer_list>
#include <mutex>

// The machine code of vector_add.cu, which becomes a part of this object file.
#ifndef VECTOR_ADD_FATBIN
#define VECTOR_ADD_FATBIN "vector_add.fatbin"
#endif
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        "vector_add_fatbin:\n"
        ".incbin \"" VECTOR_ADD_FATBIN "\"\n"
        ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const unsigned char vector_add_fatbin[];

namespace {

// Sizes are below 2^48: none of the expressions below leaves 128 bits.
__extension__ typedef __int128 Int;

struct Sizes {
    Int N;
};

struct Arguments {
    const void* A;
    const void* B;
    const void* C;
};

// -- errors

thread_local char error_text[1024] = "";

// Keeps the sentence for the caller, and returns the error.
__attribute__((format(printf, 2, 3))) cudaError_t fail(cudaError_t error, const char* format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(error_text, sizeof error_text, format, values);
    va_end(values);
    return error;
}

// -- sizes

// A product of what is no less than `least` each. It stops at 2^63: what is so large is refused.
Int product(std::initializer_list<Int> factors, Int least = 0)
{
    const Int most = Int(1) << 63;
    Int total = 1;
    for (const Int factor : factors) {
        total *= factor > least ? factor : least;
        total = total < most ? total : most;
    }
    return total;
}

long long shown(Int value)
{
    return static_cast<long long>(value);
}

Int place_scratch(const Sizes&, Arguments&, const void*)
{
    return 0;
}

// -- the choice of a version

[[maybe_unused]] bool is_aligned(const void* array, unsigned by)
{
    return reinterpret_cast<uintptr_t>(array) % by == 0;
}

const int version_count = 6;
const char* const version_names[version_count] = {"whole", "vector", "scalar", "whole_64", "vector_64", "scalar_64"};

// True if sizes and addresses are as the version needs them.
bool is_met(int version, [[maybe_unused]] const Sizes& size, [[maybe_unused]] const Arguments& given)
{
    switch (version) {
    case 0:  // whole
        return ((size.N + 3) / 4) % 256 == 0 && size.N % 4 == 0 && is_aligned(given.C, 16) && is_aligned(given.A, 16)
            && is_aligned(given.B, 16);
    case 1:  // vector
        return size.N % 4 == 0 && is_aligned(given.C, 16) && is_aligned(given.A, 16) && is_aligned(given.B, 16);
    case 2:  // scalar
        return true;
    case 3:  // whole_64
        return ((size.N + 3) / 4) % 256 == 0 && size.N % 4 == 0 && is_aligned(given.C, 16) && is_aligned(given.A, 16)
            && is_aligned(given.B, 16);
    case 4:  // vector_64
        return size.N % 4 == 0 && is_aligned(given.C, 16) && is_aligned(given.A, 16) && is_aligned(given.B, 16);
    case 5:  // scalar_64
        return true;
    }
    return false;
}

// True if no integer of the version leaves its type.
bool fits(int version, [[maybe_unused]] const Sizes& size)
{
    switch (version) {
    case 0:
    case 1:
    case 2:
        return product({size.N}, 1) < 2146435072;
    case 3:
    case 4:
    case 5:
        return product({size.N}, 1) < 281474976710656;
    }
    return false;
}

// The first version that is met and fits, those of 64-bit offsets last; -1 where none does.
int choose(const Sizes& size, const Arguments& given)
{
    for (int version = 0; version < version_count; ++version)
        if (is_met(version, size, given) && fits(version, size))
            return version;
    return -1;
}

// -- launches

const int kernel_count = 6;
const char* const kernel_names[kernel_count] = {
    "vector_add_whole",
    "vector_add_vector",
    "vector_add_scalar",
    "vector_add_whole_64",
    "vector_add_vector_64",
    "vector_add_scalar_64"};
cudaKernel_t kernels[kernel_count];

cudaError_t load()
{
    static std::mutex mutex;
    static std::atomic<bool> is_loaded{false};
    if (is_loaded.load(std::memory_order_acquire))
        return cudaSuccess;
    const std::lock_guard<std::mutex> lock(mutex);
    if (is_loaded.load(std::memory_order_relaxed))
        return cudaSuccess;
    cudaLibrary_t library = nullptr;
    cudaError_t error = cudaLibraryLoadData(&library, vector_add_fatbin, nullptr, nullptr, 0, nullptr, nullptr, 0);
    for (int kernel = 0; kernel < kernel_count && error == cudaSuccess; ++kernel)
        error = cudaLibraryGetKernel(&kernels[kernel], library, kernel_names[kernel]);
    if (error != cudaSuccess)
        return fail(error, "the machine code of vector_add, which is for sm_80, cannot be loaded: %s",
                    cudaGetErrorString(error));
    is_loaded.store(true, std::memory_order_release);
    return cudaSuccess;
}

// One launch: its grid is tested first, and it is queued only when `queue` says so.
cudaError_t launch(int kernel, const Int (&blocks)[3], dim3 threads, unsigned shared, bool early,
                   const void** arguments, bool queue, cudaStream_t stream)
{
    const Int most[3] = {2147483647, 65535, 65535};
    for (int axis = 0; axis < 3; ++axis)
        if (blocks[axis] > most[axis])
            return fail(cudaErrorInvalidConfiguration, "%s needs %lld blocks along %c; %lld are the limit",
                        kernel_names[kernel], shown(blocks[axis]), "xyz"[axis], shown(most[axis]));
    if (!queue || blocks[0] == 0 || blocks[1] == 0 || blocks[2] == 0)
        return cudaSuccess;  // no GPU takes a launch of no blocks
    const void* function = reinterpret_cast<const void*>(kernels[kernel]);
    if (shared > 0)
        if (cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared))
            return fail(error, "%s needs %u bytes of shared memory a block, and this GPU has less: %s",
                        kernel_names[kernel], shared, cudaGetErrorString(error));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(unsigned(blocks[0]), unsigned(blocks[1]), unsigned(blocks[2]));
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = early ? 1 : 0;  // it may begin while the launch before it runs
    if (cudaError_t error = cudaLaunchKernelExC(&config, function, const_cast<void**>(arguments)))
        return fail(error, "%s cannot be launched: %s", kernel_names[kernel], cudaGetErrorString(error));
    return cudaSuccess;
}

cudaError_t launch_vector_add_whole([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                    cudaStream_t stream)
{
    const void* arguments[] = {&given.A, &given.B, &given.C};
    const Int blocks[3] = {product({size.N / 4 / 256}), product({1}), product({1})};
    return launch(0, blocks, dim3(256, 1, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_vector_add_vector([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                     cudaStream_t stream)
{
    const int N = static_cast<int>(size.N);
    const void* arguments[] = {&given.A, &given.B, &given.C, &N};
    const Int blocks[3] = {product({((size.N + 3) / 4 + 255) / 256}), product({1}), product({1})};
    return launch(1, blocks, dim3(256, 1, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_vector_add_scalar([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                     cudaStream_t stream)
{
    const int N = static_cast<int>(size.N);
    const void* arguments[] = {&given.A, &given.B, &given.C, &N};
    const Int blocks[3] = {product({((size.N + 3) / 4 + 255) / 256}), product({1}), product({1})};
    return launch(2, blocks, dim3(256, 1, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_vector_add_whole_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                       cudaStream_t stream)
{
    const void* arguments[] = {&given.A, &given.B, &given.C};
    const Int blocks[3] = {product({size.N / 4 / 256}), product({1}), product({1})};
    return launch(3, blocks, dim3(256, 1, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_vector_add_vector_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                        cudaStream_t stream)
{
    const long long N = static_cast<long long>(size.N);
    const void* arguments[] = {&given.A, &given.B, &given.C, &N};
    const Int blocks[3] = {product({((size.N + 3) / 4 + 255) / 256}), product({1}), product({1})};
    return launch(4, blocks, dim3(256, 1, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_vector_add_scalar_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                        cudaStream_t stream)
{
    const long long N = static_cast<long long>(size.N);
    const void* arguments[] = {&given.A, &given.B, &given.C, &N};
    const Int blocks[3] = {product({((size.N + 3) / 4 + 255) / 256}), product({1}), product({1})};
    return launch(5, blocks, dim3(256, 1, 1), 0, false, arguments, queue, stream);
}

// The launches of a version, in their order: first a test of all grids, then the same with `queue`.
cudaError_t launch_version(int version, const Sizes& size, const Arguments& given, bool queue, cudaStream_t stream)
{
    switch (version) {
    case 0:  // whole
        return launch_vector_add_whole(size, given, queue, stream);
    case 1:  // vector
        return launch_vector_add_vector(size, given, queue, stream);
    case 2:  // scalar
        return launch_vector_add_scalar(size, given, queue, stream);
    case 3:  // whole_64
        return launch_vector_add_whole_64(size, given, queue, stream);
    case 4:  // vector_64
        return launch_vector_add_vector_64(size, given, queue, stream);
    case 5:  // scalar_64
        return launch_vector_add_scalar_64(size, given, queue, stream);
    }
    return fail(cudaErrorInvalidValue, "vector_add has no version %d", version);
}

// -- checks

cudaError_t check_size(const char* name, Int value, int least)
{
    if (value < least)
        return fail(cudaErrorInvalidValue, "size %s is %lld, and sizes are at least 1", name, shown(value));
    if (value >= Int(1) << 48)
        return fail(cudaErrorInvalidValue, "size %s is %lld, and no memory has as many elements", name, shown(value));
    return cudaSuccess;
}

// True if each output has an extent of 0, and nothing is negative: then there is nothing to compute.
bool has_no_output([[maybe_unused]] const Sizes& size)
{
    return size.N >= 0 && size.N == 0;
}

cudaError_t check_sizes([[maybe_unused]] const Sizes& size)
{
    const int least = has_no_output(size) ? 0 : 1;
    if (cudaError_t error = check_size("N", size.N, least))
        return error;
    return cudaSuccess;
}

// What lies in memory: a call writes some of it, which nothing else may share.
struct Span {
    const char* name;
    const void* start;
    Int bytes;
    unsigned element_bytes;
    bool is_written;
};

cudaError_t check_arrays([[maybe_unused]] const Sizes& size, const Arguments& given, void* workspace,
                         size_t workspace_bytes)
{
    Arguments nowhere = given;
    const Int needed = place_scratch(size, nowhere, nullptr);
    if (needed > 0 && !workspace)
        return fail(cudaErrorInvalidValue, "the workspace is NULL, and %lld bytes are needed", shown(needed));
    if (needed > Int(workspace_bytes))
        return fail(cudaErrorInvalidValue, "the workspace has %zu bytes, and %lld are needed", workspace_bytes,
                    shown(needed));
    const Span spans[] = {
        {"A", given.A, product({size.N}) * 4, 4, false},
        {"B", given.B, product({size.N}) * 4, 4, false},
        {"C", given.C, product({size.N}) * 4, 4, true},
        {"the workspace", workspace, needed, needed > 0 ? 256u : 1u, needed > 0},
    };
    for (const Span& span : spans) {
        if (span.bytes > 0 && !span.start)
            return fail(cudaErrorInvalidValue, "%s is NULL", span.name);
        if (reinterpret_cast<uintptr_t>(span.start) % span.element_bytes)
            return fail(cudaErrorInvalidValue, "%s is at %p, which is no multiple of %u bytes", span.name, span.start,
                        span.element_bytes);
    }
    for (const Span& one : spans)
        for (const Span& other : spans) {
            const Int low = reinterpret_cast<uintptr_t>(one.start), start = reinterpret_cast<uintptr_t>(other.start);
            if (&one != &other && one.is_written && start < low + one.bytes && low < start + other.bytes)
                return fail(cudaErrorInvalidValue, "%s and %s share memory, and %s is written to", one.name,
                            other.name, one.name);
        }
    return cudaSuccess;
}

// A call with checked arguments; -1 chooses the version.
cudaError_t call(int version, const Sizes& size, Arguments given, void* workspace, size_t workspace_bytes,
                 cudaStream_t stream)
{
    if (cudaError_t error = check_sizes(size))
        return error;
    if (has_no_output(size))
        return cudaSuccess;
    const int chosen = version < 0 ? choose(size, given) : version;
    if (chosen < 0)
        return fail(cudaErrorInvalidValue, "vector_add needs integers of more than 64 bits for these sizes");
    if (chosen >= version_count)
        return fail(cudaErrorInvalidValue, "vector_add has no version %d; there are %d", chosen, version_count);
    if (!is_met(chosen, size, given) || !fits(chosen, size))
        return fail(cudaErrorInvalidValue, "version %d of vector_add, %s, is not for these sizes and addresses", chosen,
                    version_names[chosen]);
    if (cudaError_t error = check_arrays(size, given, workspace, workspace_bytes))
        return error;
    place_scratch(size, given, workspace);
    if (cudaError_t error = launch_version(chosen, size, given, false, stream))
        return error;
    if (cudaError_t error = load())
        return error;
    return launch_version(chosen, size, given, true, stream);
}

}  // namespace

extern "C" cudaError_t vector_add_launch(const float* A, const float* B, float* C, int64_t N, void* workspace,
                                         size_t workspace_bytes, cudaStream_t stream)
{
    Arguments given = {};
    given.A = A;
    given.B = B;
    given.C = C;
    return call(-1, Sizes{N}, given, workspace, workspace_bytes, stream);
}

extern "C" cudaError_t vector_add_launch_as(int version, const float* A, const float* B, float* C, int64_t N,
                                            void* workspace, size_t workspace_bytes, cudaStream_t stream)
{
    Arguments given = {};
    given.A = A;
    given.B = B;
    given.C = C;
    return call(version < 0 ? version_count : version, Sizes{N}, given, workspace, workspace_bytes, stream);
}

extern "C" size_t vector_add_workspace_bytes(int64_t N)
{
    const Sizes size = Sizes{N};
    Arguments given = {};
    if (check_sizes(size) != cudaSuccess || has_no_output(size))
        return 0;
    const Int bytes = place_scratch(size, given, nullptr);
    return bytes < Int(SIZE_MAX) ? size_t(bytes) : SIZE_MAX;
}

extern "C" int vector_add_version(const void* A, const void* B, const void* C, int64_t N)
{
    const Sizes size = Sizes{N};
    Arguments given = {};
    given.A = A;
    given.B = B;
    given.C = C;
    return check_sizes(size) == cudaSuccess && !has_no_output(size) ? choose(size, given) : -1;
}

extern "C" const char* vector_add_version_name(int version)
{
    return version >= 0 && version < version_count ? version_names[version] : "none";
}

extern "C" const char* vector_add_error_text(void)
{
    return error_text;
}

extern "C" cudaError_t vector_add_load(void)
{
    return load();
}
