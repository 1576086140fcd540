#!/usr/bin/env bash
# The paper's cell on one GPU machine without spaCy or a network, in so many minutes; again, and it continues.
#
#   lab/scripts/cell.sh PACKED OUT MINUTES      PACKED by `python -m lab.scripts.carry pack`; OUT gets all that is kept
#
# First twelve starts, and DCRL, SCST and more maximum likelihood from each; then the same without reattention, which
# waits while anything else is left. OUT has cell.jsonl (a line per training as soon as it ends), answers.jsonl.gz and
# together.jsonl. WORK is where it computes; AT_ONCE trainings run side by side, OWN where vectors cannot be lent and each
# has its own copy. An MPS server that runs already is used (CUDA_MPS_PIPE_DIRECTORY), as by other work beside this.
set -euo pipefail
packed=$1 out=$(realpath -m "$2") minutes=$3
WORK=${WORK:-/dev/shm/cell} AT_ONCE=${AT_ONCE:-12} OWN=${OWN:-5} PYTHON=${PYTHON:-python3} SEEDS=${SEEDS:-12}
began=$SECONDS
export PYTHONPATH=src${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=2
export RMREADER_ENCODERS=$WORK/encoders RMREADER_CACHE=$WORK/cache KEPT=$out RUNS=$WORK/runs PYTHON
mkdir -p "$out" "$WORK"
[[ -f $WORK/unpacked ]] || { "$PYTHON" -m lab.scripts.carry unpack "$packed" "$WORK" && touch "$WORK/unpacked"; }
left() { "$PYTHON" -c "print(max(0.1, $minutes - ($SECONDS - $began) / 60 - $1))"; }

# One server for the lender and the trainings: memory is lent among its clients alone.
if command -v nvidia-cuda-mps-control > /dev/null; then
    if [[ -z ${CUDA_MPS_PIPE_DIRECTORY:-} ]]; then
        export CUDA_MPS_PIPE_DIRECTORY=$WORK/mps CUDA_MPS_LOG_DIRECTORY=$WORK/mps
        mkdir -p "$WORK/mps"
        nvidia-cuda-mps-control -d
        trap 'echo quit | nvidia-cuda-mps-control' EXIT
    fi
    mkfifo -m 600 "$WORK/lender" 2> /dev/null || true
    data=$WORK/data
    "$PYTHON" -m lab.scripts.lend_vectors minilm "$data"/squad-v1.1/*.gz "$data"/adversarial/*.gz \
        < "$WORK/lender" > "$WORK/lender.log" 2>&1 &
    lender=$!
    exec 9> "$WORK/lender"  # its input ends when this script does
    until grep -q ^lent "$WORK/lender.log"; do
        kill -0 $lender 2> /dev/null || { AT_ONCE=$OWN; break; }
        sleep 1
    done
    cat "$WORK/lender.log"
    # Where it lends and nobody can borrow, twelve copies would not fit.
    if kill -0 $lender 2> /dev/null && ! "$PYTHON" -m lab.scripts.lend_vectors --try minilm "$data"/squad-v1.1/dev*; then
        kill $lender
        AT_ONCE=$OWN
    fi
    echo "$AT_ONCE trainings at once"
fi

cell() { lab/scripts/claims.sh cell "$WORK/data" "$1" "${@:2}" || true; }
answers() { "$PYTHON" -m lab.scripts.cell_answers "$RUNS/cell" "$WORK/data" "$out" "$@"; }
options=(--at-once "$AT_ONCE" --seeds "$SEEDS" --starts-first)
cell "$(left 1.5)" ${SETTINGS:-} -- --rows 2,4 "${options[@]}" ${SECOND:-}
answers ml/full second/dcrl-full
cell "$(left 0.5)" ${SETTINGS:-} -- --rows 1,2,3,4 "${options[@]}" ${SECOND:-}
answers
cp "$WORK"/lender.log "$out" 2> /dev/null || true
