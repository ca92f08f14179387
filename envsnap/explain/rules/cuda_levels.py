"""ES1xx, CUDA levels: what the driver speaks, what the runtime and the compiled kernels ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.compat import release
from envsnap.explain.declare import HINT, PLAUSIBLE, REBOOT, RESTART, STRONG, SURE, WARNING, Finding, rule
from envsnap.explain.shell import command
from envsnap.versions import compare

if TYPE_CHECKING:
    from envsnap.explain.context import RuleContext
    from envsnap.explain.view import View

COMPATIBILITY = "https://docs.nvidia.com/deploy/cuda-compatibility/"
TOOLKITS = "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/"
_READS = (
    "driver.*",
    "torch.*",
    "packages.*",
    "cuda.*",
    "env.CUDA_VERSION",
    "container.*",
    "libraries.**",
    "gpu.*.*",
    "env.LD_LIBRARY_PATH",
)


def _older_wheel(ctx: RuleContext, level: str) -> str:
    """The command that installs this torch for the newest CUDA that the driver speaks.

    Where there is none: for the oldest of the same major. Empty where there is no such wheel either, or where the
    driver is what moved.
    """
    torch = ctx.after.package("torch").partition("+")[0]
    if not torch or (ctx.change("driver.version") is not None and ctx.change("packages.torch") is None):
        return ""
    tags = [row for row in ctx.compat.torch_indexes(torch) if release(row["cuda"])[:1] == release(level)[:1]]
    tags.sort(key=lambda row: release(row["cuda"]))
    if not tags:
        return ""
    fitting = [row for row in tags if release(row["cuda"]) <= release(level)]
    return command("pip install {} --index-url {}", f"torch=={torch}", (fitting[-1] if fitting else tags[0])["url"])


def driver_cuda(view: View, ctx: RuleContext) -> str:
    """The highest CUDA that the driver speaks: as it says itself, else by its branch."""
    return view.text("driver.cuda_version") or ctx.compat.cuda_of_driver(view.driver_version)


@rule(
    "ES110",
    title="the CUDA runtime needs a newer driver",
    component="driver",
    reads=_READS,
    sources=(COMPATIBILITY, TOOLKITS),
    fires=[
        {
            "after": {
                "driver.version": "550.90.07",
                "driver.cuda_version": "12.4",
                "torch.cuda": "13.0",
                "torch.version": "2.11.0+cu130",
            }
        },
        {"after": {"driver.version": "470.256.02", "driver.cuda_version": "11.4", "torch.cuda": "12.6"}},
    ],
    quiet=[
        {"after": {"driver.version": "535.183.01", "driver.cuda_version": "12.2", "torch.cuda": "12.8"}},
        {"after": {"driver.version": "580.95.05", "driver.cuda_version": "13.0", "torch.cuda": "12.8"}},
        {"after": {"driver.version": "580.95.05", "driver.cuda_version": "13.0", "torch.cuda": "13.0"}},
    ],
)
def runtime_above_driver(ctx: RuleContext) -> Iterator[Finding]:
    """Within one major any minor of the CUDA runtime starts on any driver above that major's floor.

    Across majors it does not.

    `found version 12020` in torch's message is the driver's level: CUDA 12.2. Forward-compatibility libraries lift it
    on data-centre GPUs.
    """
    cuda, driver = ctx.after.torch_cuda, ctx.after.driver_version
    level = driver_cuda(ctx.after, ctx)
    if not release(cuda) or not release(level):
        return
    floor = ctx.compat.driver_floor(cuda)
    too_old = release(level)[:1] < release(cuda)[:1]
    if floor is not None and driver:
        too_old = too_old and compare(driver, floor["driver"]) < 0
    if too_old:
        needed = floor["driver"] if floor is not None else "a newer one"
        yield Finding(
            f"torch is built for CUDA {cuda}, driver {driver or 'here'} speaks CUDA {level}",
            ("torch.cuda", "packages.torch", "torch.version", "driver.version", "driver.cuda_version"),
            f"a CUDA {release(cuda)[0]} runtime needs driver {needed} or newer; minor releases of one major are "
            "compatible, majors are not",
            strength=SURE,
            fix=_older_wheel(ctx, level),
            advice=f"driver {needed} or newer, or a torch wheel for CUDA {release(level)[0]}",
            safety=RESTART,
            key="runtime above driver",
        )


@rule(
    "ES111",
    title="PTX that is newer than the driver's compiler",
    component="ptx",
    severity=WARNING,
    reads=_READS,
    sources=(
        COMPATIBILITY,
        "https://github.com/vllm-project/vllm/issues/31700",
        "https://github.com/vllm-project/vllm/pull/28305",
    ),
    fires=[
        {
            "after": {
                "driver.version": "560.35.05",
                "driver.cuda_version": "12.6",
                "torch.cuda": "12.8",
                "torch.version": "2.8.0+cu128",
            },
            "error": "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
        },
        {
            "both": {"torch.cuda": "12.8"},
            "before": {"driver.version": "575.57.08", "driver.cuda_version": "12.9"},
            "after": {"driver.version": "555.42.06", "driver.cuda_version": "12.5"},
        },
    ],
    quiet=[
        {"after": {"driver.version": "560.35.05", "driver.cuda_version": "12.6", "torch.cuda": "12.8"}},
        {
            "both": {"torch.cuda": "12.6"},
            "before": {"driver.version": "575.57.08", "driver.cuda_version": "12.9"},
            "after": {"driver.version": "580.95.05", "driver.cuda_version": "13.0"},
        },
    ],
)
def ptx_above_driver(ctx: RuleContext) -> Iterator[Finding]:
    """Minor-version compatibility covers compiled kernels, not PTX.

    That is compiled by the driver, which must know the toolkit that made it. Kernels that are shipped as PTX, or
    compiled at run time (JIT), fail with the older driver.

    Harmless where all kernels are shipped compiled; so without the error, and with nothing moved, nothing is said.
    """
    level, cuda = driver_cuda(ctx.after, ctx), ctx.after.torch_cuda
    if not level:
        return
    makers = [(path, version) for path, version in _ptx_makers(ctx, cuda) if release(version)[:2] > release(level)[:2]]
    told = ctx.error.has("ptx-toolchain")
    if told and not makers and cuda:
        makers = [("torch.cuda", cuda)]
    if not makers:
        return
    path, version = makers[0]
    same_major = release(version)[:1] == release(level)[:1]
    driver_fell = bool((moved := ctx.change("driver.cuda_version")) and moved.direction == "down")
    runtime_rose = bool((moved := ctx.change("torch.cuda")) and moved.direction == "up")
    if not told and not ((driver_fell or runtime_rose) and same_major):
        return
    row = ctx.compat.driver_of_toolkit(version)
    needed = f"driver {row['driver']} or newer" if row is not None else "a newer driver"
    yield Finding(
        f"kernels come as PTX of CUDA {version}, driver {ctx.after.driver_version} compiles up to CUDA {level}",
        (
            "driver.cuda_version",
            "driver.version",
            path,
            "torch.cuda",
            *(f"packages.{name}" for name in ("vllm", "sglang", "flashinfer-python")),
        ),
        "minor-version compatibility covers compiled kernels, not PTX: kernels that are compiled at run time need a "
        "driver that knows their toolkit",
        strength=SURE if told else PLAUSIBLE + 0.6 if driver_fell else PLAUSIBLE - 1,
        advice=f"{needed}, or wheels built with CUDA {level} or older",
        key="ptx above driver",
    )


def _ptx_makers(ctx: RuleContext, cuda: str) -> Iterator[tuple[str, str]]:
    """Where PTX can come from: the wheels' own toolkit, the compiler that is found."""
    if cuda:
        yield "torch.cuda", cuda
    for name in ("packages.flashinfer-jit-cache", "packages.vllm", "packages.sglang-kernel", "packages.sgl-kernel"):
        tag = ctx.after.text(name).partition("+")[2]
        if tag.startswith("cu") and tag[2:5].isdigit():
            yield name, f"{tag[2:4]}.{tag[4]}"
    nvcc = ctx.after.text("cuda.nvcc_version")
    if nvcc and ctx.error.has("ptx-toolchain"):
        yield "cuda.nvcc_version", ".".join(nvcc.split(".")[:2])


