"""All stock schedules by tools and compilers outside of tilegen: compute-sanitizer, Oclgrind, NVRTC."""
