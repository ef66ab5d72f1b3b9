// kernel hgemm, schedule persistent (TM=128, TN=256, STAGES=4, IN=bf16, V=8, KI=16, TK=64, PC=64, OUT=bf16, GROUP=8)
#include "hgemm_launch.h"

#include <atomic>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <initializer_list>
#include <mutex>
#include <cuda.h>

// The machine code of hgemm.cu, which becomes a part of this object file.
#ifndef HGEMM_FATBIN
#define HGEMM_FATBIN "hgemm.fatbin"
#endif
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        "hgemm_fatbin:\n"
        ".incbin \"" HGEMM_FATBIN "\"\n"
        ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const unsigned char hgemm_fatbin[];

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

const int version_count = 10;
const char* const version_names[version_count] = {"whole", "vector", "mixed_1", "mixed_2", "scalar", "whole_64",
                                                  "vector_64", "mixed_1_64", "mixed_2_64", "scalar_64"};

// True if sizes and addresses are as the version needs them.
bool is_met(int version, [[maybe_unused]] const Sizes& size, [[maybe_unused]] const Arguments& given)
{
    switch (version) {
    case 0:  // whole
        return size.N % 256 == 0 && size.M % 128 == 0 && size.K % 64 == 0 && is_aligned(given.A, 16)
            && is_aligned(given.B, 16) && is_aligned(given.C, 16);
    case 1:  // vector
        return size.K % 8 == 0 && is_aligned(given.A, 16) && size.N % 8 == 0 && is_aligned(given.B, 16)
            && is_aligned(given.C, 16);
    case 2:  // mixed_1
        return size.K % 8 == 0 && is_aligned(given.A, 16) && size.N % 8 == 0 && is_aligned(given.B, 16);
    case 3:  // mixed_2
        return size.N % 8 == 0 && is_aligned(given.C, 16);
    case 4:  // scalar
        return true;
    case 5:  // whole_64
        return size.N % 256 == 0 && size.M % 128 == 0 && size.K % 64 == 0 && is_aligned(given.A, 16)
            && is_aligned(given.B, 16) && is_aligned(given.C, 16);
    case 6:  // vector_64
        return size.K % 8 == 0 && is_aligned(given.A, 16) && size.N % 8 == 0 && is_aligned(given.B, 16)
            && is_aligned(given.C, 16);
    case 7:  // mixed_1_64
        return size.K % 8 == 0 && is_aligned(given.A, 16) && size.N % 8 == 0 && is_aligned(given.B, 16);
    case 8:  // mixed_2_64
        return size.N % 8 == 0 && is_aligned(given.C, 16);
    case 9:  // scalar_64
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
    case 3:
    case 4:
        return product({size.M, size.K}, 1) < 2146435072 && product({size.K, size.N}, 1) < 2146435072
            && product({size.M, size.N}, 1) < 2146435072;
    case 5:
        return size.K < 2147483711LL && size.M < 2147483775LL && size.N < 2147483711LL
            && product({size.M, size.K}, 1) < 281474976710656 && product({size.K, size.N}, 1) < 281474976710656
            && product({size.M, size.N}, 1) < 281474976710656;
    case 6:
    case 7:
        return size.K < 2147483648LL && size.M < 2147483648LL && size.N < 2147483456
            && product({size.M, size.K}, 1) < 281474976710656 && product({size.K, size.N}, 1) < 281474976710656
            && product({size.M, size.N}, 1) < 281474976710656;
    case 8:
    case 9:
        return product({size.M, size.K}, 1) < 281474976710656 && product({size.K, size.N}, 1) < 281474976710656
            && product({size.M, size.N}, 1) < 281474976710656;
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

const int kernel_count = 10;
const char* const kernel_names[kernel_count] = {
    "hgemm_whole",
    "hgemm_vector",
    "hgemm_mixed_1",
    "hgemm_mixed_2",
    "hgemm_scalar",
    "hgemm_whole_64",
    "hgemm_vector_64",
    "hgemm_mixed_1_64",
    "hgemm_mixed_2_64",
    "hgemm_scalar_64"};
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
    cudaError_t error = cudaLibraryLoadData(&library, hgemm_fatbin, nullptr, nullptr, 0, nullptr, nullptr, 0);
    for (int kernel = 0; kernel < kernel_count && error == cudaSuccess; ++kernel)
        error = cudaLibraryGetKernel(&kernels[kernel], library, kernel_names[kernel]);
    if (error != cudaSuccess)
        return fail(error, "the machine code of hgemm, which is for sm_80, cannot be loaded: %s",
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

// The same of tiles along x, which as many blocks share out as the GPU runs at once.
cudaError_t launch_tiles(int kernel, const Int (&tiles)[3], dim3 threads, unsigned shared, bool early,
                         const void** arguments, bool queue, cudaStream_t stream)
{
    const Int most = 1073741824, others = tiles[1] * tiles[2];
    if (tiles[0] > most)
        return fail(cudaErrorInvalidConfiguration, "%s needs %lld tiles; %lld are the limit", kernel_names[kernel],
                    shown(tiles[0]), shown(most));
    int device = 0, count = 1, resident = 1;
    if (queue && tiles[0] > 0 && others > 0) {
        const void* function = reinterpret_cast<const void*>(kernels[kernel]);
        cudaError_t error = cudaGetDevice(&device);
        if (error == cudaSuccess)
            error = cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
        if (error == cudaSuccess && shared > 0)
            error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
        if (error == cudaSuccess)
            error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, function,
                                                                  threads.x * threads.y * threads.z, shared);
        if (error != cudaSuccess)
            return fail(error, "it is not known how many blocks of %s run at once: %s", kernel_names[kernel],
                        cudaGetErrorString(error));
    }
    const Int at_once = others > 0 ? Int(count) * resident / others : 1, least = at_once > 0 ? at_once : 1;
    const Int blocks[3] = {tiles[0] < least ? tiles[0] : least, tiles[1], tiles[2]};
    return launch(kernel, blocks, threads, shared, early, arguments, queue, stream);
}

// Describes a tensor to the hardware that copies boxes of it, the fastest dimension first.
template <int rank>
cudaError_t describe(CUtensorMap* map, const char* name, CUtensorMapDataType type, int bytes, const void* array,
                     const Int (&extents)[rank], const cuuint32_t (&box)[rank], const cuuint32_t (&steps)[rank],
                     CUtensorMapSwizzle swizzle)
{
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    const char* const word = "cuTensorMapEncodeTiled";
    const cudaError_t error = cudaGetDriverEntryPointByVersion(word, &entry, 12000, cudaEnableDefault, &found);
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
        return fail(error ? error : cudaErrorInsufficientDriver,
                    "the CUDA driver knows no tensor maps; those of CUDA 12.0 and later do");
    cuuint64_t shape[rank], strides[rank];
    for (int d = 0; d < rank; ++d) {
        shape[d] = cuuint64_t(extents[d]);
        strides[d] = d == 0 ? cuuint64_t(bytes) * shape[0] : strides[d - 1] * shape[d];
    }
    const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
    const CUresult result = encode(map, type, rank, const_cast<void*>(array), shape, strides, box, steps,
                                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return fail(cudaErrorInvalidValue, "the CUDA driver makes no tensor map of %s: CUresult %d", name, int(result));
    return cudaSuccess;
}

cudaError_t launch_hgemm_whole([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                               cudaStream_t stream)
{
    const int M = static_cast<int>(size.M);
    const int K = static_cast<int>(size.K);
    const int N = static_cast<int>(size.N);
    CUtensorMap map_0 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_0, "A", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.A, {size.K, size.M}, {64, 128}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    CUtensorMap map_1 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_1, "B", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.B, {size.N, size.K}, {64, 64}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    const void* arguments[] = {&given.C, &map_0, &map_1, &M, &K, &N};
    const Int blocks[3] = {product({size.M / 128, size.N / 256}), product({1}), product({1})};
    return launch_tiles(0, blocks, dim3(288, 1, 1), 213056, false, arguments, queue, stream);
}

cudaError_t launch_hgemm_vector([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                cudaStream_t stream)
{
    const int M = static_cast<int>(size.M);
    const int K = static_cast<int>(size.K);
    const int N = static_cast<int>(size.N);
    CUtensorMap map_0 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_0, "A", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.A, {size.K, size.M}, {64, 128}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    CUtensorMap map_1 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_1, "B", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.B, {size.N, size.K}, {64, 64}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    const void* arguments[] = {&given.C, &map_0, &map_1, &M, &K, &N};
    const Int blocks[3] = {product({(size.M + 127) / 128, (size.N + 255) / 256}), product({1}), product({1})};
    return launch_tiles(1, blocks, dim3(288, 1, 1), 213056, false, arguments, queue, stream);
}

cudaError_t launch_hgemm_mixed_1([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                 cudaStream_t stream)
{
    const int M = static_cast<int>(size.M);
    const int K = static_cast<int>(size.K);
    const int N = static_cast<int>(size.N);
    CUtensorMap map_0 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_0, "A", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.A, {size.K, size.M}, {64, 128}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    CUtensorMap map_1 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_1, "B", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.B, {size.N, size.K}, {64, 64}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    const void* arguments[] = {&given.C, &map_0, &map_1, &M, &K, &N};
    const Int blocks[3] = {product({(size.M + 127) / 128, (size.N + 255) / 256}), product({1}), product({1})};
    return launch_tiles(2, blocks, dim3(288, 1, 1), 213056, false, arguments, queue, stream);
}

cudaError_t launch_hgemm_mixed_2([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                 cudaStream_t stream)
{
    const int M = static_cast<int>(size.M);
    const int K = static_cast<int>(size.K);
    const int N = static_cast<int>(size.N);
    const void* arguments[] = {&given.A, &given.B, &given.C, &M, &K, &N};
    const Int blocks[3] = {product({(size.M + 127) / 128, (size.N + 255) / 256}), product({1}), product({1})};
    return launch_tiles(3, blocks, dim3(128, 2, 1), 212992, false, arguments, queue, stream);
}

cudaError_t launch_hgemm_scalar([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                cudaStream_t stream)
{
    const int M = static_cast<int>(size.M);
    const int K = static_cast<int>(size.K);
    const int N = static_cast<int>(size.N);
    const void* arguments[] = {&given.A, &given.B, &given.C, &M, &K, &N};
    const Int blocks[3] = {product({(size.M + 127) / 128, (size.N + 255) / 256}), product({1}), product({1})};
    return launch_tiles(4, blocks, dim3(128, 2, 1), 212992, false, arguments, queue, stream);
}

cudaError_t launch_hgemm_whole_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                  cudaStream_t stream)
{
    const long long M = static_cast<long long>(size.M);
    const long long K = static_cast<long long>(size.K);
    const long long N = static_cast<long long>(size.N);
    CUtensorMap map_0 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_0, "A", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.A, {size.K, size.M}, {64, 128}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    CUtensorMap map_1 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_1, "B", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.B, {size.N, size.K}, {64, 64}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    const void* arguments[] = {&given.C, &map_0, &map_1, &M, &K, &N};
    const Int blocks[3] = {product({size.M / 128, size.N / 256}), product({1}), product({1})};
    return launch_tiles(5, blocks, dim3(288, 1, 1), 213056, false, arguments, queue, stream);
}

cudaError_t launch_hgemm_vector_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                   cudaStream_t stream)
{
    const long long M = static_cast<long long>(size.M);
    const long long K = static_cast<long long>(size.K);
    const long long N = static_cast<long long>(size.N);
    CUtensorMap map_0 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_0, "A", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.A, {size.K, size.M}, {64, 128}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    CUtensorMap map_1 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_1, "B", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.B, {size.N, size.K}, {64, 64}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    const void* arguments[] = {&given.C, &map_0, &map_1, &M, &K, &N};
    const Int blocks[3] = {product({(size.M + 127) / 128, (size.N + 255) / 256}), product({1}), product({1})};
    return launch_tiles(6, blocks, dim3(288, 1, 1), 213056, false, arguments, queue, stream);
}

cudaError_t launch_hgemm_mixed_1_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                    cudaStream_t stream)
{
    const long long M = static_cast<long long>(size.M);
    const long long K = static_cast<long long>(size.K);
    const long long N = static_cast<long long>(size.N);
    CUtensorMap map_0 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_0, "A", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.A, {size.K, size.M}, {64, 128}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    CUtensorMap map_1 = {};
    if (queue)
        if (cudaError_t error = describe<2>(&map_1, "B", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                            given.B, {size.N, size.K}, {64, 64}, {1, 1}, CU_TENSOR_MAP_SWIZZLE_128B))
            return error;
    const void* arguments[] = {&given.C, &map_0, &map_1, &M, &K, &N};
    const Int blocks[3] = {product({(size.M + 127) / 128, (size.N + 255) / 256}), product({1}), product({1})};
    return launch_tiles(7, blocks, dim3(288, 1, 1), 213056, false, arguments, queue, stream);
}

cudaError_t launch_hgemm_mixed_2_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                    cudaStream_t stream)
{
    const long long M = static_cast<long long>(size.M);
    const long long K = static_cast<long long>(size.K);
    const long long N = static_cast<long long>(size.N);
    const void* arguments[] = {&given.A, &given.B, &given.C, &M, &K, &N};
    const Int blocks[3] = {product({(size.M + 127) / 128, (size.N + 255) / 256}), product({1}), product({1})};
    return launch_tiles(8, blocks, dim3(128, 2, 1), 212992, false, arguments, queue, stream);
}

cudaError_t launch_hgemm_scalar_64([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue,
                                   cudaStream_t stream)
{
    const long long M = static_cast<long long>(size.M);
    const long long K = static_cast<long long>(size.K);
    const long long N = static_cast<long long>(size.N);
    const void* arguments[] = {&given.A, &given.B, &given.C, &M, &K, &N};
    const Int blocks[3] = {product({(size.M + 127) / 128, (size.N + 255) / 256}), product({1}), product({1})};
    return launch_tiles(9, blocks, dim3(128, 2, 1), 212992, false, arguments, queue, stream);
}

// The launches of a version, in their order: first a test of all grids, then the same with `queue`.
cudaError_t launch_version(int version, const Sizes& size, const Arguments& given, bool queue, cudaStream_t stream)
{
    switch (version) {
    case 0:  // whole
        return launch_hgemm_whole(size, given, queue, stream);
    case 1:  // vector
        return launch_hgemm_vector(size, given, queue, stream);
    case 2:  // mixed_1
        return launch_hgemm_mixed_1(size, given, queue, stream);
    case 3:  // mixed_2
        return launch_hgemm_mixed_2(size, given, queue, stream);
    case 4:  // scalar
        return launch_hgemm_scalar(size, given, queue, stream);
    case 5:  // whole_64
        return launch_hgemm_whole_64(size, given, queue, stream);
    case 6:  // vector_64
        return launch_hgemm_vector_64(size, given, queue, stream);
    case 7:  // mixed_1_64
        return launch_hgemm_mixed_1_64(size, given, queue, stream);
    case 8:  // mixed_2_64
        return launch_hgemm_mixed_2_64(size, given, queue, stream);
    case 9:  // scalar_64
        return launch_hgemm_scalar_64(size, given, queue, stream);
    }
    return fail(cudaErrorInvalidValue, "hgemm has no version %d", version);
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
        {"A", given.A, product({size.M, size.K}) * 2, 2, false},
        {"B", given.B, product({size.K, size.N}) * 2, 2, false},
        {"C", given.C, product({size.M, size.N}) * 2, 2, true},
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
        return fail(cudaErrorInvalidValue, "hgemm needs integers of more than 64 bits for these sizes");
    if (chosen >= version_count)
        return fail(cudaErrorInvalidValue, "hgemm has no version %d; there are %d", chosen, version_count);
    if (!is_met(chosen, size, given) || !fits(chosen, size))
        return fail(cudaErrorInvalidValue, "version %d of hgemm, %s, is not for these sizes and addresses", chosen,
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

extern "C" cudaError_t hgemm_launch(const void* A, const void* B, void* C, int64_t M, int64_t K, int64_t N,
                                    void* workspace, size_t workspace_bytes, cudaStream_t stream)
{
    Arguments given = {};
    given.A = A;
    given.B = B;
    given.C = C;
    return call(-1, Sizes{M, K, N}, given, workspace, workspace_bytes, stream);
}

extern "C" cudaError_t hgemm_launch_as(int version, const void* A, const void* B, void* C, int64_t M, int64_t K,
                                       int64_t N, void* workspace, size_t workspace_bytes, cudaStream_t stream)
{
    Arguments given = {};
    given.A = A;
    given.B = B;
    given.C = C;
    return call(version < 0 ? version_count : version, Sizes{M, K, N}, given, workspace, workspace_bytes, stream);
}

extern "C" size_t hgemm_workspace_bytes(int64_t M, int64_t K, int64_t N)
{
    const Sizes size = Sizes{M, K, N};
    Arguments given = {};
    if (check_sizes(size) != cudaSuccess || has_no_output(size))
        return 0;
    const Int bytes = place_scratch(size, given, nullptr);
    return bytes < Int(SIZE_MAX) ? size_t(bytes) : SIZE_MAX;
}

extern "C" int hgemm_version(const void* A, const void* B, const void* C, int64_t M, int64_t K, int64_t N)
{
    const Sizes size = Sizes{M, K, N};
    Arguments given = {};
    given.A = A;
    given.B = B;
    given.C = C;
    return check_sizes(size) == cudaSuccess && !has_no_output(size) ? choose(size, given) : -1;
}

extern "C" const char* hgemm_version_name(int version)
{
    return version >= 0 && version < version_count ? version_names[version] : "none";
}

extern "C" const char* hgemm_error_text(void)
{
    return error_text;
}

extern "C" cudaError_t hgemm_load(void)
{
    return load();
}
