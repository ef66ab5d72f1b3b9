//# The launcher of an exported family, which family.py fills in. #//
//% set own_sizes = interface.own_sizes | join(", ") %//
${title}
#include "${interface.header}"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
//% for each in members %//
#include "${each}_launch.h"
//% endfor %//

namespace {

// Sizes are below 2^48: none of the expressions below leaves 128 bits.
__extension__ typedef __int128 Int;

struct Sizes {
    //% for size in interface.sizes %//
    Int ${names[size]};
    //% endfor %//
};

//% include "errors.cuh" %//

long long shown(Int value)
{
    return static_cast<long long>(value);
}

// -- the choice of a member, as tilegen makes it for one ${machine}

const int member_count = ${members | length};
const char* const member_names[member_count] = {
    ${members.values() | map(attribute="name") | map("quoted") | join(",\n    ")}};

// The quotient rounded down, and the remainder that goes with it; nothing is divided by 0.
Int floor_div(Int value, Int by)
{
    if (by == 0)
        throw 0;
    return value / by - (value % by != 0 && (value < 0) != (by < 0));
}

[[maybe_unused]] Int floor_mod(Int value, Int by)
{
    return value - floor_div(value, by) * by;
}

// True if a member is for these sizes.
bool serves(int member, [[maybe_unused]] const Sizes& size)
{
    try {
        switch (member) {
        //% for member in members.values() %//
        //% if member.facts %//
        case ${loop.index0}:
            return ${say.facts_of(member)};
        //% endif %//
        //% endfor %//
        }
        return true;
    } catch (int) {
        return false;
    }
}

// By how much a member falls short of the figures of the machine, and microseconds of a launch, a wave, and a round.
struct Coefficients {
    double launch, wave, round, compute, load, shared, memory, store, beyond;
};

// What a launch does: its blocks, and those that a multiprocessor holds at once; of a block how often it waits for
// memory, microseconds of arithmetic if all multiprocessors shared it, and bytes; bytes of memory; of a block the bytes
// that no element of a tensor has.
struct Work {
    Int blocks, resident;
    double rounds, compute, load, store, memory, beyond;
};

double squared(double number) { return number * number; }

// Microseconds of a launch. Of what goes on at once, the slowest part counts most.
double time_of(const Work& work, const Coefficients& by)
{
    const Int most = floor_div(work.blocks + ${sms} - 1, ${sms}), waves = floor_div(most + work.resident - 1, work.resident);
    const double compute = by.compute * (double(most) * (work.compute * ${sms}));
    const double mean = double(work.blocks) / ${sms};
    const double load = by.load * (double(most) * (work.load / ${cache}));
    const double shared = by.shared * (mean * (work.load / ${cache}));
    const double memory = by.memory * (work.memory / ${memory});
    const double rounds = by.round * (double(waves) * work.rounds);
    const double both = squared(compute) + squared(load) + squared(shared);
    const double together = both + squared(memory) + squared(rounds);
    const double store = by.store * ((mean + double(most)) * (work.store / (2 * ${cache})));
    const double beyond = by.beyond * (mean * (work.beyond / ${cache}));
    return by.launch + by.wave * double(waves) + store + beyond + std::sqrt(together);
}

double microseconds(int member, [[maybe_unused]] const Sizes& size)
{
    double total = 0.0;
    switch (member) {
    //% for member in members.values() %//
    case ${loop.index0}:  // ${member.name}
        //% for work, coefficients in say.times_of(member) %//
        total += time_of({${work}}, {${coefficients}});
        //% endfor %//
        break;
    //% endfor %//
    }
    return total;
}

// The member that is predicted to be the fastest; -1 where none is for the sizes. Each thread keeps what it has chosen.
int choose(const Sizes& size)
{
    struct Seen {
        Sizes size;
        int member;
        bool is_there;
    };
    thread_local Seen table[64] = {};
    unsigned place = 0;
    //% for size in interface.own_sizes %//
    place = place * 31 + unsigned(size.${size});
    //% endfor %//
    Seen& seen = table[place % 64];
    if (seen.is_there && ${same})
        return seen.member;
    int member = -1;
    double least = 0.0;
    for (int each = 0; each < member_count; ++each)
        if (serves(each, size)) {
            const double time = microseconds(each, size);
            if (member < 0 || time < least)
                member = each, least = time;
        }
    seen = {size, member, true};
    return member;
}

//% include "sizes.cuh" %//

// The error of a member, with its sentence.
cudaError_t passed(cudaError_t error, const char* text)
{
    return error == cudaSuccess ? error : fail(error, "%s", text);
}

}  // namespace

static cudaError_t call(int member, ${interface.launch_parameters})
{
    const Sizes size = Sizes{${own_sizes}};
    if (cudaError_t error = check_sizes(size))
        return error;
    if (has_no_output(size))
        return cudaSuccess;
    switch (member < 0 ? choose(size) : member) {
    //% for each in members %//
    case ${loop.index0}:
        return passed(${each}_launch(${arguments}), ${each}_error_text());
    //% endfor %//
    }
    if (member < 0)
        return fail(cudaErrorInvalidValue, "no member of ${name} is for these sizes");
    return fail(cudaErrorInvalidValue, "${name} has no version %d; there are %d", member, member_count);
}

extern "C" cudaError_t ${name}_launch(${interface.launch_parameters})
{
    return call(-1, ${arguments});
}

extern "C" cudaError_t ${name}_launch_as(int version, ${interface.launch_parameters})
{
    return call(version < 0 ? member_count : version, ${arguments});
}

extern "C" size_t ${name}_workspace_bytes(${interface.size_parameters | join(", ") or "void"})
{
    const Sizes size = Sizes{${own_sizes}};
    if (check_sizes(size) != cudaSuccess || has_no_output(size))
        return 0;
    switch (choose(size)) {
    //% for each in members %//
    case ${loop.index0}:
        return ${each}_workspace_bytes(${own_sizes});
    //% endfor %//
    }
    return 0;
}

extern "C" int ${name}_version(${choosing})
{
    const Sizes size = Sizes{${own_sizes}};
    return check_sizes(size) == cudaSuccess && !has_no_output(size) ? choose(size) : -1;
}

extern "C" const char* ${name}_version_name(int version)
{
    return version >= 0 && version < member_count ? member_names[version] : "none";
}

extern "C" const char* ${name}_error_text(void)
{
    return error_text;
}

extern "C" cudaError_t ${name}_load(void)
{
    //% for each in members %//
    if (cudaError_t error = ${each}_load())
        return passed(error, ${each}_error_text());
    //% endfor %//
    return cudaSuccess;
}
