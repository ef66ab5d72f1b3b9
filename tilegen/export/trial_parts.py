"""The parts of the test program that are the same for all kernels, but for names."""

from __future__ import annotations

HEAD = """\
{title}
// Computes small results with {name}_launch, for each version that small sizes reach, beside plain loops.
// It ends with 0, with 1 where a result is wrong, and with 77 where there is no GPU: then only wrong calls are tried.
#include "{header}"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
{includes}
using std::isfinite;
using std::isnan;
using std::max;
using std::min;

// -- the kernel as written

namespace reference {{

{reference}

}}  // namespace reference

// -- arrays

static int failures = 0;

static void check(cudaError_t error, const char* what)
{{
    if (error != cudaSuccess) {{
        std::printf("%s: %s\\n", what, cudaGetErrorString(error));
        std::exit(1);
    }}
}}

template <typename T> double number(T value)
{{
    return static_cast<double>(value);
}}
{numbers}
// An element of a small number: sums of these are exact, also in short types.
template <typename T> T draw(unsigned long long seed);
{draws}

const size_t guard = 1024;  // bytes before and behind an array that nothing may write to

// The elements of an array on the host, and a place for them on the GPU that begins `moved` elements behind a multiple
// of 256 bytes.
template <typename T> struct Array {{
    std::vector<unsigned char> memory;
    size_t count, moved;
    unsigned char* device = nullptr;

    Array(size_t count, size_t moved) : memory(count * sizeof(T)), count(count), moved(moved) {{}}
    ~Array() {{ cudaFree(device); }}
    T* host() {{ return reinterpret_cast<T*>(memory.data()); }}
    T* on_device() {{ return reinterpret_cast<T*>(device + guard) + moved; }}

    void fill(unsigned long long seed)
    {{
        for (size_t i = 0; i < count; ++i) {{
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            host()[i] = draw<T>(seed >> 40);
        }}
    }}

    void send()
    {{
        const size_t bytes = 2 * guard + (count + moved) * sizeof(T);
        check(cudaMalloc(reinterpret_cast<void**>(&device), bytes), "cudaMalloc");
        check(cudaMemset(device, 0xa5, bytes), "cudaMemset");
        check(cudaMemcpy(on_device(), memory.data(), memory.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    }}

    // Compares what is on the GPU with what is on the host; returns the number of elements that differ.
    size_t compare(const char* name, double tolerance)
    {{
        std::vector<unsigned char> found(2 * guard + (count + moved) * sizeof(T));
        check(cudaMemcpy(found.data(), device, found.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
        const size_t start = guard + moved * sizeof(T), end = start + memory.size();
        size_t wrong = 0;
        for (size_t at = 0; at < found.size(); ++at)
            if ((at < start || at >= end) && found[at] != 0xa5 && wrong++ == 0)
                std::printf("  %s: something is written beside the array\\n", name);
        for (size_t i = 0; i < count; ++i) {{
            T element;
            std::memcpy(&element, found.data() + start + i * sizeof(T), sizeof(T));
            const double is = number(element), should = number(host()[i]);
            const bool same = is == should || (std::isnan(is) && std::isnan(should));
            if (!same && !(std::fabs(is - should) <= tolerance * (1 + std::fabs(should))) && wrong++ < 3)
                std::printf("  %s: element %zu is %.9g and should be %.9g\\n", name, i, is, should);
        }}
        return wrong;
    }}
}};
"""

EXPECT = """\
// A wrong call, which nothing comes of but an error and its text.
static void expect(const char* words, cudaError_t error)
{{
    const bool is_told = error != cudaSuccess && std::strstr({name}_error_text(), words);
    std::printf("%s: %s\\n", is_told ? "refused" : "NOT REFUSED", error ? {name}_error_text() : words);
    failures += !is_told;
}}

// An address that no array has.
template <typename T> T* nowhere(int number, size_t moved = 0)
{{
    return reinterpret_cast<T*>(uintptr_t(number + 1) << 40) + moved;
}}
"""

FLOOR_DIV = """\
// The quotient rounded down, for by > 0.
static int64_t floor_div(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}
"""

MAIN = """\
int main()
{{
    const Trial trials[] = {{
{trials}
    }};
    refuse();
    int devices = 0;
    const bool is_there = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
    for (const Trial& t : trials) {{
        const int chosen = choice(t);
        if (chosen != t.chosen) {{
            std::printf("version %d, %s, is chosen and not %d\\n", chosen, {name}_version_name(chosen), t.chosen);
            ++failures;
        }}
    }}
    if (is_there)
        for (const Trial& t : trials)
            run(t);
    std::printf(failures ? "%d failures\\n" : "all as it should be\\n", failures);
    if (failures == 0 && !is_there)
        std::printf("there is no GPU: nothing has been computed\\n");
    return failures ? 1 : is_there ? 0 : 77;
}}
"""