@rule(
    "ES112",
    title="a forward-compatibility libcuda on a GPU that does not support it",
    component="driver",
    reads=_READS,
    sources=(COMPATIBILITY, "https://github.com/vllm-project/vllm/issues/5283"),
    fires=[
        {
            "after": {
                "cuda.compat_path": "/usr/local/cuda-12.9/compat",
                "driver.version": "550.90.07",
                "driver.userspace_version": "575.57.08",
                "gpu.aaaa1111.name": "NVIDIA GeForce RTX 3090",
            }
        },
        {
            "after": {
                "driver.version": "535.171.04",
                "driver.cuda_version": "12.2",
                "gpu.aaaa1111.name": "NVIDIA RTX A6000",
            },
            "error": "Error 804: forward compatibility was attempted on non supported HW",
        },
    ],
    quiet=[
        {
            "after": {
                "cuda.compat_path": "/usr/local/cuda-12.9/compat",
                "driver.version": "550.90.07",
                "driver.userspace_version": "575.57.08",
                "gpu.aaaa1111.name": "NVIDIA H100 80GB HBM3",
            }
        },
        {
            "after": {
                "driver.version": "575.57.08",
                "driver.userspace_version": "575.57.08",
                "gpu.aaaa1111.name": "NVIDIA GeForce RTX 3090",
            }
        },
    ],
)
def compat_on_consumer(ctx: RuleContext) -> Iterator[Finding]:
    """`/usr/local/cuda/compat` holds a newer libcuda for older drivers; only data-centre GPUs may use it.

    An image whose CUDA is newer than the host's driver puts it on the loader's path, and GeForce and workstation cards
    answer with error 804.
    """
    told = ctx.error.has("forward-compatibility")
    path = ctx.after.text("cuda.compat_path")
    module, library = ctx.after.text("driver.version"), ctx.after.text("driver.userspace_version")
    loaded = "/compat" in ctx.after.text("libraries.cuda.dlopen.path") or bool(
        path and library and module and compare(module, library) < 0
    )
    if not told and not (loaded and ctx.after.is_consumer):
        return
    image = ctx.after.text("env.CUDA_VERSION") or ctx.after.torch_cuda
    yield Finding(
        f"forward compatibility: libcuda {library or 'of the image'} over driver {module or 'of the host'}",
        (
            "cuda.compat_path",
            "libraries.cuda.dlopen.path",
            "libraries.cuda.dlopen.version",
            "driver.userspace_version",
            "driver.version",
            "driver.cuda_version",
            "env.CUDA_VERSION",
            "container.image",
            "env.LD_LIBRARY_PATH",
            "torch.cuda",
        ),
        f"the image's CUDA ({image or 'unknown'}) is newer than the driver, so its compat libcuda is loaded; forward "
        "compatibility works on data-centre GPUs only",
        strength=SURE,
        fix="unset LD_LIBRARY_PATH" if "/compat" in ctx.after.text("env.LD_LIBRARY_PATH") else "",
        advice=(
            "take the compat directory off LD_LIBRARY_PATH and out of /etc/ld.so.conf.d, use an image of an older "
            "CUDA, or a newer driver on the host"
        ),
        key="compat",
        covers=("libraries.cuda.**", "driver.userspace_version", "driver.cuda_version"),
    )


