// kernel gemm, schedule padded (TM=128, TN=256, TK=8, WI=4, WJ=2, STAGES=2)
#include "gemm_launch.h"

#include <atomic>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <initializer_list>
#include <mutex>

// The machine code of gemm.cu, which becomes a part of this object file.
#ifndef GEMM_FATBIN
#define GEMM_FATBIN "gemm.fatbin"
#endif
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        "gemm_fatbin:\n"
        ".incbin \"" GEMM_FATBIN "\"\n"
        ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const unsigned char gemm_fatbin[];

namespace {

// Sizes are below 2^48: none of the expressions below leaves 128 bits.
__extension__ typedef __int128 Int;

struct Sizes {
    Int M;
    Int K;
    Int N;
};

struct Arguments {
    const void* A;
    const void* B;
    const void* C;
    const void* A_global;  // in the workspace
    const void* B_global;  // in the workspace
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

// Puts the scratch arrays into the workspace, one after another; returns the bytes that they take.
Int place_scratch(const Sizes& size, Arguments& given, const void* workspace)
{
    const uintptr_t begin = reinterpret_cast<uintptr_t>(workspace);
    Int end = 0;
    given.A_global = reinterpret_cast<const void*>(begin + uintptr_t(end));
    end += (product({((size.K + 31) / 32) * 32, ((size.M + 127) / 128) * 128}) * 4 + 255) / 256 * 256;
    given.B_global = reinterpret_cast<const void*>(begin + uintptr_t(end));
    end += (product({((size.K + 31) / 32) * 32, ((size.N + 255) / 256) * 256}) * 4 + 255) / 256 * 256;
    return end;
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
        return size.N % 256 == 0 && size.K % 32 == 0 && size.M % 128 == 0 && is_aligned(given.C, 16);
    case 1:  // vector
        return size.N % 4 == 0 && is_aligned(given.C, 16);
    case 2:  // scalar
        return true;
    case 3:  // whole_64
        return size.N % 256 == 0 && size.K % 32 == 0 && size.M % 128 == 0 && is_aligned(given.C, 16);
    case 4:  // vector_64
        return size.N % 4 == 0 && is_aligned(given.C, 16);
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
        return product({size.M, size.K}, 1) < 2146435072 && product({size.K, size.N}, 1) < 2146435072
            && product({size.M, size.N}, 1) < 2146435072
            && product({((size.K + 31) / 32) * 32, ((size.N + 255) / 256) * 256}, 1) < 2146435072
            && product({((size.M + 127) / 128) * 128, ((size.K + 31) / 32) * 32}, 1) < 2146435072;
    case 3:
    case 4:
    case 5:
        return product({size.M, size.K}, 1) < 281474976710656 && product({size.K, size.N}, 1) < 281474976710656
            && product({size.M, size.N}, 1) < 281474976710656
            && product({((size.K + 31) / 32) * 32, ((size.N + 255) / 256) * 256}, 1) < 281474976710656
            && product({((size.M + 127) / 128) * 128, ((size.K + 31) / 32) * 32}, 1) < 281474976710656;
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

const int kernel_count = 14;
const char* const kernel_names[kernel_count] = {
    "gemm_B_global_whole",
    "gemm_A_global_whole",
    "gemm_C_whole",
    "gemm_B_global_vector",
    "gemm_A_global_vector",
    "gemm_C_vector",
    "gemm_C_scalar",
    "gemm_B_global_whole_64",
    "gemm_A_global_whole_64",
    "gemm_C_whole_64",
    "gemm_B_global_vector_64",
    "gemm_A_global_vector_64",
    "gemm_C_vector_64",
    "gemm_C_scalar_64"};
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
    cudaError_t error = cudaLibraryLoadData(&library, gemm_fatbin, nullptr, nullptr, 0, nullptr, nullptr, 0);
    for (int kernel = 0; kernel < kernel_count && error == cudaSuccess; ++kernel)
        error = cudaLibraryGetKernel(&kernels[kernel], library, kernel_names[kernel]);
    if (error != cudaSuccess)
        return fail(error, "the machine code of gemm, which is for sm_80, cannot be loaded: %s",
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

cudaError_t launch_gemm_B_global_whole([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                       cudaStream_t stream)
{
    const int N = static_cast<int>(size.N);
    const void* arguments[] = {&given.B, &given.B_global, &N};
    const Int blocks[3] = {product({size.N / 256}), product({(size.K / 32) * 4}), product({1})};
    return launch(0, blocks, dim3(256, 1, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_A_global_whole([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                       cudaStream_t stream)
{
    const int M = static_cast<int>(size.M);
    const int K = static_cast<int>(size.K);
    const void* arguments[] = {&given.A, &given.A_global, &M, &K};
    const Int blocks[3] = {product({size.K / 32}), product({(size.M / 128) * 4}), product({1})};
    return launch(1, blocks, dim3(32, 8, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_C_whole([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                cudaStream_t stream)
{
    const int M = static_cast<int>(size.M);
    const int K = static_cast<int>(size.K);
    const int N = static_cast<int>(size.N);
    const void* arguments[] = {&given.C, &given.A_global, &given.B_global, &M, &K, &N};
    const Int blocks[3] = {product({size.N / 256}), product({size.M / 128}), product({1})};
    return launch(2, blocks, dim3(32, 2, 4), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_B_global_vector([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                        cudaStream_t stream)
{
    const int K = static_cast<int>(size.K);
    const int N = static_cast<int>(size.N);
    const void* arguments[] = {&given.B, &given.B_global, &K, &N};
    const Int blocks[3] = {product({(size.N + 255) / 256}), product({((size.K + 31) / 32) * 4}), product({1})};
    return launch(3, blocks, dim3(256, 1, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_A_global_vector([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                        cudaStream_t stream)
{
    const int M = static_cast<int>(size.M);
    const int K = static_cast<int>(size.K);
    const void* arguments[] = {&given.A, &given.A_global, &M, &K};
    const Int blocks[3] = {product({(size.K + 31) / 32}), product({((size.M + 127) / 128) * 4}), product({1})};
    return launch(4, blocks, dim3(32, 8, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_C_vector([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                 cudaStream_t stream)
{
    const int M = static_cast<int>(size.M);
    const int K = static_cast<int>(size.K);
    const int N = static_cast<int>(size.N);
    const void* arguments[] = {&given.C, &given.A_global, &given.B_global, &M, &K, &N};
    const Int blocks[3] = {product({(size.N + 255) / 256}), product({(size.M + 127) / 128}), product({1})};
    return launch(5, blocks, dim3(32, 2, 4), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_C_scalar([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                 cudaStream_t stream)
{
    const int M = static_cast<int>(size.M);
    const int K = static_cast<int>(size.K);
    const int N = static_cast<int>(size.N);
    const void* arguments[] = {&given.C, &given.A_global, &given.B_global, &M, &K, &N};
    const Int blocks[3] = {product({(size.N + 255) / 256}), product({(size.M + 127) / 128}), product({1})};
    return launch(6, blocks, dim3(32, 2, 4), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_B_global_whole_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                          cudaStream_t stream)
{
    const long long N = static_cast<long long>(size.N);
    const void* arguments[] = {&given.B, &given.B_global, &N};
    const Int blocks[3] = {product({size.N / 256}), product({(size.K / 32) * 4}), product({1})};
    return launch(7, blocks, dim3(256, 1, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_A_global_whole_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                          cudaStream_t stream)
{
    const long long M = static_cast<long long>(size.M);
    const long long K = static_cast<long long>(size.K);
    const void* arguments[] = {&given.A, &given.A_global, &M, &K};
    const Int blocks[3] = {product({size.K / 32}), product({(size.M / 128) * 4}), product({1})};
    return launch(8, blocks, dim3(32, 8, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_C_whole_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                   cudaStream_t stream)
{
    const long long M = static_cast<long long>(size.M);
    const long long K = static_cast<long long>(size.K);
    const long long N = static_cast<long long>(size.N);
    const void* arguments[] = {&given.C, &given.A_global, &given.B_global, &M, &K, &N};
    const Int blocks[3] = {product({size.N / 256}), product({size.M / 128}), product({1})};
    return launch(9, blocks, dim3(32, 2, 4), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_B_global_vector_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                           cudaStream_t stream)
{
    const long long K = static_cast<long long>(size.K);
    const long long N = static_cast<long long>(size.N);
    const void* arguments[] = {&given.B, &given.B_global, &K, &N};
    const Int blocks[3] = {product({(size.N + 255) / 256}), product({((size.K + 31) / 32) * 4}), product({1})};
    return launch(10, blocks, dim3(256, 1, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_A_global_vector_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                           cudaStream_t stream)
{
    const long long M = static_cast<long long>(size.M);
    const long long K = static_cast<long long>(size.K);
    const void* arguments[] = {&given.A, &given.A_global, &M, &K};
    const Int blocks[3] = {product({(size.K + 31) / 32}), product({((size.M + 127) / 128) * 4}), product({1})};
    return launch(11, blocks, dim3(32, 8, 1), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_C_vector_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                    cudaStream_t stream)
{
    const long long M = static_cast<long long>(size.M);
    const long long K = static_cast<long long>(size.K);
    const long long N = static_cast<long long>(size.N);
    const void* arguments[] = {&given.C, &given.A_global, &given.B_global, &M, &K, &N};
    const Int blocks[3] = {product({(size.N + 255) / 256}), product({(size.M + 127) / 128}), product({1})};
    return launch(12, blocks, dim3(32, 2, 4), 0, false, arguments, queue, stream);
}

cudaError_t launch_gemm_C_scalar_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                    cudaStream_t stream)
{
    const long long M = static_cast<long long>(size.M);
    const long long K = static_cast<long long>(size.K);
    const long long N = static_cast<long long>(size.N);
    const void* arguments[] = {&given.C, &given.A_global, &given.B_global, &M, &K, &N};
    const Int blocks[3] = {product({(size.N + 255) / 256}), product({(size.M + 127) / 128}), product({1})};
    return launch(13, blocks, dim3(32, 2, 4), 0, false, arguments, queue, stream);
}

// The launches of a version, in their order: first a test of all grids, then the same with `queue`.
cudaError_t launch_version(int version, const Sizes& size, const Arguments& given, bool queue, cudaStream_t stream)
{
    switch (version) {
    case 0:  // whole
        if (cudaError_t error = launch_gemm_B_global_whole(size, given, queue, stream))
            return error;
        if (cudaError_t error = launch_gemm_A_global_whole(size, given, queue, stream))
            return error;
        return launch_gemm_C_whole(size, given, queue, stream);
    case 1:  // vector
        if (cudaError_t error = launch_gemm_B_global_vector(size, given, queue, stream))
            return error;
        if (cudaError_t error = launch_gemm_A_global_vector(size, given, queue, stream))
            return error;
        return launch_gemm_C_vector(size, given, queue, stream);
    case 2:  // scalar
        if (cudaError_t error = launch_gemm_B_global_vector(size, given, queue, stream))
            return error;
        if (cudaError_t error = launch_gemm_A_global_vector(size, given, queue, stream))
            return error;
        return launch_gemm_C_scalar(size, given, queue, stream);
    case 3:  // whole_64
        if (cudaError_t error = launch_gemm_B_global_whole_64(size, given, queue, stream))
            return error;
        if (cudaError_t error = launch_gemm_A_global_whole_64(size, given, queue, stream))
            return error;
        return launch_gemm_C_whole_64(size, given, queue, stream);
    case 4:  // vector_64
        if (cudaError_t error = launch_gemm_B_global_vector_64(size, given, queue, stream))
            return error;
        if (cudaError_t error = launch_gemm_A_global_vector_64(size, given, queue, stream))
            return error;
        return launch_gemm_C_vector_64(size, given, queue, stream);
    case 5:  // scalar_64
        if (cudaError_t error = launch_gemm_B_global_vector_64(size, given, queue, stream))
            return error;
        if (cudaError_t error = launch_gemm_A_global_vector_64(size, given, queue, stream))
            return error;
        return launch_gemm_C_scalar_64(size, given, queue, stream);
    }
    return fail(cudaErrorInvalidValue, "gemm has no version %d", version);
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
    return size.M >= 0 && size.K >= 0 && size.N >= 0 && (size.M == 0 || size.N == 0);
}

cudaError_t check_sizes([[maybe_unused]] const Sizes& size)
{
    const int least = has_no_output(size) ? 0 : 1;
    if (cudaError_t error = check_size("M", size.M, least))
        return error;
    if (cudaError_t error = check_size("K", size.K, least))
        return error;
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
        {"A", given.A, product({size.M, size.K}) * 4, 4, false},
        {"B", given.B, product({size.K, size.N}) * 4, 4, false},
        {"C", given.C, product({size.M, size.N}) * 4, 4, true},
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
        return fail(cudaErrorInvalidValue, "gemm needs integers of more than 64 bits for these sizes");
    if (chosen >= version_count)
        return fail(cudaErrorInvalidValue, "gemm has no version %d; there are %d", chosen, version_count);
    if (!is_met(chosen, size, given) || !fits(chosen, size))
        return fail(cudaErrorInvalidValue, "version %d of gemm, %s, is not for these sizes and addresses", chosen,
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

extern "C" cudaError_t gemm_launch(const float* A, const float* B, float* C, int64_t M, int64_t K, int64_t N,
                                   void* workspace, size_t workspace_bytes, cudaStream_t stream)
{
    Arguments given = {};
    given.A = A;
    given.B = B;
    given.C = C;
    return call(-1, Sizes{M, K, N}, given, workspace, workspace_bytes, stream);
}

extern "C" cudaError_t gemm_launch_as(int version, const float* A, const float* B, float* C, int64_t M, int64_t K,
                                      int64_t N, void* workspace, size_t workspace_bytes, cudaStream_t stream)
{
    Arguments given = {};
    given.A = A;
    given.B = B;
    given.C = C;
    return call(version < 0 ? version_count : version, Sizes{M, K, N}, given, workspace, workspace_bytes, stream);
}

extern "C" size_t gemm_workspace_bytes(int64_t M, int64_t K, int64_t N)
{
    const Sizes size = Sizes{M, K, N};
    Arguments given = {};
    if (check_sizes(size) != cudaSuccess || has_no_output(size))
        return 0;
    const Int bytes = place_scratch(size, given, nullptr);
    return bytes < Int(SIZE_MAX) ? size_t(bytes) : SIZE_MAX;
}

extern "C" int gemm_version(const void* A, const void* B, const void* C, int64_t M, int64_t K, int64_t N)
{
    const Sizes size = Sizes{M, K, N};
    Arguments given = {};
    given.A = A;
    given.B = B;
    given.C = C;
    return check_sizes(size) == cudaSuccess && !has_no_output(size) ? choose(size, given) : -1;
}

extern "C" const char* gemm_version_name(int version)
{
    return version >= 0 && version < version_count ? version_names[version] : "none";
}

extern "C" const char* gemm_error_text(void)
{
    return error_text;
}

extern "C" cudaError_t gemm_load(void)
{
    return load();
}
