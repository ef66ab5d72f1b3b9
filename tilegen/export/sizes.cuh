//# The checks of sizes, of all launchers. #//
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
    return ${empty};
}

cudaError_t check_sizes([[maybe_unused]] const Sizes& size)
{
    //% if interface.sizes %//
    const int least = has_no_output(size) ? 0 : 1;
    //% endif %//
    //% for size in interface.sizes %//
    if (cudaError_t error = check_size("${size}", size.${names[size]}, least))
        return error;
    //% endfor %//
    //% for refusal in facts %//
    if (${refusal.test})
        return fail(cudaErrorInvalidValue, ${refusal.sentence});
    //% endfor %//
    //% for refusal in extents %//
    //% if loop.first %//
    if (least == 0)
        return cudaSuccess;
    //% endif %//
    if (${refusal.test})
        return fail(cudaErrorInvalidValue, ${refusal.sentence});
    //% endfor %//
    return cudaSuccess;
}
