#!/usr/bin/env bash
# What only a machine with a real GPU can tell: whether envsnap's facts are those of nvidia-smi, what `take` costs there,
# and that a take beside a running CUDA program changes nothing of it.
#
#     benchmarks/real_gpu.sh [OUTPUT_DIRECTORY]
#
# Builds the wheel and installs it into an environment of its own; ENVSNAP_BENCH_PYTHON names an interpreter that has
# envsnap already, for a machine without a package index. PAIRS (11): pairs of timed runs; PROGRAM_SECONDS (6). Ends with 1 where a check fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$(mktemp -d -t envsnap-real-gpu-XXXXXX)}
mkdir -p "$out"
command -v nvidia-smi >/dev/null || { echo "real_gpu.sh: no nvidia-smi here: this needs a machine with a GPU" >&2; exit 2; }

python=${ENVSNAP_BENCH_PYTHON:-}
if [ -z "$python" ]; then
    python3 -m venv "$out/venv"
    python=$out/venv/bin/python
    "$python" -m pip install --quiet --disable-pip-version-check "$here/.."
fi
envsnap=$(dirname "$python")/envsnap
export ENVSNAP_STORE=$out/store
seconds=${PROGRAM_SECONDS:-6}
failed=0
check() { # check NAME COMMAND...: one line of the result
    local name=$1
    shift
    if "$@"; then echo "ok      $name"; else echo "FAILED  $name"; failed=1; fi
}
settings() { # what of a GPU somebody set, from nvidia-smi -q -x: what a reader must leave as it is
    grep -E "<(persistence_mode|compute_mode|accounting_mode|current_(mig|ecc|power_limit)|pending_(mig|ecc)|driver_version)>" "$1"
}

echo "== facts, compared with nvidia-smi"
"$envsnap" take --stdout --only gpu --only driver >"$out/snapshot.toml"
nvidia-smi -q -x >"$out/query.xml"
nvidia-smi topo -m >"$out/topology.txt"
check "facts agree with nvidia-smi" \
    "$python" "$here/compare_with_nvidia_smi.py" "$out/snapshot.toml" "$out/query.xml" "$out/topology.txt"

echo "== beside a running CUDA program"
"$python" "$here/cuda_program.py" "$seconds" >"$out/program-alone.json" 2>"$out/program.log" || cat "$out/program.log" >&2
"$python" "$here/cuda_program.py" "$seconds" >"$out/program.json" 2>"$out/program.log" &
program=$!
until grep -q running "$out/program.log" || ! kill -0 $program 2>/dev/null; do sleep 0.1; done
for _ in 1 2 3; do "$envsnap" take --quiet >/dev/null; done
check "the program ended well and read back what it wrote" wait $program
echo "        alone:       $(cat "$out/program-alone.json")"
echo "        with takes:  $(cat "$out/program.json")"
nvidia-smi -q -x >"$out/query-after.xml"
check "the GPUs' settings are as before" diff <(settings "$out/query.xml") <(settings "$out/query-after.xml")

echo "== cost, as ratios to a bare interpreter"
"$python" "$here/time_take.py" "$envsnap" "${PAIRS:-11}"
echo "files are in $out"
exit $failed
