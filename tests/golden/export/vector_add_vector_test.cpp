// kernel vector_add, schedule vector (T=256, W=4)
// Computes small results with vector_add_launch, for each version that small sizes reach, beside plain loops.
// It ends with 0, with 1 where a result is wrong, and with 77 where there is no GPU: then only wrong calls are tried.
#include "vector_add_launch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

// An element of a small number: sums of these are exact, also in short types.
template <typename T> T draw(unsigned long long seed);
template <> float draw(unsigned long long seed)
{
    return static_cast<float>(float(int(seed % 17) - 8) / 8);
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
    const bool is_told = error != cudaSuccess && std::strstr(vector_add_error_text(), words);
    std::printf("%s: %s\n", is_told ? "refused" : "NOT REFUSED", error ? vector_add_error_text() : words);
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
    int64_t N;
    size_t A_moved;  // elements
    size_t B_moved;  // elements
    size_t C_moved;  // elements
};

static int choice(const Trial& t)
{
    return vector_add_version(nowhere<float>(0, t.A_moved), nowhere<float>(1, t.B_moved), nowhere<float>(2, t.C_moved),
        t.N);
}

static void run(const Trial& t)
{
    Array<float> array_A(t.N, t.A_moved);
    Array<float> array_B(t.N, t.B_moved);
    Array<float> array_C(t.N, t.C_moved);
    array_A.fill(1);
    array_A.send();
    array_B.fill(2);
    array_B.send();
    array_C.fill(3);
    array_C.send();
    const size_t bytes = vector_add_workspace_bytes(t.N);
    Array<unsigned char> workspace(bytes, 0);
    workspace.send();
    const cudaError_t error =
        t.version == t.chosen
            ? vector_add_launch(array_A.on_device(), array_B.on_device(), array_C.on_device(), t.N,
                workspace.on_device(), bytes, nullptr)
        : vector_add_launch_as(t.version, array_A.on_device(), array_B.on_device(), array_C.on_device(), t.N,
            workspace.on_device(), bytes, nullptr);
    std::printf("%s: N = %lld\n", vector_add_version_name(t.version), static_cast<long long>(t.N));
    if (error != cudaSuccess) {
        std::printf("  %s\n", vector_add_error_text());
        ++failures;
        return;
    }
    check(cudaDeviceSynchronize(), "  the kernel");
    reference::vector_add(array_A.host(), array_B.host(), array_C.host(), t.N);
    size_t wrong = 0;
    wrong += array_A.compare("A", 0.0);
    wrong += array_B.compare("B", 0.0);
    wrong += array_C.compare("C", 0.001);
    failures += wrong > 0;
}

static void refuse()
{
    expect("is NULL",
        vector_add_launch(nullptr, nowhere<float>(1), nowhere<float>(2), 1, nowhere<char>(90), size_t(1) << 40,
            nullptr));
    expect("no multiple of 4 bytes",
        vector_add_launch(reinterpret_cast<const float*>(uintptr_t(1) << 40 | 1), nowhere<float>(1), nowhere<float>(2),
            1, nowhere<char>(90), size_t(1) << 40, nullptr));
    expect("sizes are at least 1",
        vector_add_launch(nowhere<float>(0), nowhere<float>(1), nowhere<float>(2), -1, nowhere<char>(90),
            size_t(1) << 40, nullptr));
    expect("share memory",
        vector_add_launch(nowhere<float>(0), nowhere<float>(1), nowhere<float>(0), 1, nowhere<char>(90),
            size_t(1) << 40, nullptr));
    expect("has no version",
        vector_add_launch_as(99, nowhere<float>(0), nowhere<float>(1), nowhere<float>(2), 1, nowhere<char>(90),
            size_t(1) << 40, nullptr));
    check(vector_add_launch(nowhere<float>(0), nowhere<float>(1), nowhere<float>(2), 0, nowhere<char>(90),
        size_t(1) << 40, nullptr),
        "an empty result");
}

int main()
{
    const Trial trials[] = {
        {0, 0, 5120, 0, 0, 0},
        {1, 1, 512, 0, 0, 0},
        {2, 2, 385, 0, 0, 0},
        {3, 0, 5120, 0, 0, 0},
        {4, 1, 512, 0, 0, 0},
        {5, 2, 385, 0, 0, 0},
        {2, 2, 5120, 1, 0, 0},
        {2, 2, 5120, 0, 1, 0},
        {2, 2, 5120, 0, 0, 1},
    };
    refuse();
    int devices = 0;
    const bool is_there = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
    for (const Trial& t : trials) {
        const int chosen = choice(t);
        if (chosen != t.chosen) {
            std::printf("version %d, %s, is chosen and not %d\n", chosen, vector_add_version_name(chosen), t.chosen);
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
