// kernel gemm, schedule padded (TM=128, TN=256, TK=8, WI=4, WJ=2, STAGES=2)
#ifndef gemm_LAUNCH_H
#define gemm_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Queues the kernel on the stream, for arrays on the current GPU:
//   A: f32[M, K], read
//   B: f32[K, N], read
//   C: f32[M, N], written
// Elements lie one after another, the last dimension the fastest where nothing else is said.
// Sizes are at least 1, or 0 where all outputs are empty.
// What is written shares no memory with the rest. Nothing is waited for: a fault on the GPU is reported later.
cudaError_t gemm_launch(const float* A, const float* B, float* C, int64_t M, int64_t K, int64_t N, void* workspace,
                        size_t workspace_bytes, cudaStream_t stream);

// The bytes of scratch memory between launches that a call needs at these sizes, for A_global: f32[((M + 127)/128)*128,
//     ((K + 31)/32)*32], B_global: f32[((K + 31)/32)*32, ((N + 255)/256)*256].
// The workspace begins at a multiple of 256; calls that may run at once have one each. 0 for wrong sizes.
size_t gemm_workspace_bytes(int64_t M, int64_t K, int64_t N);

// What was wrong with the latest call in this thread that did not return cudaSuccess, in a sentence.
const char* gemm_error_text(void);

// Loads the machine code, which the first launch does otherwise: call it before a capture in a CUDA graph.
cudaError_t gemm_load(void);

// The kernel has several versions, for sizes and addresses of arrays; a launch takes the first one that is right.
// This is its number, from 0 on, or -1 where none is; the second function gives its name.
int gemm_version(const void* A, const void* B, const void* C, int64_t M, int64_t K, int64_t N);
const char* gemm_version_name(int version);

// Launches the version of this number. One that is not right for the arguments is an error.
cudaError_t gemm_launch_as(int version, const float* A, const float* B, float* C, int64_t M, int64_t K, int64_t N,
                           void* workspace, size_t workspace_bytes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
