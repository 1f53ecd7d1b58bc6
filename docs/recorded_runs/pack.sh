#!/usr/bin/env bash
# Pack finished seeds of an ablation for this folder: pack.sh runs/NAME 0,1,2  writes NAME-0-2.tar.xz here.
# Paths of the machine become relative to the folder that holds the ablation.
set -euo pipefail
ablation="$(cd "$1" && pwd)" seeds="${2//,/ }"
name="$(basename "$ablation")" above="$(dirname "$ablation")" copy="$(mktemp -d)"
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/$name"
cp "$ablation"/{plan.json,calls.jsonl} "$copy/$name/"
for seed in $seeds; do
  for run in "$ablation"/*/"seed-$seed"; do
    [ -f "$run/after.json" ] || { echo "$run is not finished" >&2; exit 1; }
    to="$copy/$name/$(basename "$(dirname "$run")")/seed-$seed"
    mkdir -p "$to"
    for file in run.toml meta.json before.json after.json metrics.jsonl {evaluations,read}/{000000..000999}.json; do
      [ -f "$run/$file" ] || continue
      mkdir -p "$(dirname "$to/$file")"
      sed "s#$above/#runs/#g" "$run/$file" >"$to/$file"
    done
  done
done
sed -i "s#$above/#runs/#g" "$copy/$name"/{plan.json,calls.jsonl}
first="${seeds%% *}" last="${seeds##* }"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=2026-01-01 -C "$copy" -cJf \
  "$(dirname "$0")/$name-$first$([ "$first" = "$last" ] || echo "-$last").tar.xz" "$name"
