// kernel hgemm, schedule persistent (TM=128, TN=256, TK=64, STAGES=4, KI=16, V=8, IN=bf16, OUT=bf16, GY=33, GX=4)
// Computes small results with hgemm_launch, for each version that small sizes reach, beside plain loops.
// It ends with 0, with 1 where a result is wrong, and with 77 where there is no GPU: then only wrong calls are tried.
#include "hgemm_launch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

// -- arrays

static int failures = 0;

static void check(cudaError_t error, const char* what)
{
    if (error != cudaSuccess) {
        std::printf("%s: %s\n", what, cudaGetErrorString(error));
        std::exit(1);
    }
}

template <typename T> double number(T value)
{
    return static_cast<double>(value);
}
double number(__nv_bfloat16 value)
{
    return float(value);
}

// An element of a small number: sums of these are exact, also in short types.
template <typename T> T draw(unsigned long long seed);
template <> __nv_bfloat16 draw(unsigned long long seed)
{
    return static_cast<__nv_bfloat16>(float(int(seed % 17) - 8) / 8);
}

const size_t guard = 1024;  // bytes before and behind an array that nothing may write to

// The elements of an array on the host, and a place for them on the GPU that begins `moved` elements behind a multiple
// of 256 bytes.
template <typename T> struct Array {
    std::vector<unsigned char> memory;
    size_t count, moved;
    unsigned char* device = nullptr;

    Array(size_t count, size_t moved) : memory(count * sizeof(T)), count(count), moved(moved) {}
    ~Array() { cudaFree(device); }
    T* host() { return reinterpret_cast<T*>(memory.data()); }
    T* on_device() { return reinterpret_cast<T*>(device + guard) + moved; }

    void fill(unsigned long long seed)
    {
        for (size_t i = 0; i < count; ++i) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            host()[i] = draw<T>(seed >> 40);
        }
    }

    void send()
    {
        const size_t bytes = 2 * guard + (count + moved) * sizeof(T);
        check(cudaMalloc(reinterpret_cast<void**>(&device), bytes), "cudaMalloc");
        check(cudaMemset(device, 0xa5, bytes), "cudaMemset");
        check(cudaMemcpy(on_device(), memory.data(), memory.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    }

    // Compares what is on the GPU with what is on the host; returns the number of elements that differ.
    size_t compare(const char* name, double tolerance)
    {
        std::vector<unsigned char> found(2 * guard + (count + moved) * sizeof(T));
        check(cudaMemcpy(found.data(), device, found.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
        const size_t start = guard + moved * sizeof(T), end = start + memory.size();
        size_t wrong = 0;
        for (size_t at = 0; at < found.size(); ++at)
            if ((at < start || at >= end) && found[at] != 0xa5 && wrong++ == 0)
                std::printf("  %s: something is written beside the array\n", name);
        for (size_t i = 0; i < count; ++i) {
            T element;
            std::memcpy(&element, found.data() + start + i * sizeof(T), sizeof(T));
            const double is = number(element), should = number(host()[i]);
            const bool same = is == should || (std::isnan(is) && std::isnan(should));
            if (!same && !(std::fabs(is - should) <= tolerance * (1 + std::fabs(should))) && wrong++ < 3)
                std::printf("  %s: element %zu is %.9g and should be %.9g\n", name, i, is, should);
        }
        return wrong;
    }
};

// A wrong call, which nothing comes of but an error and its text.
static void expect(const char* words, cudaError_t error)
{
    const bool is_told = error != cudaSuccess && std::strstr(hgemm_error_text(), words);
    std::printf("%s: %s\n", is_told ? "refused" : "NOT REFUSED", error ? hgemm_error_text() : words);
    failures += !is_told;
}

// An address that no array has.
template <typename T> T* nowhere(int number, size_t moved = 0)
{
    return reinterpret_cast<T*>(uintptr_t(number + 1) << 40) + moved;
}

// A call: the version that runs, and the one that a launch chooses.
struct Trial {
    int version, chosen;
    int64_t M;
    int64_t K;
    int64_t N;
    size_t A_moved;  // elements
    size_t B_moved;  // elements
    size_t C_moved;  // elements
};

static int choice(const Trial& t)
{
    return hgemm_version(nowhere<__nv_bfloat16>(0, t.A_moved), nowhere<__nv_bfloat16>(1, t.B_moved),
        nowhere<__nv_bfloat16>(2, t.C_moved), t.M, t.K, t.N);
}

static void run(const Trial& t)
{
    Array<__nv_bfloat16> array_A(t.M * t.K, t.A_moved);
    Array<__nv_bfloat16> array_B(t.K * t.N, t.B_moved);
    Array<__nv_bfloat16> array_C(t.M * t.N, t.C_moved);
    array_A.fill(1);
    array_A.send();
    array_B.fill(2);
    array_B.send();
    array_C.fill(3);
    array_C.send();
    const size_t bytes = hgemm_workspace_bytes(t.M, t.K, t.N);
    Array<unsigned char> workspace(bytes, 0);
    workspace.send();
    const cudaError_t error =
        t.version == t.chosen
            ? hgemm_launch(array_A.on_device(), array_B.on_device(), array_C.on_device(), t.M, t.K, t.N,
                workspace.on_device(), bytes, nullptr)
        : hgemm_launch_as(t.version, array_A.on_device(), array_B.on_device(), array_C.on_device(), t.M, t.K, t.N,
            workspace.on_device(), bytes, nullptr);
    std::printf("%s: M = %lld, K = %lld, N = %lld\n", hgemm_version_name(t.version), static_cast<long long>(t.M),
        static_cast<long long>(t.K), static_cast<long long>(t.N));
    if (error != cudaSuccess) {
        std::printf("  %s\n", hgemm_error_text());
        ++failures;
        return;
    }
    check(cudaDeviceSynchronize(), "  the kernel");
    std::vector<float> scratch_0(t.M * t.N);
    reference::hgemm_P(array_A.host(), array_B.host(), scratch_0.data(), t.M, t.K, t.N);
    reference::hgemm_C(array_C.host(), scratch_0.data(), t.M, t.N);
    size_t wrong = 0;
    wrong += array_A.compare("A", 0.0);
    wrong += array_B.compare("B", 0.0);
    wrong += array_C.compare("C", 0.03);
    failures += wrong > 0;
}

static void refuse()
{
    expect("is NULL",
        hgemm_launch(nullptr, nowhere<__nv_bfloat16>(1), nowhere<__nv_bfloat16>(2), 1, 1, 1, nowhere<char>(90),
            size_t(1) << 40, nullptr));
    expect("no multiple of 2 bytes",
        hgemm_launch(reinterpret_cast<const void*>(uintptr_t(1) << 40 | 1), nowhere<__nv_bfloat16>(1),
            nowhere<__nv_bfloat16>(2), 1, 1, 1, nowhere<char>(90), size_t(1) << 40, nullptr));
    expect("sizes are at least 1",
        hgemm_launch(nowhere<__nv_bfloat16>(0), nowhere<__nv_bfloat16>(1), nowhere<__nv_bfloat16>(2), -1, 1, 1,
            nowhere<char>(90), size_t(1) << 40, nullptr));
    expect("share memory",
        hgemm_launch(nowhere<__nv_bfloat16>(0), nowhere<__nv_bfloat16>(1), nowhere<__nv_bfloat16>(0), 1, 1, 1,
            nowhere<char>(90), size_t(1) << 40, nullptr));
    expect("has no version",
        hgemm_launch_as(99, nowhere<__nv_bfloat16>(0), nowhere<__nv_bfloat16>(1), nowhere<__nv_bfloat16>(2), 1, 1, 1,
            nowhere<char>(90), size_t(1) << 40, nullptr));
    check(hgemm_launch(nowhere<__nv_bfloat16>(0), nowhere<__nv_bfloat16>(1), nowhere<__nv_bfloat16>(2), 0, 1, 1,
        nowhere<char>(90), size_t(1) << 40, nullptr),
        "an empty result");
}

int main()
{
    const Trial trials[] = {
        {0, 0, 4097, 64, 776, 0, 0, 0},
        {1, 1, 66, 128, 8, 0, 0, 0},
        {2, 2, 66, 128, 8, 0, 0, 1},
        {3, 3, 5, 5, 40, 0, 0, 0},
        {4, 4, 51, 99, 11, 0, 0, 0},
        {5, 0, 4097, 64, 776, 0, 0, 0},
        {6, 1, 66, 128, 8, 0, 0, 0},
        {7, 2, 66, 128, 8, 0, 0, 1},
        {8, 3, 5, 5, 40, 0, 0, 0},
        {9, 4, 51, 99, 11, 0, 0, 0},
        {3, 3, 4097, 64, 776, 1, 0, 0},
        {3, 3, 4097, 64, 776, 0, 1, 0},
        {2, 2, 4097, 64, 776, 0, 0, 1},
    };
    refuse();
    int devices = 0;
    const bool is_there = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
    for (const Trial& t : trials) {
        const int chosen = choice(t);
        if (chosen != t.chosen) {
            std::printf("version %d, %s, is chosen and not %d\n", chosen, hgemm_version_name(chosen), t.chosen);
            ++failures;
        }
    }
    if (is_there)
        for (const Trial& t : trials)
            run(t);
    std::printf(failures ? "%d failures\n" : "all as it should be\n", failures);
    if (failures == 0 && !is_there)
        std::printf("there is no GPU: nothing has been computed\n");
    return failures ? 1 : is_there ? 0 : 77;
}
