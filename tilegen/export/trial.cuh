//# The test program of an exported kernel, which trial_program.py fills in. #//
${title}
// Computes small results with ${name}_launch beside plain loops. It ends with 0, with 1 where one of them is wrong, and
// with 77 where there is no GPU.
#include "${interface.header}"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>
//% for line in includes %//
${line}
//% endfor %//

using std::isfinite;
using std::isnan;
using std::max;
using std::min;

// -- the kernel as written

namespace reference {

${reference}

}  // namespace reference

// -- a call of it, and of the kernel

static void check(cudaError_t error, const char* said = nullptr)
{
    if (error != cudaSuccess) {
        std::printf("%s\n", said ? said : cudaGetErrorString(error));
        std::exit(1);
    }
}

// A small number: sums of such are exact, also in short types.
template <typename T> T small(size_t seed)
{
    if constexpr (std::is_same_v<T, bool>)
        return seed % 2 == 1;
    else if constexpr (std::is_integral_v<T>)
        return static_cast<T>(seed % 9) - (std::is_signed_v<T> ? 4 : 0);
    else
        return static_cast<T>((float(seed % 17) - 8) / 8);
}

template <typename T> double number(T value)
{
    if constexpr (std::is_arithmetic_v<T>)
        return static_cast<double>(value);
    else
        return static_cast<float>(value);
}

// An array for the kernel, and a twin for the plain loops.
template <typename T> struct Array {
    size_t count;
    T *data = nullptr, *expected = nullptr;

    Array(size_t count, size_t seed) : count(count)
    {
        for (T** each : {&data, &expected})
            check(cudaMallocManaged(reinterpret_cast<void**>(each), (count + 1) * sizeof(T)));
        for (size_t i = 0; i < count; ++i)
            data[i] = expected[i] = small<T>((i + seed) * 2654435761u >> 7);
    }

    Array(const Array&) = delete;
    ~Array() { cudaFree(data), cudaFree(expected); }

    // How many elements are further off than the tolerance allows.
    size_t differing(const char* name, double tolerance) const
    {
        size_t wrong = 0;
        for (size_t i = 0; i < count; ++i) {
            const double is = number(data[i]), should = number(expected[i]);
            const bool same = is == should || (std::isnan(is) && std::isnan(should));
            if (!same && !(std::fabs(is - should) <= tolerance * (1 + std::fabs(should))) && wrong++ < 3)
                std::printf("  %s: element %zu is %.9g and should be %.9g\n", name, i, is, should);
        }
        return wrong;
    }
};

static size_t run(${parameters})
{
    //% for tensor in interface.tensors %//
    Array<${types[tensor.dtype]}> array_${names[tensor.name]}(${say.count_of(tensor.shape)}, ${loop.index});
    //% endfor %//
    const size_t bytes = ${name}_workspace_bytes(${own_sizes});
    Array<unsigned char> workspace(bytes, 0);
    std::printf(${shown});
    check(${name}_launch(${arguments}), ${name}_error_text());
    check(cudaDeviceSynchronize());
    //% for launch, fresh in say.calls %//
    //% for name, buffer in fresh %//
    std::vector<${types[buffer.dtype]}> ${name}(${say.count_of(buffer.shape)});
    //% endfor %//
    reference::${launch.name}(${say.arguments_of(launch)});
    //% endfor %//
    return ${differing};
}

int main()
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("there is no GPU\n");
        return 77;
    }
    size_t wrong = 0;
    //% for sizes in tried %//
    wrong += run(${sizes | join(", ")});
    //% endfor %//
    std::printf(wrong ? "%zu elements are wrong\n" : "all as it should be\n", wrong);
    return wrong ? 1 : 0;
}
