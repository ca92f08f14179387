"""GPUs through NVML and the files beside it, every answer guarded by itself."""
