//# The header of an exported kernel, which header.py fills in. #//
${title}
#ifndef ${name}_LAUNCH_H
#define ${name}_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

//% for line in about %//
${line}
//% endfor %//
cudaError_t ${name}_launch(${interface.launch_parameters});

//% for line in workspace %//
${line}
//% endfor %//
size_t ${name}_workspace_bytes(${interface.size_parameters | join(", ") or "void"});

// What was wrong with the latest call in this thread that did not return cudaSuccess, in a sentence.
const char* ${name}_error_text(void);

// Loads the machine code, which the first launch does otherwise: call it before a capture in a CUDA graph.
cudaError_t ${name}_load(void);

// ${choice}
// This is its number, from 0 on, or -1 where none is; the second function gives its name.
int ${name}_version(${interface.choosing_parameters | join(", ")});
const char* ${name}_version_name(int version);

// Launches the version of this number. One that is not right for the arguments is an error.
cudaError_t ${name}_launch_as(int version, ${interface.launch_parameters});

#ifdef __cplusplus
}
#endif

#endif
