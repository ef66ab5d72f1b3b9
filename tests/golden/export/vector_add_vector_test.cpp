// kernel vector_add, schedule vector (T=256, W=4)
// Computes small results with vector_add_launch beside plain loops. It ends with 0, with 1 where one of them is wrong,
//     and
// with 77 where there is no GPU.
#include "vector_add_launch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

using std::isfinite;
using std::isnan;
using std::max;
using std::min;

// -- the kernel as written

namespace reference {

static void vector_add(const float* A, const float* B, float* C, int N)
{
    for (int i = 0; i < N; ++i)
        C[i] = A[i] + B[i];
}

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

static size_t run(int64_t N)
{
    Array<float> array_A(N, 1);
    Array<float> array_B(N, 2);
    Array<float> array_C(N, 3);
    const size_t bytes = vector_add_workspace_bytes(N);
    Array<unsigned char> workspace(bytes, 0);
    std::printf("vector_add: N = %lld\n", static_cast<long long>(N));
    check(vector_add_launch(array_A.data, array_B.data, array_C.data, N, workspace.data, bytes, nullptr),
          vector_add_error_text());
    check(cudaDeviceSynchronize());
    reference::vector_add(array_A.expected, array_B.expected, array_C.expected, N);
    return array_A.differing("A", 0.0) + array_B.differing("B", 0.0) + array_C.differing("C", 0.001);
}

int main()
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("there is no GPU\n");
        return 77;
    }
    size_t wrong = 0;
    wrong += run(2048);
    wrong += run(4);
    wrong += run(1027);
    wrong += run(1);
    std::printf(wrong ? "%zu elements are wrong\n" : "all as it should be\n", wrong);
    return wrong ? 1 : 0;
}
