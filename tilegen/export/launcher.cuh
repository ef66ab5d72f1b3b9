//# The launcher of an exported kernel, which launcher.py fills in. #//
//% set own_sizes = interface.own_sizes | join(", ") %//
${title}
#include "${interface.header}"

#include <atomic>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <initializer_list>
#include <mutex>
//% for file in includes %//
#include <${file}>
//% endfor %//

// The machine code of ${name}.cu, which becomes a part of this object file.
#ifndef ${name | upper}_FATBIN
#define ${name | upper}_FATBIN "${name}.fatbin"
#endif
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        "${name}_fatbin:\n"
        ".incbin \"" ${name | upper}_FATBIN "\"\n"
        ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const unsigned char ${name}_fatbin[];

namespace {

// Sizes are below 2^48: none of the expressions below leaves 128 bits.
__extension__ typedef __int128 Int;

struct Sizes {
    //% for size in interface.sizes %//
    Int ${names[size]};
    //% endfor %//
};

struct Arguments {
    //% for tensor in interface.tensors %//
    const void* ${names[tensor.name]};
    //% endfor %//
    //% for scalar in interface.scalars %//
    ${say.type_of(scalar)} ${names[scalar.name]};
    //% endfor %//
    //% for buffer in scratch %//
    const void* ${names[buffer.name]};  // in the workspace
    //% endfor %//
};

//% include "errors.cuh" %//

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

//% set behind %//
//% if scratch %//
// Puts the scratch arrays into the workspace, one after another; returns the bytes that they take.
Int place_scratch(const Sizes& size, Arguments& given, const void* workspace)
{
    const uintptr_t begin = reinterpret_cast<uintptr_t>(workspace);
    Int end = 0;
    //% for buffer in scratch %//
    given.${names[buffer.name]} = reinterpret_cast<const void*>(begin + uintptr_t(end));
    end += (${say.bytes_of(buffer)} + 255) / 256 * 256;
    //% endfor %//
    return end;
}
//% else %//
Int place_scratch(const Sizes&, Arguments&, const void*)
{
    return 0;
}
//% endif %//

// -- the choice of a version

[[maybe_unused]] bool is_aligned(const void* array, unsigned by)
{
    return reinterpret_cast<uintptr_t>(array) % by == 0;
}

const int version_count = ${table | length};
const char* const version_names[version_count] = {${table | map(attribute="name") | map("quoted") | join(", ")}};

// True if sizes and addresses are as the version needs them.
bool is_met(int version, [[maybe_unused]] const Sizes& size, [[maybe_unused]] const Arguments& given)
{
    switch (version) {
    //% for version in table %//
    case ${loop.index0}:  // ${version.name}
        return ${say.needs_of(version)};
    //% endfor %//
    }
    return false;
}

// True if no integer of the version leaves its type.
bool fits(int version, [[maybe_unused]] const Sizes& size)
{
    switch (version) {
    //% for bounds, numbers in say.bounds_of(table) %//
    //% for number in numbers %//
    case ${number}:
    //% endfor %//
        return ${bounds};
    //% endfor %//
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

const int kernel_count = ${launches | length};
const char* const kernel_names[kernel_count] = {
    ${launches | map("quoted") | join(",\n    ")}};
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
    cudaError_t error = cudaLibraryLoadData(&library, ${name}_fatbin, nullptr, nullptr, 0, nullptr, nullptr, 0);
    for (int kernel = 0; kernel < kernel_count && error == cudaSuccess; ++kernel)
        error = cudaLibraryGetKernel(&kernels[kernel], library, kernel_names[kernel]);
    if (error != cudaSuccess)
        return fail(error, "the machine code of ${name}, which is for ${archs | join(", ")}, cannot be loaded: %s",
                    cudaGetErrorString(error));
    is_loaded.store(true, std::memory_order_release);
    return cudaSuccess;
}

// One launch: its grid is tested first, and it is queued only when `queue` says so.
cudaError_t launch(int kernel, const Int (&blocks)[3], dim3 threads, unsigned shared, bool early,
                   const void** arguments, bool queue, cudaStream_t stream)
{
    const Int most[3] = {${grid_limit | join(", ")}};
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

//% if launches.values() | selectattr("dealt") | list %//
// The same of tiles along x, which as many blocks share out as the GPU runs at once.
cudaError_t launch_tiles(int kernel, const Int (&tiles)[3], dim3 threads, unsigned shared, bool early,
                         const void** arguments, bool queue, cudaStream_t stream)
{
    const Int most = ${dealt_limit}, others = tiles[1] * tiles[2];
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

//% endif %//
//% for windows in maps_of_windows %//
//% if windows %//
// The same of boxes of windows: where the first one begins, where the last one does behind the last element, and how many
// channels and windows a box has.
template <int rank>
cudaError_t describe_windows(CUtensorMap* map, const char* name, CUtensorMapDataType type, int bytes, const void* array,
                             const Int (&extents)[rank], const int (&lower)[rank - 2], const int (&upper)[rank - 2],
                             cuuint32_t channels, cuuint32_t pixels, const cuuint32_t (&steps)[rank],
                             CUtensorMapSwizzle swizzle)
//% else %//
// Describes a tensor to the hardware that copies boxes of it, the fastest dimension first.
template <int rank>
cudaError_t describe(CUtensorMap* map, const char* name, CUtensorMapDataType type, int bytes, const void* array,
                     const Int (&extents)[rank], const cuuint32_t (&box)[rank], const cuuint32_t (&steps)[rank],
                     CUtensorMapSwizzle swizzle)
//% endif %//
{
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    const char* const word = "cuTensorMapEncode${"Im2col" if windows else "Tiled"}";
    const cudaError_t error = cudaGetDriverEntryPointByVersion(word, &entry, 12000, cudaEnableDefault, &found);
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
        return fail(error ? error : cudaErrorInsufficientDriver,
                    "the CUDA driver knows no tensor maps; those of CUDA 12.0 and later do");
    cuuint64_t shape[rank], strides[rank];
    for (int d = 0; d < rank; ++d) {
        shape[d] = cuuint64_t(extents[d]);
        strides[d] = d == 0 ? cuuint64_t(bytes) * shape[0] : strides[d - 1] * shape[d];
    }
    const auto encode = reinterpret_cast<decltype(&cuTensorMapEncode${"Im2col" if windows else "Tiled"})>(entry);
    const CUresult result = encode(map, type, rank, const_cast<void*>(array), shape, strides, ${"lower, upper, channels, pixels" if windows else "box"}, steps,
                                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return fail(cudaErrorInvalidValue, "the CUDA driver makes no tensor map of %s: CUresult %d", name, int(result));
    return cudaSuccess;
}

//% endfor %//
//% for launch in launches.values() %//
cudaError_t launch_${launch.name}([[maybe_unused]] const Sizes& size, const Arguments& given, bool queue, cudaStream_t stream)
{
    //% set integer = "long long" if launch.wide else "int" %//
    //% for size in launch.sizes %//
    const ${integer} ${names[size]} = static_cast<${integer}>(size.${names[size]});
    //% endfor %//
    //% for map in launch.maps %//
    CUtensorMap map_${loop.index0} = {};
    if (queue)
        if (cudaError_t error = ${"describe_windows" if map.windows else "describe"}<${map.shape | length}>(&map_${loop.index0}, ${say.described(map)}))
            return error;
    //% endfor %//
    const void* arguments[] = {${say.arguments_of(launch)}};
    const Int blocks[3] = {${say.blocks_of(launch)}};
    return ${"launch_tiles" if launch.dealt else "launch"}(${loop.index0}, blocks, dim3(${launch.launched_block | join(", ")}), ${say.shared_of(launch)}, ${launch.dependent | lower}, arguments, queue, stream);
}

//% endfor %//
// The launches of a version, in their order: first a test of all grids, then the same with `queue`.
cudaError_t launch_version(int version, const Sizes& size, const Arguments& given, bool queue, cudaStream_t stream)
{
    switch (version) {
    //% for version in table %//
    case ${loop.index0}:  // ${version.name}
        //% for launch in version.launches[:-1] %//
        if (cudaError_t error = launch_${launch.name}(size, given, queue, stream))
            return error;
        //% endfor %//
        return launch_${version.launches[-1].name}(size, given, queue, stream);
    //% endfor %//
    }
    return fail(cudaErrorInvalidValue, "${name} has no version %d", version);
}

//% include "sizes.cuh" %//

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
    //% for tensor in interface.tensors %//
        {"${tensor.name}", given.${names[tensor.name]}, ${say.bytes_of(tensor)}, ${dtype_bytes[tensor.dtype]}, ${interface.is_written(tensor) | lower}},
    //% endfor %//
        {"the workspace", workspace, needed, needed > 0 ? ${alignment}u : 1u, needed > 0},
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

//% for dtype in short_types %//
// Rounds a number to ${dtype}, as the kernel has it.
cudaError_t round_${dtype}(const char* name, float* value)
{
    const float rounded = ${rounded[dtype].expression};
    if (std::isfinite(*value) && !(std::fabs(rounded) <= ${rounded[dtype].largest}f))
        return fail(cudaErrorInvalidValue, "%s is %g, which is too large for ${dtype}", name, *value);
    *value = rounded;
    return cudaSuccess;
}

//% endfor %//
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
        return fail(cudaErrorInvalidValue, "${name} needs integers of more than 64 bits for these sizes");
    if (chosen >= version_count)
        return fail(cudaErrorInvalidValue, "${name} has no version %d; there are %d", chosen, version_count);
    if (!is_met(chosen, size, given) || !fits(chosen, size))
        return fail(cudaErrorInvalidValue, "version %d of ${name}, %s, is not for these sizes and addresses", chosen,
                    version_names[chosen]);
    if (cudaError_t error = check_arrays(size, given, workspace, workspace_bytes))
        return error;
    place_scratch(size, given, workspace);
    //% for buffer in scratch if buffer.role == "states" %//
    if (cudaError_t error = cudaMemsetAsync(const_cast<void*>(given.${names[buffer.name]}), 0, ${say.bytes_of(buffer)}, stream))
        return error;
    //% endfor %//
    if (cudaError_t error = launch_version(chosen, size, given, false, stream))
        return error;
    if (cudaError_t error = load())
        return error;
    return launch_version(chosen, size, given, true, stream);
}

}  // namespace
//% endset %//
//% if "floor_div(" in behind %//
// The quotient rounded down, for by > 0.
Int floor_div(Int value, Int by)
{
    return value / by - (value % by < 0);
}

//% endif %//
//% if "floor_mod(" in behind %//
// The remainder that goes with the quotient rounded down.
Int floor_mod(Int value, Int by)
{
    return value % by + (value % by < 0 ? by : 0);
}

//% endif %//
${behind}
//% for word, first, version in (("launch", "", "-1"), ("launch_as", "int version, ", "version < 0 ? version_count : version")) %//
extern "C" cudaError_t ${name}_${word}(${first}${interface.launch_parameters})
{
    //% for scalar in interface.scalars if scalar.dtype in rounded %//
    if (cudaError_t error = round_${scalar.dtype}("${scalar.name}", &${names[scalar.name]}))
        return error;
    //% endfor %//
    Arguments given = {};
    //% for each in interface.tensors + interface.scalars %//
    given.${names[each.name]} = ${names[each.name]};
    //% endfor %//
    return call(${version}, Sizes{${own_sizes}}, given, workspace, workspace_bytes, stream);
}

//% endfor %//
extern "C" size_t ${name}_workspace_bytes(${interface.size_parameters | join(", ") or "void"})
{
    const Sizes size = Sizes{${own_sizes}};
    Arguments given = {};
    if (check_sizes(size) != cudaSuccess || has_no_output(size))
        return 0;
    const Int bytes = place_scratch(size, given, nullptr);
    return bytes < Int(SIZE_MAX) ? size_t(bytes) : SIZE_MAX;
}

extern "C" int ${name}_version(${interface.choosing_parameters | join(", ")})
{
    const Sizes size = Sizes{${own_sizes}};
    Arguments given = {};
    //% for tensor in interface.tensors %//
    given.${names[tensor.name]} = ${names[tensor.name]};
    //% endfor %//
    return check_sizes(size) == cudaSuccess && !has_no_output(size) ? choose(size, given) : -1;
}

extern "C" const char* ${name}_version_name(int version)
{
    return version >= 0 && version < version_count ? version_names[version] : "none";
}

extern "C" const char* ${name}_error_text(void)
{
    return error_text;
}

extern "C" cudaError_t ${name}_load(void)
{
    return load();
}
