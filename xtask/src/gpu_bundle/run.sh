#!/usr/bin/env bash
# Tests and measures samebits on this machine's NVIDIA GPU. Needs the driver alone; a python3 with
# PyTorch, and compute-sanitizer, are used if they are there.
#
#   ./run.sh [--seconds N] [PART..]
#
# runs these parts in this order, all together in N seconds (540):
#
#   environment   the device, the driver, the processor, the settings that affect bits
#   verify        the corpus of `samebits verify`, whose bits are the CPU's: a process per family
#   kernels       every kernel against its plain definition: a process per family; beside them, every
#                 case of the workspace against the CPU
#   train         short trainings, of which the CPU must have the same bits
#   bench         cases of cases.jsonl, deterministic and fastest: a process per family
#   pytorch       the same cases in PyTorch
#   profile       the time of each kernel of these cases by Nsight Compute
#   sanitize      the kernels of scatter, sort and scan under compute-sanitizer
#
# The processes of `verify` and `kernels` run side by side, those that are timed by themselves.
# Results go to the folder $OUT (results): report.jsonl gets a line as each process ends, and what it
# prints follows in PART.log or PART.jsonl. A process that takes too long is killed. The exit status
# is 1 if something failed, was stopped or found no device.
#
# A rehearsal on the emulated device sets STEPS (of a training), GPT (arguments for a smaller model) and
# SLOW (what multiplies the time that a process may take).
set -uo pipefail
results=${OUT:-results}
mkdir -p "$results" && results=$(cd "$results" && pwd) || exit 2
cd "$(dirname "$0")" || exit 2
report=$results/report.jsonl
: >> "$report"
# The driver compiles kernels once for all processes.
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-$PWD/cache} CUDA_CACHE_MAXSIZE=1073741824
export CUBLAS_WORKSPACE_CONFIG=:4096:8 DEVICE=cuda

budget=540
if [ "${1:-}" = --seconds ]; then
  budget=$2
  shift 2
fi
end=$((SECONDS + budget))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lanes=$(nproc)
[ "$lanes" -gt 8 ] && lanes=8

# tell PART NAME STATUS CODE SECONDS DETAIL: a line of the report.
tell() {
  local detail
  detail=$(printf %s "$6" | tr -d '\000-\037"\\' | cut -c 1-300)
  printf '{"part":"%s","name":"%s","status":"%s","code":%d,"seconds":%d,"detail":"%s"}\n' \
    "$1" "$2" "$3" "$4" "$5" "$detail" | tee -a "$report"
  case $3 in failed | stopped | "no device") touch "$work/failed" ;; esac
}

# one PART NAME SECONDS FILE COMMAND..: runs a process for at most so long, and adds what it prints to
# a file of the results.
one() {
  local part=$1 name=$2 limit=$(($3 * ${SLOW:-1})) file=$results/$4
  local start=$SECONDS code=0 status=passed said
  local left=$((end - reserve - SECONDS))
  shift 4
  [ "$left" -lt "$limit" ] && limit=$left
  if [ "$limit" -le 0 ]; then
    tell "$part" "$name" "no time" 0 0 ""
    return
  fi
  said=$(mktemp "$work/said.XXXXXX")
  timeout -k "${GRACE:-5}" "$limit" "$@" > "$said" 2> "$said.err" || code=$?
  case $code in
    0) ;;
    124 | 137) status=stopped ;;
    *) status=failed ;;
  esac
  grep -q 'returning early' "$said" "$said.err" && status="no device"
  {
    flock 9
    case $file in
      *.jsonl) cat "$said" >> "$file" ;;
      *) { echo "== $part $name: $*"; cat "$said" "$said.err"; } >> "$file" ;;
    esac
    tell "$part" "$name" "$status" "$code" $((SECONDS - start)) \
      "$(grep -h -m 1 -E '^(test result|error|Error|.*(panicked at|never varied))' "$said" "$said.err")"
  } 9> "$work/lock"
  rm -f "$said" "$said.err"
}

