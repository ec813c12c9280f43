#!/usr/bin/env bash
# Emits what triton_bench.py times and what triton_check.py checks: triton_emit.sh OPWRIGHT OUT
#   OUT/bench   the operators of triton_ops.op
#   OUT/check   every operator of the library that has a form in Triton; OUT/refused.txt says why others have none
set -uo pipefail
opwright=$1 out=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$out/bench" "$out/check"
: >"$out/refused.txt"
for op in $(sed -n 's/^op \([a-z0-9_]*\).*/\1/p' "$here/triton_ops.op"); do
    "$opwright" emit "$here/triton_ops.op" --op "$op" --target triton -o "$out/bench" >/dev/null || exit 1
done
for op in $("$opwright" ops | sed -n 's/^    \([a-z0-9_]*\) .*/\1/p'); do
    "$opwright" emit "$op" --target triton -o "$out/check" >/dev/null 2>"$out/message.txt" ||
        { echo "$op:"; cat "$out/message.txt"; } >>"$out/refused.txt"
done
rm -f "$out/message.txt"
echo "emitted $(ls "$out/bench" | wc -l) operators to time and $(ls "$out/check" | wc -l) to check; refused $(grep -c '^[a-z0-9_]*:$' "$out/refused.txt")"
