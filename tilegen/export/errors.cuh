//# What all launchers say of errors. #//
// -- errors

thread_local char error_text[1024] = "";

// Keeps the sentence for the caller, and returns the error.
__attribute__((format(printf, 2, 3))) cudaError_t fail(cudaError_t error, const char* format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(error_text, sizeof error_text, format, values);
    va_end(values);
    return error;
}
