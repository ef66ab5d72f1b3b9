// kernel hgemm, schedule persistent (TM=128, TN=256, STAGES=4, IN=bf16, V=8, KI=16, TK=64, PC=64, OUT=bf16, GROUP=8)
// Computes small results with hgemm_launch beside plain loops. It ends with 0, with 1 where one of them is wrong, and
// with 77 where there is no GPU.
#include "hgemm_launch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>
#include <cuda_bf16.h>

using std::isfinite;
using std::isnan;
using std::max;
using std::min;

// -- the kernel as written

namespace reference {

static void hgemm_P(const __nv_bfloat16* A, const __nv_bfloat16* B, float* P, int M, int K, int N)
{
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            P[i * N + j] = 0.0f;

            for (int k = 0; k < K; ++k)
                P[i * N + j] += __bfloat162float(A[i * K + k]) * __bfloat162float(B[k * N + j]);
        }
}

static void hgemm_C(__nv_bfloat16* C, const float* P, int M, int N)
{
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j)
            C[i * N + j] = __float2bfloat16(P[i * N + j]);
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

static size_t run(int64_t M, int64_t K, int64_t N)
{
    Array<__nv_bfloat16> array_A(M * K, 1);
    Array<__nv_bfloat16> array_B(K * N, 2);
    Array<__nv_bfloat16> array_C(M * N, 3);
    const size_t bytes = hgemm_workspace_bytes(M, K, N);
    Array<unsigned char> workspace(bytes, 0);
    std::printf("hgemm: M = %lld, K = %lld, N = %lld\n", static_cast<long long>(M), static_cast<long long>(K),
                static_cast<long long>(N));
    check(hgemm_launch(array_A.data, array_B.data, array_C.data, M, K, N, workspace.data, bytes, nullptr),
          hgemm_error_text());
    check(cudaDeviceSynchronize());
    std::vector<float> scratch_0(M * N);
    reference::hgemm_P(array_A.expected, array_B.expected, scratch_0.data(), M, K, N);
    reference::hgemm_C(array_C.expected, scratch_0.data(), M, N);
    return array_A.differing("A", 0.0) + array_B.differing("B", 0.0) + array_C.differing("C", 0.03);
}

int main()
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("there is no GPU\n");
        return 77;
    }
    size_t wrong = 0;
    wrong += run(256, 64, 512);
    wrong += run(128, 320, 256);
    wrong += run(64, 32, 128);
    wrong += run(193, 35, 389);
    wrong += run(65, 291, 133);
    wrong += run(1, 1, 1);
    std::printf(wrong ? "%zu elements are wrong\n" : "all as it should be\n", wrong);
    return wrong ? 1 : 0;
}
