"""Incidents that nobody reported: variations on the kinds that the rules speak about, with other versions and machines.

They guard against rules that know their examples only. Each is a pair of snapshots made from a recorded profile, among
the same noise as the reported incidents.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

Facts = dict[str, Any]

RTXPRO, H100S, H100V, A100, L40S, ADA, GB200 = (
    "rtxpro6000x8-sglang", "h100x8-sglang", "h100x8-vllm", "a100x4-torch", "l40s-container-k8s", "rtx4090x2-desktop", "gb200-tray",
)  # fmt: skip


@dataclass(frozen=True)
class Variation:
    """One made-up incident: facts set on each side (None takes one away), and what has to be named first."""

    family: str
    name: str
    profile: str
    cause: tuple[str, ...]
    before: Facts = field(default_factory=dict)
    after: Facts = field(default_factory=dict)
    both: Facts = field(default_factory=dict)
    error: str = ""
    says: tuple[str, ...] = ()
    single: bool = False
    missing: Facts = field(default_factory=dict)
    source: str = ""


def driver(version: str, cuda: str, *, loaded: str = "") -> Facts:
    """The facts that a driver version sets; `loaded`: the module in the kernel where it is another one."""
    module = loaded or version
    return {
        "driver.version": module, "driver.userspace_version": version, "driver.cuda_version": cuda, "driver.disk_version": version,
        "libraries.cuda.dlopen.version": version, "libraries.cuda.dlopen.path": f"/usr/lib/x86_64-linux-gnu/libcuda.so.{version}",
        "libraries.nvml.dlopen.version": version, "libraries.nvml.dlopen.path": f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}",
        "gpu.*.gsp_firmware": module,
    }  # fmt: skip


def torch(version: str, cuda: str, *, nccl: str = "", cudnn: str = "", triton: str = "", cu: str = "cu12") -> Facts:
    """The facts that a torch wheel sets, with the wheels that it pins."""
    tag = "cu" + cuda.replace(".", "")
    facts: Facts = {
        "packages.torch": version, "torch.version": f"{version}+{tag}", "torch.cuda": cuda, "torch.git": hashlib.sha1(version.encode()).hexdigest(),
        "native.torch.build_id": f"{version}-{tag}", "integrity.torch.digest": f"sha256:{version}",
    }  # fmt: skip
    if nccl:
        facts |= {
            f"packages.nvidia-nccl-{cu}": nccl, f"pins.torch.nvidia-nccl-{cu}": f"=={nccl}", "libraries.nccl.torch.version": nccl,
            "libraries.nccl.torch.origin": f"wheel nvidia-nccl-{cu} {nccl}",
        }  # fmt: skip
    if cudnn:
        facts |= {
            f"packages.nvidia-cudnn-{cu}": cudnn, f"pins.torch.nvidia-cudnn-{cu}": f"=={cudnn}", "libraries.cudnn.torch.version": cudnn,
            "libraries.cudnn.torch.origin": f"wheel nvidia-cudnn-{cu} {cudnn}",
        }  # fmt: skip
    if triton:
        facts |= {"packages.triton": triton, "pins.torch.triton": f"=={triton}"}
    return facts


def pinned(engine: str, engine_version: str, **packages: str) -> Facts:
    """An engine with exact pins that are met."""
    facts: Facts = {f"packages.{engine}": engine_version}
    for name, version in packages.items():
        dist = name.replace("_", "-")
        facts |= {f"packages.{dist}": version, f"pins.{engine}.{dist}": f"=={version}"}
    return facts


NCCL_TIMEOUT = "[rank3]:[E ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLGATHER, Timeout(ms)=600000) ran for 600041 milliseconds before timing out."
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.18 GiB of which 1.20 GiB is free."

V = Variation
VARIATIONS: list[Variation] = [
    # -- ES1xx driver and CUDA
    V("1", "unattended upgrade of another branch", RTXPRO, ("driver.userspace_version", "driver.version", "driver.status"),
      before=driver("590.44.01", "13.1"), after={**driver("590.48.01", "13.1", loaded="590.44.01"), "driver.status": "mismatch"},
      error="Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 590.48", says=("590.48.01",)),
    V("1", "mismatch without any error text", ADA, ("driver.userspace_version", "driver.version", "driver.status"),
      before=driver("570.124.06", "12.8"), after={**driver("570.172.08", "12.8", loaded="570.124.06"), "driver.status": "mismatch"}),
    V("1", "new kernel and no dkms", RTXPRO, ("driver.status", "system.kernel"),
      before={"system.kernel": "6.8.0-71-generic"},
      after={"system.kernel": "6.8.0-79-generic", "driver.status": "not-loaded", "driver.version": None, "driver.cuda_version": None, "driver.modules": []},
      error="NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", says=("6.8.0-79-generic",)),
    V("1", "CUDA 13 wheel over a 550 driver", ADA, ("torch.cuda", "packages.torch", "driver.version", "driver.cuda_version"),
      both=driver("550.163.01", "12.4"), before=torch("2.9.1", "12.8", nccl="2.27.5"), after=torch("2.11.0", "13.0", nccl="2.28.9", cu="cu13"),
      error="RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update your GPU driver", says=("13",)),
    V("1", "image of a newer CUDA on an old host, workstation cards", ADA, ("cuda.compat_path", "libraries.cuda.*", "driver.*"),
      both={**driver("550.90.07", "12.4"), "container.kind": "docker"},
      before={"container.image": "x/app:cu124", "env.CUDA_VERSION": "12.4.1"},
      after={"container.image": "x/app:cu129", "env.CUDA_VERSION": "12.9.0", "cuda.compat_path": "/usr/local/cuda-12.9/compat",
             "driver.userspace_version": "575.57.08", "libraries.cuda.dlopen.path": "/usr/local/cuda-12.9/compat/libcuda.so.575.57.08"},
      error="Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW", says=("compat",)),
    V("1", "driver branch moved, tensor parallel hangs", A100, ("driver.version", "driver.userspace_version"),
      before=driver("570.172.08", "12.8"), after=driver("575.51.02", "12.9"), error=NCCL_TIMEOUT, says=("driver",)),
    V("1", "driver rolled back below the wheels' toolkit", H100V, ("driver.version", "driver.cuda_version"),
      before=driver("580.95.05", "13.0"), after=driver("560.35.05", "12.6"),
      error="torch.AcceleratorError: CUDA error: the provided PTX was compiled with an unsupported toolchain.", says=("ptx",)),
    V("1", "module parameter switched peer traffic on", ADA, ("driver.parameters.*", "topology.p2p.*"),
      before={"topology.p2p.506c4a1e.699e84d2": "unsupported"},
      after={"driver.parameters.NVreg_RegistryDwords": "RMForceP2PType=1", "topology.p2p.506c4a1e.699e84d2": "ok"}, error=NCCL_TIMEOUT, says=("p2p",)),
    V("1", "open module replaced the proprietary one", A100, ("driver.flavor",),
      before={"driver.flavor": "proprietary"}, after={"driver.flavor": "open"}),
    V("1", "NVML binding newer than a 535 driver", A100, ("packages.nvidia-ml-py",),
      both=driver("535.183.01", "12.2"), before={"packages.nvidia-ml-py": "12.535.161"}, after={"packages.nvidia-ml-py": "13.590.48"},
      error="pynvml.NVMLError_FunctionNotFound: Function Not Found", says=("driver",)),
    V("1", "the driver hangs", L40S, ("driver.status",), before={}, after={"driver.status": "hung"}, missing={"gpus": "timeout", "gpu": "timeout"}),
    V("1", "driver libraries missing in the container", L40S, ("driver.status", "env.NVIDIA_DRIVER_CAPABILITIES"),
      before={"env.NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}, after={"env.NVIDIA_DRIVER_CAPABILITIES": "graphics", "driver.status": "no-library"},
      error="ImportError: libcuda.so.1: cannot open shared object file: No such file or directory", missing={"gpus": "failed", "gpu": "failed"}),
    V("1", "a new major driver, nothing said", H100S, ("driver.version", "driver.userspace_version"),
      before=driver("580.126.09", "13.0"), after=driver("590.48.01", "13.1")),
    # -- ES2xx binaries and pins
    V("2", "kernels left behind by a torch upgrade", A100, ("packages.flash-attn", "packages.torch", "torch.*"),
      before=torch("2.8.0", "12.8", nccl="2.27.3", triton="3.4.0"), after=torch("2.9.1", "12.8", nccl="2.27.5", triton="3.5.1"),
      error="ImportError: /opt/conda/envs/train/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEab", says=("flash-attn",)),
    V("2", "deepspeed's partner apex from another torch", A100, ("packages.apex", "packages.torch", "torch.*"),
      both={"packages.apex": "0.1"}, before=torch("2.7.1", "12.6", nccl="2.26.2"), after=torch("2.8.0", "12.8", nccl="2.27.3"),
      error="ImportError: /opt/conda/envs/train/lib/python3.11/site-packages/amp_C.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZNK3c1011StorageImpl27throw_data_ptr_access_errorEv"),
    V("2", "xformers moved alone", ADA, ("packages.xformers", "native.xformers.*"),
      before={"packages.xformers": "0.0.32.post1"}, after={"packages.xformers": "0.0.33.post2", "native.xformers.build_id": "new"},
      error="WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for: PyTorch 2.9.1+cu128 with CUDA 1208 (you have 2.8.0+cu128)"),
    V("2", "torchvision of another torch", H100V, ("packages.torchvision",),
      before={"packages.torchvision": "0.25.0"}, after={"packages.torchvision": "0.24.1"}, error="RuntimeError: operator torchvision::nms does not exist", says=("torchvision",)),
    V("2", "vllm for CUDA 13 beside torch for 12.9", H100V, ("packages.vllm", "torch.cuda", "packages.torch"),
      before={"packages.vllm": "0.17.0"}, after={"packages.vllm": "0.17.1", "native.vllm.build_id": "new"},
      error="ImportError: libcudart.so.13: cannot open shared object file: No such file or directory", says=("cuda 13",)),
    V("2", "flashinfer-cubin left behind", H100S, ("packages.flashinfer-cubin", "packages.flashinfer-python"),
      both={"packages.flashinfer-cubin": "0.6.12"}, before={"packages.flashinfer-python": "0.6.12"}, after={"packages.flashinfer-python": "0.6.14"},
      error="RuntimeError: flashinfer-cubin version (0.6.12) does not match flashinfer version (0.6.14). Please install the same version of both packages.", says=("0.6.14",)),
    V("2", "numpy 2 under an old torch", A100, ("packages.numpy",),
      both=torch("2.2.2", "12.1", nccl="2.19.3"), before={"packages.numpy": "1.26.4"}, after={"packages.numpy": "2.1.3"},
      error="RuntimeError: Numpy is not available", says=("numpy",)),
    V("2", "huggingface-hub 1.x under transformers 4", RTXPRO, ("packages.huggingface-hub",),
      before={"packages.huggingface-hub": "0.36.2"}, after={"packages.huggingface-hub": "1.4.1"},
      error="ImportError: huggingface-hub>=0.34.0,<1.0 is required for a normal functioning of this module, but found huggingface-hub==1.4.1."),
    V("2", "xgrammar moved past the pin", H100V, ("packages.xgrammar",),
      before={"packages.xgrammar": "0.1.29", "pins.vllm.xgrammar": "==0.1.29"}, after={"packages.xgrammar": "0.2.1", "pins.vllm.xgrammar": "==0.1.29"},
      error="TypeError: GrammarCompiler.__init__() got an unexpected keyword argument 'max_threads'"),
    V("2", "nvJitLink of an older toolkit first", A100, ("env.LD_LIBRARY_PATH", "libraries.nvjitlink.*"),
      before={"env.LD_LIBRARY_PATH": "/opt/mellanox/hcoll/lib"}, after={"env.LD_LIBRARY_PATH": "/usr/local/cuda-12.1/lib64:/opt/mellanox/hcoll/lib"},
      error="ImportError: /opt/conda/envs/train/lib/python3.11/site-packages/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12", says=("ld_library_path",)),
    V("2", "glibc of an older base image", L40S, ("system.libc", "system.os", "container.*"),
      before={"system.libc": "glibc 2.35", "system.os": "Ubuntu 22.04.5 LTS"}, after={"system.libc": "glibc 2.31", "system.os": "Ubuntu 20.04.6 LTS"},
      error="ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by /usr/local/lib/python3.12/dist-packages/vllm/_C.abi3.so)", says=("glibc",)),
    V("2", "conda brings an old libstdc++", A100, ("env.LD_LIBRARY_PATH",),
      before={"env.LD_LIBRARY_PATH": "/usr/local/cuda-12.8/lib64"}, after={"env.LD_LIBRARY_PATH": "/opt/conda/lib:/usr/local/cuda-12.8/lib64"},
      error="ImportError: /opt/conda/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /opt/conda/envs/train/lib/python3.11/site-packages/flash_attn_2_cuda.so)"),
    V("2", "a CPU build of torch", ADA, ("torch.version", "packages.torch", "torch.cuda"),
      before=torch("2.8.0", "12.8"), after={"packages.torch": "2.8.0+cpu", "torch.version": "2.8.0+cpu", "torch.cuda": None}, error="RuntimeError: No CUDA GPUs are available"),
    V("2", "no code for Volta with CUDA 13", A100, ("torch.arch_list", "torch.cuda", "packages.torch", "torch.version"),
      both={"gpu.*.compute_capability": "7.0", "gpu.*.name": "Tesla V100-SXM2-32GB"},
      before={**torch("2.9.1", "12.8"), "torch.arch_list": ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]},
      after={**torch("2.11.0", "13.0"), "torch.arch_list": ["sm_75", "sm_80", "sm_86", "sm_90"]},
      error="torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device", says=("sm_70",)),
    V("2", "two NCCL wheels", H100S, ("packages.nvidia-nccl-cu12", "packages.nvidia-nccl-cu13", "libraries.nccl.*"),
      before={}, after={"packages.nvidia-nccl-cu12": "2.27.3"}, error="ImportError: libtorch_cuda.so: undefined symbol: ncclDevCommCreate", says=("nvidia-nccl-cu12",)),
    V("2", "an old flashinfer under its old name", H100S, ("packages.flashinfer", "packages.flashinfer-python"),
      before={}, after={"packages.flashinfer": "0.2.0"}, error="AttributeError: module 'flashinfer' has no attribute 'mm_fp4'"),
    V("2", "transformers major under SGLang", RTXPRO, ("packages.transformers",),
      before={"packages.transformers": "4.57.1"}, after={"packages.transformers": "5.3.0", "packages.tokenizers": "0.23.0"},
      error="ImportError: cannot import name 'AutoModelForVision2Seq' from 'transformers'"),
    V("2", "a required module disappeared", L40S, ("packages.mistral-common",),
      before={}, after={"packages.mistral-common": None}, error="ModuleNotFoundError: No module named 'mistral_common'"),
    V("2", "editable checkout hides the wheel", H100V, ("origins.vllm.*", "env.PYTHONPATH", "packages.vllm"),
      before={}, after={"env.PYTHONPATH": "/home/me/vllm", "origins.vllm.kind": "editable", "origins.vllm.location": "/home/me/vllm"},
      error="ImportError: cannot import name 'LLM' from 'vllm' (unknown location)"),
    V("2", "another Python minor", A100, ("python.version", "python.executable"),
      before={"python.version": "3.11.9"}, after={"python.version": "3.12.3", "python.executable": "/usr/bin/python3.12"},
      error="ImportError: /opt/x/_C.so: undefined symbol: _PyThreadState_UncheckedGet"),
    V("2", "sgl-kernel below the engine's assertion", RTXPRO, ("packages.sgl-kernel",),
      before={"packages.sgl-kernel": "0.3.21"}, after={"packages.sgl-kernel": "0.3.16"},
      error="Exception: sgl-kernel is installed with version 0.3.16, which is less than the minimum required version 0.3.21. Please reinstall the latest version", says=("0.3.21",)),
    V("2", "bitsandbytes without this CUDA", L40S, ("packages.bitsandbytes",),
      before={"packages.bitsandbytes": "0.48.1"}, after={"packages.bitsandbytes": "0.42.0"},
      error="RuntimeError: CUDA Setup failed despite GPU being available: /usr/local/lib/python3.12/dist-packages/bitsandbytes/libbitsandbytes_cuda128.so: cannot open shared object file"),
    # -- ES3xx NCCL and fabric
    V("3", "NCCL crossed cuMem on another machine", A100, ("packages.nvidia-nccl-cu12", "libraries.nccl.*"),
      before=torch("2.1.2", "12.1", nccl="2.18.1"), after=torch("2.3.1", "12.1", nccl="2.20.5"), error=OOM, says=("cumem",)),
    V("3", "peer traffic switched off", H100V, ("env.NCCL_P2P_DISABLE",), after={"env.NCCL_P2P_DISABLE": "1"}, error="decode throughput dropped from 2400 tokens/s to 300 tokens/s"),
    V("3", "peer traffic switched off, silent", RTXPRO, ("env.NCCL_P2P_DISABLE",), after={"env.NCCL_P2P_DISABLE": "1"}),
    V("3", "a workaround was lost", ADA, ("env.NCCL_P2P_DISABLE",), before={"env.NCCL_P2P_DISABLE": "1"}, error=NCCL_TIMEOUT),
    V("3", "protocol forced", A100, ("env.NCCL_PROTO",), after={"env.NCCL_PROTO": "LL"}, error="all_reduce bandwidth dropped from 180 GB/s to 40 GB/s"),
    V("3", "interface renamed", A100, ("env.NCCL_SOCKET_IFNAME", "network.interfaces.*"),
      before={}, after={"network.interfaces.ib0.state": None, "network.interfaces.ib0.driver": None, "network.interfaces.ib0.mtu": None,
                        "network.interfaces.ib0.speed_gbps": None, "network.interfaces.ibp65s0.state": "up", "network.interfaces.ibp65s0.driver": "mlx5_core"},
      error="Bootstrap : no socket interface found", says=("ib0",)),
    V("3", "adapter named that is not here", GB200, ("env.NCCL_IB_HCA", "network.hcas.*"), after={"env.NCCL_IB_HCA": "mlx5_10,mlx5_11"}, error="NET/IB : No device found."),
    V("3", "a rail is down", GB200, ("network.hcas.mlx5_2.*",), after={"network.hcas.mlx5_2.state": "down"}, error=NCCL_TIMEOUT),
    V("3", "a rail trained slowly", A100, ("network.hcas.mlx5_1.*",), after={"network.hcas.mlx5_1.rate_gbps": 50}, error="all_reduce is 4x slower between nodes"),
    V("3", "nccl.conf sets a service level", A100, ("config.etc-nccl-conf.*",), after={"config.etc-nccl-conf.settings.NCCL_IB_SL": "3"}, error="NET/IB : Got completion from peer with status=12 opcode=0 len=0 vendor err 129"),
    V("3", "the GID index changed", GB200, ("env.NCCL_IB_GID_INDEX",), before={"env.NCCL_IB_GID_INDEX": "3"}, after={"env.NCCL_IB_GID_INDEX": "0"}, error="NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129"),
    V("3", "peermem gone after an OFED upgrade", GB200, ("network.peermem", "network.ofed", "driver.modules"),
      before={}, after={"network.peermem": None, "network.ofed": "DOCA-OFED-25.10-1.0.0.0"}, error="NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", says=("peermem",)),
    V("3", "network plugin off the path", GB200, ("network.nccl_plugin", "env.LD_LIBRARY_PATH", "libraries.nccl-net.*"),
      before={"network.nccl_plugin": "aws-ofi-nccl 1.16.0", "env.LD_LIBRARY_PATH": "/opt/amazon/ofi-nccl/lib:/usr/local/nvidia/lib"},
      after={"env.LD_LIBRARY_PATH": "/usr/local/nvidia/lib"}, error="NCCL INFO Using network Socket"),
    V("3", "fabric manager behind the driver", H100V, ("driver.fabric_manager_version", "driver.version", "driver.fabric_manager_state"),
      both={"driver.fabric_manager_version": "570.133.20", "gpu.*.fabric_state": "in-progress"}, before={**driver("570.133.20", "12.8"), "gpu.*.fabric_state": "completed"}, after={**driver("570.172.08", "12.8")},
      error="CUDA error: system not yet initialized", says=("fabric",)),
    V("3", "fabric manager stopped", H100S, ("driver.fabric_manager_state", "gpu.*.fabric_state"),
      before={"driver.fabric_manager_state": "running"}, after={"driver.fabric_manager_state": "stopped", "gpu.*.fabric_state": "in-progress"}, says=("fabric",)),
    V("3", "MTU cut to 1500", A100, ("network.interfaces.ib0.*",), after={"network.interfaces.ib0.mtu": 2044}, error=NCCL_TIMEOUT),
    V("3", "an older NCCL is forced by the engine's variable", H100V, ("env.VLLM_NCCL_SO_PATH", "libraries.nccl.*"),
      after={"env.VLLM_NCCL_SO_PATH": "/opt/old/libnccl.so.2", "libraries.nccl.dlopen.version": "2.18.3", "libraries.nccl.dlopen.path": "/opt/old/libnccl.so.2"},
      error="RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)"),
    V("3", "NVLS with an older driver", H100V, ("torch.cuda", "driver.*", "env.CUDA_VERSION", "container.*"),
      both=driver("550.90.07", "12.4"), before={"env.CUDA_VERSION": "12.4.1", "container.image": "x/vllm:cu124"}, after={"env.CUDA_VERSION": "12.8.1", "container.image": "x/vllm:cu128"},
      error="transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid argument'", says=("nvls",)),
    # -- ES4xx variables, configuration, arguments
    V("4", "expandable segments under the newer name", H100S, ("env.PYTORCH_ALLOC_CONF",), after={"env.PYTORCH_ALLOC_CONF": "expandable_segments:True"},
      error="RuntimeError: CUDA error: invalid argument at custom_all_reduce.cuh:442 'invalid argument'", says=("custom",)),
    V("4", "upper-case proxy", RTXPRO, ("env.HTTP_PROXY", "env.HTTPS_PROXY", "env.no_proxy", "env.NO_PROXY"), after={"env.HTTP_PROXY": "http://10.9.9.9:3128", "env.HTTPS_PROXY": "http://10.9.9.9:3128"},
      error="Initialization failed. warmup error: HTTPConnectionPool(host='0.0.0.0', port=30000): 503 Service Unavailable", says=("no_proxy",)),
    V("4", "blocking launches left on", L40S, ("env.CUDA_LAUNCH_BLOCKING",), after={"env.CUDA_LAUNCH_BLOCKING": "1"}, error="generation is 3x slower than yesterday"),
    V("4", "blocking launches left on, silent", H100V, ("env.CUDA_LAUNCH_BLOCKING",), after={"env.CUDA_LAUNCH_BLOCKING": "1"}),
    V("4", "attention backend forced", L40S, ("env.VLLM_ATTENTION_BACKEND",), after={"env.VLLM_ATTENTION_BACKEND": "FLASHINFER"}, error="ValueError: VLLM_ATTENTION_BACKEND FLASHINFER is not supported"),
    V("4", "one thread", A100, ("env.OMP_NUM_THREADS",), before={"env.OMP_NUM_THREADS": "12"}, after={"env.OMP_NUM_THREADS": "1"}),
    V("4", "a longer context", H100V, ("launch.args.max_model_len",), before={"launch.args.max_model_len": 65536, "launch.resolved.max_model_len": 65536},
      after={"launch.args.max_model_len": 262144, "launch.resolved.max_model_len": 262144}, error="ValueError: To serve at least one request with the models's max seq len (262144), 23.5 GiB KV cache is needed, which is larger than the available KV cache memory"),
    V("4", "a default of the engine moved", H100S, ("launch.resolved.attention_backend", "packages.sglang"),
      before={"launch.resolved.attention_backend": "fa3", "packages.sglang": "0.5.12"}, after={"launch.resolved.attention_backend": "trtllm_mha", "packages.sglang": "0.5.13"}),
    V("4", "an argument is gone", RTXPRO, ("packages.sglang", "launch.args.*"), before={"packages.sglang": "0.5.8"}, after={"packages.sglang": "0.5.9"},
      error="launch_server.py: error: unrecognized arguments: --tool-call-parser"),
    V("4", "hub made offline", L40S, ("env.HF_HUB_OFFLINE",), before={"env.HF_HUB_OFFLINE": None}, after={"env.HF_HUB_OFFLINE": "1"},
      error="huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache and outgoing traffic has been disabled."),
    V("4", "another model directory", A100, ("env.HF_HOME",), before={"env.HF_HOME": "/scratch/hf"}, after={"env.HF_HOME": "/home/train/.cache/huggingface"},
      error="OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files."),
    V("4", "CUDA_HOME to an old toolkit", RTXPRO, ("cuda.*", "env.CUDA_HOME", "env.PATH"),
      after={"env.CUDA_HOME": "/usr/local/cuda-12.4", "cuda.home": "/usr/local/cuda-12.4", "cuda.nvcc_version": "12.4.131", "cuda.toolkit_version": "12.4", "cuda.toolkit_path": "/usr/local/cuda-12.4"},
      error="nvcc fatal   : Unsupported gpu architecture 'compute_120a'", says=("nvcc",)),
    V("4", "the launch's configuration file changed", A100, ("launch.config_files.*",), after={"launch.config_files.config.digest": "sha256:other"}),
    V("4", "memory fraction raised", H100S, ("launch.args.mem_fraction_static", "launch.resolved.mem_fraction_static"),
      before={"launch.args.mem_fraction_static": 0.82, "launch.resolved.mem_fraction_static": 0.82}, after={"launch.args.mem_fraction_static": 0.95, "launch.resolved.mem_fraction_static": 0.95}, error=OOM),
    V("4", "misspelt variable", H100V, ("env.NCCL_SOCKET_IFNAM", "env.NCCL_SOCKET_IFNAME"), before={}, after={"env.NCCL_SOCKET_IFNAM": "eth0", "env.NCCL_SOCKET_IFNAME": None}, error="Bootstrap : no socket interface found"),
    V("4", "CUDA graphs switched off", H100S, ("launch.args.disable_cuda_graph",), after={"launch.args.disable_cuda_graph": True, "launch.resolved.disable_cuda_graph": True}, error="decode is slower: 20 tokens/s instead of 95"),
    # -- ES5xx GPUs, memory, topology
    V("5", "too few visible GPUs for vLLM", H100V, ("env.CUDA_VISIBLE_DEVICES", "gpus.visible_count", "gpus.visible"),
      after={"env.CUDA_VISIBLE_DEVICES": "0,1,2,3", "gpus.visible_count": 4, "gpus.visible": ["02e29833", "224457c8", "2c062107", "366ab125"]}, error="RuntimeError: CUDA error: invalid device ordinal"),
    V("5", "a GPU is gone on the desktop", ADA, ("gpus.*", "gpu.*"), after={"gpus.count": 1, "gpus.visible_count": 1, "gpus.visible": ["506c4a1e"], "gpu.699e84d2": None, "topology.link": None, "topology.p2p": None},
      error="Unable to determine the device handle for GPU0000:41:00.0: Unknown Error"),
    V("5", "MIG switched on", L40S, ("gpu.*.mig_mode",), after={"gpu.*.mig_mode": "enabled", "gpu.*.mig_mode_pending": "enabled"}, error="RuntimeError: No CUDA GPUs are available"),
    V("5", "exclusive compute mode", A100, ("gpu.*.compute_mode",), after={"gpu.*.compute_mode": "exclusive-process"}, error="torch.AcceleratorError: CUDA error: all CUDA-capable devices are busy or unavailable"),
    V("5", "ECC switched on", RTXPRO, ("gpu.*.ecc_mode", "gpu.*.memory_total_mib"), before={"gpu.*.ecc_mode": "disabled", "gpu.*.memory_total_mib": 98200}, after={"gpu.*.ecc_mode": "enabled"}),
    V("5", "persistence off", H100S, ("gpu.*.persistence",), before={"gpu.*.persistence": "enabled"}, after={"gpu.*.persistence": "disabled"}),
    V("5", "a remap is pending", H100V, ("gpu.*.remap_pending", "gpu.*.recovery_action"), after={"gpu.#2.remap_pending": True}),
    V("5", "Xid in the log", H100S, ("gpu.*.xid_last", "gpus.count", "driver.version"), after={"gpu.#4.xid_last": 119}, error="NVRM: Xid (PCI:0000:4c:00): 119, pid=2811, name=python3, Timeout after 6s of waiting for RPC response from GPU2 GSP!"),
    V("5", "a training run of somebody else", L40S, ("gpu.*.memory_used_mib", "gpu.*.process.*", "gpu.*.memory_free_mib", "gpus.min_free_mib"),
      after={"gpu.#0.memory_used_mib": 30000, "gpu.#0.memory_free_mib": 15400, "gpus.min_free_mib": 15400, "gpu.#0.process.8812.name": "python train.py", "gpu.#0.process.8812.used_mib": 29990},
      error="ValueError: Free memory on device (15.0/44.4 GiB) on startup is less than desired GPU memory utilization (0.9, 39.95 GiB).", says=("train.py",)),
    V("5", "memory taken, silent", RTXPRO, ("gpu.*.memory_used_mib", "gpu.*.memory_unaccounted_mib", "gpus.min_free_mib"), after={"gpu.#0.memory_used_mib": 51000, "gpu.#0.memory_unaccounted_mib": 50990, "gpu.#0.memory_free_mib": 46249, "gpus.min_free_mib": 46249}),
    V("5", "NVLinks lost", H100V, ("topology.link.*", "gpu.*.nvlinks_active"), after={"gpu.#0.nvlinks_active": 12, "topology.link.02e29833.224457c8": "NV12"}, error="all-reduce bandwidth dropped"),
    V("5", "PCIe lanes lost", RTXPRO, ("gpu.*.pcie_width",), after={"gpu.#6.pcie_width": 4}, error="decode is slower since yesterday"),
    V("5", "power limit lowered", ADA, ("gpu.*.power_limit_w",), after={"gpu.*.power_limit_w": 250}),
    V("5", "IOMMU on after a BIOS update", RTXPRO, ("system.iommu", "system.cmdline", "system.acs", "system.bios"),
      after={"system.iommu": "translated", "system.cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.17.0-14-generic root=/dev/mapper/vg0-root ro mitigations=auto console=tty0"}, error=NCCL_TIMEOUT, says=("iommu",)),
    V("5", "ACS on bare metal, wrong results", RTXPRO, ("system.acs",), after={"system.acs": ["0000:00:01.1", "0000:c0:01.1"]}, error="the model answers with !!!!!! and NaN logits", says=("acs",)),
    V("5", "BIOS update alone", ADA, ("system.bios",), after={"system.bios": "American Megatrends 2201 2025-10-02"}),
    V("5", "Resizable BAR off", ADA, ("gpu.*.bar1_total_mib",), after={"gpu.*.bar1_total_mib": 256}),
    V("5", "unequal cards chosen", ADA, ("gpu.*.memory_total_mib", "gpu.*.name", "gpu.*.memory_free_mib"), before={}, after={"gpu.#1.memory_total_mib": 12282, "gpu.#1.name": "NVIDIA GeForce RTX 4070", "gpu.#1.memory_free_mib": 11900, "gpus.min_free_mib": 11900},
      error="ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes."),
    # -- ES6xx system, container, limits
    V("6", "shared memory forgotten", H100S, ("limits.shm_total_mib", "limits.shm_free_mib"), after={"limits.shm_total_mib": 64, "limits.shm_free_mib": 64}, error="NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Xk2 (size 33030528), error: No space left on device (28)", says=("shm",)),
    V("6", "shared memory forgotten, silent", H100V, ("limits.shm_total_mib",), after={"limits.shm_total_mib": 64, "limits.shm_free_mib": 64}),
    V("6", "shared memory full of leftovers", L40S, ("limits.shm_free_mib", "limits.shm_leftovers.*", "limits.shm_total_mib"), after={"limits.shm_free_mib": 2, "limits.shm_leftovers.torch": 412}, error="RuntimeError: unable to write to file </torch_123_456_789>: No space left on device (28): shared memory object /dev/shm"),
    V("6", "device cgroup rewritten", H100S, ("driver.status", "gpus.*", "gpu.*"), after={"driver.status": "no-permission"}, missing={"gpus": "permission: NVML unknown error", "gpu": "permission: NVML unknown error"}, error="Failed to initialize NVML: Unknown Error", says=("cgroup",)),
    V("6", "memlock in a batch job", GB200, ("limits.memlock",), after={"limits.memlock": 65536}, error="NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"),
    V("6", "too few files", H100V, ("limits.nofile",), after={"limits.nofile": 1024}, error="OSError: [Errno 24] Too many open files"),
    V("6", "pids limit", L40S, ("limits.pids_max",), after={"limits.pids_max": 256}, error="RuntimeError: can't start new thread\nOpenBLAS blas_thread_init: pthread_create failed for thread 12 of 64: Resource temporarily unavailable"),
    V("6", "memory limit of the pod", L40S, ("limits.cgroup_memory_mib",), after={"limits.cgroup_memory_mib": 16384, "limits.oom_kills": 2}, error="Process exited with exit code 137"),
    V("6", "CPU quota of the pod", L40S, ("limits.cgroup_cpus",), after={"limits.cgroup_cpus": 1}, error="time to first token is 5x slower"),
    V("6", "NUMA calls blocked", H100S, ("container.capabilities", "container.*"), before={"container.capabilities": ["sys_nice"]}, after={"container.capabilities": []}, error="set_mempolicy: Operation not permitted"),
    V("6", "an image with a newer C library on an old host", H100V, ("system.libc", "container.*", "system.os"), before={"system.libc": "glibc 2.31", "container.image": "x/a:1"}, after={"system.libc": "glibc 2.39", "container.image": "x/a:2"},
      error="OpenBLAS blas_thread_init: pthread_create failed for thread 7 of 64: Operation not permitted", says=("seccomp",)),
    V("6", "disk full", RTXPRO, ("limits.disk_free_gib.*",), after={"limits.disk_free_gib.tmp": 0}, error="OSError: [Errno 28] No space left on device: '/data/tmp/torchinductor_llm/x'"),
    V("6", "another kernel, silent", A100, ("system.kernel", "system.os"), before={"system.kernel": "5.15.0-157-generic"}, after={"system.kernel": "6.8.0-90-generic", "system.os": "Ubuntu 24.04.2 LTS"}),
    V("6", "governor", RTXPRO, ("system.governor",), after={"system.governor": "powersave"}, error="it is slower than last week"),
    V("6", "no longer privileged", GB200, ("container.is_privileged",), before={"container.is_privileged": True}, after={"container.is_privileged": False}, error="mbind: Operation not permitted"),
    # -- ES7xx sources and integrity
    V("7", "a print left in site-packages", H100V, ("integrity.vllm.*",), after={"integrity.vllm.changed": ["vllm/v1/engine/core.py"], "integrity.vllm.digest": "sha256:edited"}),
    V("7", "an edited transformers", RTXPRO, ("integrity.transformers.*",), after={"integrity.transformers.changed": ["transformers/modeling_utils.py"], "integrity.transformers.digest": "sha256:edited"}, error="the answers are garbage since this morning"),
    V("7", "files lost", H100S, ("integrity.flashinfer-python.*", "packages.flashinfer-python"), after={"integrity.flashinfer-python.missing": ["flashinfer/data/cutlass/include/cute/tensor.hpp", "flashinfer/prefill.py"]}, error="FileNotFoundError: flashinfer/prefill.py"),
    V("7", "the checkout was pulled", RTXPRO, ("source.sglang.*",), after={"source.sglang.commit": "d" * 40, "source.sglang.describe": "v0.5.9-77-gddddddddd", "source.sglang.subject": "Refactor scheduler"}),
    V("7", "another branch", H100S, ("source.sglang.*",), after={"source.sglang.branch": "feature/x", "source.sglang.commit": "e" * 40}, error='  File "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py", line 3, in run\nAttributeError: \'Req\' object has no attribute \'kv\''),
    V("7", "uncommitted edits", RTXPRO, ("source.sglang.*",), after={"source.sglang.is_dirty": True, "source.sglang.modified": ["python/sglang/srt/layers/moe/topk.py"], "source.sglang.diff_digest": "sha256:d"}),
    V("7", "a rebuilt kernel", H100V, ("native.vllm.*",), after={"native.vllm.build_id": "0" * 40, "native.vllm.size": 111}, error="Segmentation fault (core dumped)"),
    V("7", "reinstalled from another place", L40S, ("origins.vllm.*", "packages.vllm"), after={"origins.vllm.kind": "vcs", "origins.vllm.url": "git+https://github.com/me/vllm@main", "origins.vllm.commit": "a" * 40}),
    # -- ES8xx model and caches
    V("8", "a new revision on the hub", L40S, ("model.*",), after={"model.revision": "f" * 40, "model.tokenizer_digest": "sha256:new"}, says=("revision",)),
    V("8", "the model's template was edited", H100S, ("model.*",), after={"model.tokenizer_digest": "sha256:new"}, error="jinja2.exceptions.UndefinedError: 'tools' is undefined in chat template"),
    V("8", "weights half copied", RTXPRO, ("model.*",), after={"model.weight_files": 41, "model.weights_gib": 355.0}, error="safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata"),
    V("8", "another quantisation", L40S, ("model.*", "launch.args.*"), after={"model.quantization": "gptq", "model.path": "/models/hub/models--x--Llama-3.1-8B-GPTQ", "launch.args.model": "x/Llama-3.1-8B-GPTQ"}, error=OOM),
    V("8", "triton cache cut off by a power loss", ADA, ("caches.triton.*", "system.boot_id"), after={"system.boot_id": "b" * 8, "caches.triton.entries": 402}, error="json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n  in /home/dev/.triton/cache/ABC/kernel.json", says=("cache",)),
    V("8", "inductor cache of the former torch", L40S, ("caches.torchinductor.*", "packages.torch"), before=torch("2.9.1", "12.8", nccl="2.27.5", triton="3.5.1"), after={**torch("2.10.0", "12.8", nccl="2.27.5", triton="3.6.0"), "pins.vllm.torch": "==2.10.0"},
      error="torch._inductor.exc.InductorError: AttributeError: 'FxGraphHashDetails' object has no attribute 'x' in /tmp/torchinductor_root/ab/c.py"),
    V("8", "cache carried to another architecture", H100V, ("caches.*", "gpu.*.compute_capability", "gpu.*.name"), before={"gpu.*.compute_capability": "8.0", "gpu.*.name": "NVIDIA A100-SXM4-80GB"}, error="AttributeError: in AOT graph loaded from /cache/vllm/torch_compile_cache/x", says=("cache",)),
    V("8", "cache directory not writable", GB200, ("caches.triton.*",), after={"caches.triton.is_writable": False}, error="PermissionError: [Errno 13] Permission denied: '/cache/triton/XYZ'"),
    V("8", "a lock left behind", ADA, ("caches.flashinfer.*",), after={"caches.flashinfer.locks": ["0.5.3/89/cached_ops/tmp/sampling.lock"]}, error="stuck: waiting for file lock /home/dev/.cache/flashinfer/0.5.3/89/cached_ops/tmp/sampling.lock"),
    V("8", "cache on another disk", H100S, ("caches.*", "env.TRITON_CACHE_DIR"), after={"env.TRITON_CACHE_DIR": "/nfs/triton", "caches.triton.path": "/nfs/triton", "caches.triton.entries": 0, "caches.triton.mib": 0}),
    V("8", "kernels are compiled at first use", H100S, ("packages.flashinfer-python", "packages.sglang", "caches.*"), before={"packages.flashinfer-python": "0.6.11", "packages.sglang": "0.5.11"}, after={"packages.flashinfer-python": "0.6.12", "packages.sglang": "0.5.13"}, error="the first request stalls for 60 s, cicc runs on all cores", says=("jit",)),
    # -- ES9xx nodes
    V("9", "a worker with another Ray", H100V, ("packages.ray",), before={"packages.ray": "2.54.0"}, after={"packages.ray": "2.52.1"}, error="RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.54.0\n    Python: 3.12.12\nThis process on node 192.0.2.9 was started with:\n    Ray: 2.52.1\n    Python: 3.12.12", says=("2.52.1",)),
    V("9", "NCCL differs between nodes", GB200, ("packages.nvidia-nccl-cu13", "libraries.nccl.*"), before={"meta.host": "tray-04"}, after={"meta.host": "tray-05", "packages.nvidia-nccl-cu13": "2.27.7", "libraries.nccl.torch.version": "2.27.7", "libraries.nccl.torch.origin": "wheel nvidia-nccl-cu13 2.27.7"}, error="NCCL WARN Mismatched NCCL version detected : rank 0 : 22809 vs rank 4 : 22707"),
    V("9", "driver differs between nodes", GB200, ("driver.version", "driver.userspace_version"), before={"meta.host": "tray-04"}, after={"meta.host": "tray-05", **driver("580.82.07", "13.0")}, error=NCCL_TIMEOUT),
    V("9", "a dead port on this node", A100, ("network.hcas.mlx5_3.*",), before={"meta.host": "gpu-0412"}, after={"meta.host": "gpu-0413", "network.hcas.mlx5_3.state": "down"}, error=NCCL_TIMEOUT),
]  # fmt: skip
