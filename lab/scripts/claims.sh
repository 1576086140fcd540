#!/usr/bin/env bash
# The paper's claims on one GPU, a stage of so many minutes at a time; the same command again continues.
#
#   lab/scripts/claims.sh table4 DATA MINUTES [KEY=VALUE …] [-- OPTION …]   the ablations, 3 seeds, both stages
#   lab/scripts/claims.sh table1 DATA MINUTES [KEY=VALUE …] [-- OPTION …]   the architectures that the paper compares, 3 seeds
#   lab/scripts/claims.sh table5 DATA MINUTES [-- OPTION …]                 attentions of the readers of table4
#   lab/scripts/claims.sh rl DATA MINUTES --init READER [KEY=VALUE …] [-- OPTION …]   DCRL, SCST and more ML from a reader
#   lab/scripts/claims.sh cell DATA MINUTES [KEY=VALUE …] [-- OPTION …]     the paper's own conditions: 12 starts with and
#                                         without reattention; then DCRL, SCST and more ML from each; attacked as well.
#                                         lab/scripts/cell.sh is the same for a machine without spaCy or a network
#
# DATA has squad-v1.1/ and adversarial/ as the guide has them; settings are the recipe's, options those of `python -m lab study`
# (as --seeds 1 --rows 0,1,4 --second training.epochs=3). KEPT gets one line per training (NAME names its file); the folders in
# RUNS are needed only to go on with trainings that were stopped, and for table5. A training whose line is kept is not done
# again on another machine. On a fixed schedule nothing is chosen, so no articles are held out.
set -euo pipefail
part=$1 data=$2 minutes=$3
shift 3
KEPT=${KEPT:-log/claims} RUNS=${RUNS:-runs/claims} NAME=${NAME:-small-100}
export PYTHONPATH=src${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
words=()
while (($#)) && [[ $1 != -- ]]; do words+=("$1"); shift; done
(($#)) && shift
study() { "${PYTHON:-python3}" -m lab study "$@"; }
network=(network.hidden=100 network.dropout=0.3 training.epochs=10 training.evaluate_every=10 training.holdout=0)
squad=(--train "$data/squad-v1.1/train-v1.1.json.gz" --dev "$data/squad-v1.1/dev-v1.1.json.gz")
stage=("${squad[@]}" --at-once 12 --seeds 3 --minutes "$minutes")

status=0
case $part in
table4)
    study ablation small "${network[@]}" "${words[@]}" \
        --second training.schedule=anneal --second training.warmup=100 --second training.epochs=2 \
        --addsent "$data/adversarial/addsent.json.gz" --addonesent "$data/adversarial/addonesent.json.gz" \
        "${stage[@]}" --out "$RUNS/ablation-$NAME" --keep "$KEPT/ablation-$NAME.jsonl" "$@" || status=$? ;;
cell)
    study ablation lab/studies/cell.yaml "inputs.vectors=$data/glove/glove.6B.100d.squad.txt.gz" "${words[@]}" \
        --addsent "$data/adversarial/addsent.json.gz" --addonesent "$data/adversarial/addonesent.json.gz" \
        "${stage[@]}" --seeds 12 --rows 1,2,3,4 --more-ml --out "$RUNS/cell" --keep "$KEPT/cell.jsonl" "$@" || status=$? ;;
table1)
    study rounds small "${network[@]}" "${words[@]}" "${stage[@]}" \
        --out "$RUNS/rounds-$NAME" --keep "$KEPT/rounds-$NAME.jsonl" "$@" || status=$? ;;
table5)
    second=$RUNS/ablation-$NAME/second
    study attention --data "$data/squad-v1.1/dev-v1.1.json.gz" --limit 2000 --keep "$KEPT/attention-$NAME.jsonl" \
        $(printf -- '--with %s ' "$second"/dcrl-full-seed-*) \
        $(printf -- '--without %s ' "$second"/dcrl-reattention-false-seed-*) "$@" || status=$? ;;
rl)
    study rl training.schedule=anneal training.warmup=100 training.epochs=2 training.evaluate_every=1 "${words[@]}" \
        "${stage[@]}" --out "$RUNS/rl-$NAME" --keep "$KEPT/rl-$NAME.jsonl" "$@" || status=$? ;;
*) echo "$part: no such part; take cell, table1, table4, table5 or rl" >&2; exit 2 ;;
esac
exit $status