@rule(
    "ES113",
    title="the driver is older than the GPU's architecture",
    component="driver",
    severity=WARNING,
    reads=("driver.*", "gpu.*.*", "gpus.*"),
    sources=(TOOLKITS,),
    fires=[
        {
            "after": {
                "driver.version": "560.35.05",
                "driver.cuda_version": "12.6",
                "gpu.aaaa1111.compute_capability": "12.0",
            }
        }
    ],
    quiet=[
        {
            "after": {
                "driver.version": "570.124.06",
                "driver.cuda_version": "12.8",
                "gpu.aaaa1111.compute_capability": "12.0",
            }
        }
    ],
)
def driver_below_architecture(ctx: RuleContext) -> Iterator[Finding]:
    """A GPU architecture came with a CUDA release; a driver that knows less cannot run code for it."""
    level = driver_cuda(ctx.after, ctx)
    for capability in ctx.after.capabilities:
        row = ctx.compat.architecture(capability)
        if row is not None and level and release(row["min_cuda"]) > release(level):
            key = next(
                key for key, gpu in ctx.after.visible_gpus.items() if str(gpu.get("compute_capability")) == capability
            )
            yield Finding(
                f"driver {ctx.after.driver_version} (CUDA {level}) under a GPU of compute capability {capability}",
                ("driver.version", "driver.cuda_version", f"gpu.{key}.compute_capability"),
                f"{row['name']} needs CUDA {row['min_cuda']} and a driver that knows it",
                strength=STRONG,
                advice="a newer driver",
                key=f"architecture {capability}",
            )


@rule(
    "ES114",
    title="a GPU's firmware is not the driver's",
    component="driver",
    severity=WARNING,
    reads=("driver.version", "gpu.*.gsp_firmware"),
    sources=("https://docs.nvidia.com/deploy/xid-errors/",),
    fires=[{"after": {"driver.version": "580.95.05", "gpu.aaaa1111.gsp_firmware": "575.57.08"}}],
    quiet=[
        {"after": {"driver.version": "580.95.05", "gpu.aaaa1111.gsp_firmware": "580.95.05"}},
        {"after": {"driver.version": "580.95.05", "gpu.aaaa1111.gsp_firmware": "N/A"}},
    ],
)
def firmware_differs(ctx: RuleContext) -> Iterator[Finding]:
    """The GSP firmware comes with the driver package: another version means files of two releases are mixed."""
    from envsnap.explain.rules.driver import same_driver

    driver = ctx.after.text("driver.version")
    odd = [
        (path, value)
        for path, value in ctx.after.find("gpu.*.gsp_firmware")
        if driver and isinstance(value, str) and value[:1].isdigit() and not same_driver(driver, value)
    ]
    if odd:
        path, value = odd[0]
        yield Finding(
            f"GSP firmware {value} under driver {driver}",
            (".".join(path), "driver.version"),
            "the firmware comes with the driver package: files of two releases are mixed, or the module was replaced "
            "without a reset",
            strength=HINT,
            key="gsp",
            safety=REBOOT,
            fix="sudo reboot",
        )