# side_by_side COMMAND..: calls it in the background when fewer than `lanes` such processes run.
side_by_side() {
  while [ "$(jobs -pr | wc -l)" -ge "$lanes" ]; do wait -n; done
  "$@" &
}

part_environment() {
  one environment driver 20 environment.log nvidia-smi
  one environment samebits 20 environment.log ./bin/samebits env
}

part_verify() {
  local family
  while read -r family <&3; do
    side_by_side one verify "$family" 100 verify.log \
      ./bin/samebits verify --device cuda --quick "$family"
  done 3< verify.txt
  wait
}

part_kernels() {
  local family
  side_by_side one kernels devices 200 kernels.log ./bin/devices --test-threads=1 --nocapture
  while read -r family <&3; do
    # One thread: tests that compare schedules or memory must not disturb each other.
    side_by_side one kernels "$family" 100 kernels.log \
      ./bin/kernels "$family::" --test-threads=1 --nocapture
  done 3< kernels.txt
  wait
}

# trained NAME ARGUMENT..: trains on the device and on the CPU, and compares the weights' digests.
trained() {
  local name=$1 device
  shift
  for device in cuda cpu; do
    one train "$name-$device" 60 train.log bash -c \
      '"$@" > "$0" && cat "$0" && grep -o "digest.*" "$0" > "$0.digest"' "$work/$device" \
      ./bin/samebits "$@" --device "$device" --max-steps "${STEPS:-50}" --quiet
  done
  if [ -e "$work/cuda.digest" ] && [ -e "$work/cpu.digest" ]; then
    one train "$name-same-bits" 5 train.log cmp "$work/cuda.digest" "$work/cpu.digest"
  else
    tell train "$name-same-bits" skipped 0 0 "a training did not end"
  fi
  rm -f "$work"/{cuda,cpu}.digest
}

part_train() {
  trained digits train --curve "$work/curve.svg"
  # shellcheck disable=SC2086 # several arguments
  trained gpt gpt ${GPT:-}
}

# cases PART SECONDS COMMAND..: lets a program time the cases, a process per family.
cases() {
  local part=$1 limit=$2 family
  shift 2
  while read -r family <&3; do
    grep "\"family\":\"$family\"" cases.jsonl > "$work/cases"
    one "$part" "$family" "$limit" "$part.jsonl" "$@" < "$work/cases"
  done 3< families.txt
}

part_bench() {
  cases bench 60 ./bin/cases
}

part_pytorch() {
  if python3 -c 'import torch; torch.zeros(1, device="cuda")' 2> /dev/null; then
    cases pytorch 60 python3 random_cases.py
  else
    tell pytorch all skipped 0 0 "no python3 with PyTorch and CUDA"
  fi
}

part_profile() {
  if ! command -v ncu > /dev/null; then
    tell profile all skipped 0 0 "no ncu"
    return
  fi
  local family
  while read -r family <&3; do
    grep "\"family\":\"$family\"" cases.jsonl | grep '"level":"portable"' |
      sed 's/^{/{"calls":1,/' > "$work/cases"
    one profile "$family" 60 profile.log ncu --clock-control none --launch-count 600 --csv \
      --metrics gpu__time_duration.sum,dram__bytes.sum ./bin/cases < "$work/cases"
  done 3< <(grep -v models families.txt)
}

part_sanitize() {
  if ! command -v compute-sanitizer > /dev/null; then
    tell sanitize all skipped 0 0 "no compute-sanitizer"
    return
  fi
  local tool
  for tool in memcheck racecheck synccheck initcheck; do
    one sanitize "$tool" 120 sanitize.log compute-sanitizer --tool "$tool" --error-exitcode 9 \
      ./bin/kernels --test-threads=1 scatter:: sort:: scan::
  done
}

[ $# -eq 0 ] && set -- environment verify kernels train bench pytorch profile sanitize
for part; do
  if ! declare -F "part_$part" > /dev/null; then
    echo "run.sh: no part is called $part" >&2
    exit 2
  fi
done
# A part leaves time for the parts after it.
reserve=$((40 * $#))
for part; do
  reserve=$((reserve - 40))
  "part_$part"
done
[ ! -e "$work/failed" ]
