// kernel hgemm, schedule persistent (TM=128, TN=256, STAGES=4, IN=bf16, V=8, KI=16, TK=64, PC=64, OUT=bf16, GROUP=8)
#ifndef hgemm_LAUNCH_H
#define hgemm_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Queues the kernel on the stream, for arrays on the current GPU:
//   A: bf16[M, K], read
//   B: bf16[K, N], read
//   C: bf16[M, N], written
// Elements lie one after another, the last dimension the fastest where nothing else is said.
// Sizes are at least 1, or 0 where all outputs are empty.
// What is written shares no memory with the rest. Nothing is waited for: a fault on the GPU is reported later.
cudaError_t hgemm_launch(const void* A, const void* B, void* C, int64_t M, int64_t K, int64_t N, void* workspace,
                         size_t workspace_bytes, cudaStream_t stream);

// The bytes of scratch memory that a call needs at these sizes: none, so that it takes NULL and 0.
size_t hgemm_workspace_bytes(int64_t M, int64_t K, int64_t N);

// What was wrong with the latest call in this thread that did not return cudaSuccess, in a sentence.
const char* hgemm_error_text(void);

// Loads the machine code, which the first launch does otherwise: call it before a capture in a CUDA graph.
cudaError_t hgemm_load(void);

// The kernel has several versions, for sizes and addresses of arrays; a launch takes the first one that is right.
// This is its number, from 0 on, or -1 where none is; the second function gives its name.
int hgemm_version(const void* A, const void* B, const void* C, int64_t M, int64_t K, int64_t N);
const char* hgemm_version_name(int version);

// Launches the version of this number. One that is not right for the arguments is an error.
cudaError_t hgemm_launch_as(int version, const void* A, const void* B, void* C, int64_t M, int64_t K, int64_t N,
                            void* workspace, size_t workspace_bytes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
