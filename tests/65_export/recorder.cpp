// A CUDA runtime that launches nothing: it writes down what an exported launcher asks for, a line each.
#include <cstdio>
#include <cstring>
#include <string>

#include <cuda.h>
#include <cuda_runtime_api.h>

static std::string record;

static void note(const char* format, unsigned long long value)
{
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    record += text;
}

struct Kernel {
    const char* name;
    int arguments[32];  // bytes of each; 0 behind the last
};
static const Kernel known[] = {
#include "arguments.inc"
};

static CUresult encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                       const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,
                       const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
{
    std::memset(map, 0, sizeof *map);
    note("map %llu", type);
    note(" %llu", swizzle);
    note(" %llu", reinterpret_cast<uintptr_t>(address));
    for (cuuint32_t d = 0; d < rank; ++d) {
        note(" %llu", extents[d]);
        note(" %llu", box[d]);
        note(" %llu", d + 1 < rank ? strides[d] : steps[d]);
    }
    record += "\n";
    return CUDA_SUCCESS;
}

static CUresult encode_windows(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                               const cuuint64_t* extents, const cuuint64_t* strides, const int* lower,
                               const int* upper, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                               CUtensorMapInterleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                               CUtensorMapFloatOOBfill)
{
    std::memset(map, 0, sizeof *map);
    note("map %llu", type);
    note(" %llu", swizzle);
    note(" %llu", reinterpret_cast<uintptr_t>(address));
    for (cuuint32_t d = 0; d < rank - 2; ++d) {
        note(" %llu", cuuint32_t(lower[d]));
        note(" %llu", cuuint32_t(upper[d]));
    }
    for (cuuint32_t d = 0; d < rank; ++d)
        note(" %llu", steps[d]);
    for (cuuint32_t d = 0; d < rank; ++d) {
        note(" %llu", extents[d]);
        note(" %llu", d == 0 ? channels : d + 1 == rank ? pixels : 0);
        note(" %llu", d + 1 < rank ? strides[d] : 1);
    }
    record += "\n";
    return CUDA_SUCCESS;
}

extern "C" {

const char* take_record()
{
    static std::string taken;
    taken.swap(record);
    record.clear();
    return taken.c_str();
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void*, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned)
{
    *library = nullptr;
    return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t, const char* name)
{
    for (const Kernel& each : known)
        if (!std::strcmp(each.name, name)) {
            *kernel = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(&each));
            return cudaSuccess;
        }
    return cudaErrorSymbolNotFound;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value)
{
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize)
        note("shared %llu of ", value);
    record += static_cast<const Kernel*>(function)->name;
    record += "\n";
    return cudaSuccess;
}

// Three multiprocessors, two blocks each.
cudaError_t cudaGetDevice(int* device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int)
{
    *value = 3;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t)
{
    *blocks = 2;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments)
{
    const Kernel* kernel = static_cast<const Kernel*>(function);
    record += kernel->name;
    for (unsigned value : {config->gridDim.x, config->gridDim.y, config->gridDim.z, config->blockDim.x,
                           config->blockDim.y, config->blockDim.z, unsigned(config->dynamicSmemBytes)})
        note(" %llu", value);
    for (unsigned n = 0; n < config->numAttrs; ++n)
        note(" early %llu", config->attrs[n].val.programmaticStreamSerializationAllowed);
    for (int n = 0; kernel->arguments[n]; ++n) {
        record += " ";
        for (int at = 0; at < kernel->arguments[n]; ++at)
            note("%02llx", static_cast<const unsigned char*>(arguments[n])[at]);
    }
    record += "\n";
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* word, void** entry, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* found)
{
    const bool windows = !std::strcmp(word, "cuTensorMapEncodeIm2col");
    *entry = windows ? reinterpret_cast<void*>(&encode_windows) : reinterpret_cast<void*>(&encode);
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t)
{
    return "no more is known";
}

}
