#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A whole comparison of mallocs that is killed twice: is a cell lost or done twice, and is the host as before?
#
#   benches/allocators/whole.sh [--servers "NAME ..."] [--mallocs NAME,...] [--threads N,...] [--thp NAME,...] [--repeat N] [--time TIME] [--idle TIME] [--rows N]
#       [--kills N] [--seed N] [--minutes N] [--consent yes|no] [--json FILE]
#
# `wringer allocators` on MariaDB 10.11 and MySQL 9: glibc, glibc-trim, jemalloc, jemalloc-background and tcmalloc, with 8, 64 and 1024 threads, transparent huge pages always and never, 3 repeats: 30 cells of each
# server, some 45 minutes each. Each is ended by SIGKILL twice, at moments drawn by the seed, and gone on with by the same command. Small: --threads 8 --repeat 1 --time 2s --mallocs
# glibc,jemalloc, some ten minutes. Beyond 1024: --servers mariadb@10.11 --threads 4096 --thp never. As root, since `always` and `never` are set for the whole host meanwhile; beside a database that is not Wringer's it
# stops, unless --consent yes. In sandboxes of its own, deleted afterwards. Needs jq. WRINGER names the program, without it the release build's.
# Exit code 1: a cell is lost, counts twice or was begun again once it was done; a load of a cell is missing; the host's setting of transparent huge pages is not what it was; something is left;
# no huge pages were seen under `always` on a server that does not turn them off (MariaDB 10.11 does: its cells must not be as asked), or some under `never`; it took longer than --minutes (45).
set -euo pipefail
# shellcheck source=benches/allocators/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=benches/sweeps/common.sh
. "$(dirname "$0")/../sweeps/common.sh"
servers="mariadb@10.11 mysql@9" mallocs=glibc,glibc-trim,jemalloc,jemalloc-background,tcmalloc threads=8,64,1024 thp=always,never repeat=3 time=5s idle=10s rows=100000
kills=2 seed=1 minutes=45 consent=no json=$target/bench-allocators-whole.json
take_flags "servers mallocs threads thp repeat time idle rows kills seed minutes consent json" "$@"
need_program jq
case ,$thp, in *,always,* | *,madvise,*) need_root "transparent huge pages are the host's" ;; esac
need_wringer
own_lab
of_host=/sys/kernel/mm/transparent_hugepage/enabled
count() { tr ',' '\n' <<<"$1" | grep -c .; }
cells=$(($(count "$mallocs") * $(count "$thp") * repeat))
loads=$((2 * $(count "$threads")))
yes=()
[ "$consent" != yes ] || yes=(--yes)
status=0
RANDOM=$seed

compare() { # of a background process: becomes the program
    exec "$wringer" allocators "$folder/mallocs.toml" --malloc "$mallocs" --threads "$threads" --thp "$thp" --repeat "$repeat" --time "$time" --idle "$idle" --wait 0s "${yes[@]}" \
        --to "$folder/$to" -o json >"$folder/answer" 2>"$folder/said"
}
starts() { # how often a cell was begun
    local count
    count=$(state "$folder/$to" '[.cells[].attempts | length] | add')
    echo "${count:-0}"
}
# starts it as process $pid, and returns when its first cell has begun or it has ended; while another one measures on this host, it is tried again
launch() {
    local before
    while true; do
        : >"$folder/said"
        before=$(starts)
        compare &
        pid=$!
        until [ "$(starts)" -gt "$before" ] || ! kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
        kill -0 "$pid" 2>/dev/null || ! is_taken || { wait "$pid" || true; sleep 5; continue; }
        return 0
    done
}
# a random moment: after so many cells, and so much of another one; a cell is the warm-up, the ladder, a burst of 15 s, the rest, and some seconds for the server
cell_s=$(jq -n --arg time "${time%s}" --arg idle "${idle%s}" --argjson loads "$loads" '(($time | tonumber? // 10) * ($loads + 1) + ($idle | tonumber? // 15) + 20) | floor')
moments() { # as many lines as kills, in order: DONE SECONDS
    local number
    for number in $(seq "$kills"); do
        # each in a part of its own, so that there is something between them
        jq -nr --argjson a "$RANDOM" --argjson b "$RANDOM" --argjson n "$number" --argjson cells "$cells" --argjson kills "$kills" --argjson cell "$cell_s" \
            '"\(((($n - 1) + $a / 32768) * $cells / $kills) | floor) \($b / 32768 * $cell * 0.8 + 0.1)"'
    done
}

for server in $servers; do
    to=${server%%@*}
    experiment "$server" "$rows" >"$folder/mallocs.toml"
    : >"$folder/said"
    before=$(cat "$of_host")
    begun=$(date +%s) killed=0 again=0 at_kills='' ended=''
    say "$server: $cells cells, killed $kills times"
    while read -r after seconds; do
        known=$(state "$folder/$to" "$attempts")
        launch
        now=0
        while kill -0 "$pid" 2>/dev/null; do
            now=$(done_cells "$folder/$to")
            [ "${now:-0}" -lt "$after" ] || break
            sleep 0.5
        done
        if kill -0 "$pid" 2>/dev/null; then sleep "$seconds"; fi
        chosen=$(sed 's/.*\[\(.*\)\].*/\1/' "$of_host")
        if kill -9 "$pid" 2>/dev/null; then
            wait "$pid" 2>/dev/null || true
            killed=$((killed + 1))
            at_kills="$at_kills${at_kills:+, }${now:-0} done, host's huge pages $chosen"
            say "$server: killed (${now:-0} cells done, the host's transparent huge pages: $chosen)"
        fi
        wait "$pid" 2>/dev/null || true
        pid=
        again=$((again + $(repeated "$known" "$(state "$folder/$to" "$attempts")")))
        # it has refused to begin: nothing to kill
        if [ ! -s "$folder/$to/sweep.json" ] && grep -q '^error' "$folder/said"; then
            ended=$(grep -m1 '^error' "$folder/said")
            break
        fi
    done < <(moments)
    known=$(state "$folder/$to" "$attempts")
    code=0
    launch
    wait "$pid" || code=$?
    pid=
    again=$((again + $(repeated "$known" "$(state "$folder/$to" "$attempts")")))
    took=$(($(date +%s) - begun))
    if [ "$code" -ne 0 ] || [ ! -s "$folder/answer" ]; then
        echo "$server: failed with exit code $code: ${ended:-$(tail -n 5 "$folder/said")}"
        status=1
    fi
    # it may have refused in JSON
    jq -e .cells "$folder/answer" >/dev/null 2>&1 || echo '{"cells":[]}' >"$folder/answer"
    after=$(cat "$of_host")
    finished=$(done_cells "$folder/$to")
    counted=$(state "$folder/$to" '[.cells[] | select([.attempts[] | select(.end == "counts")] | length == 1)] | length')
    jq -c --arg server "$server" --argjson cells "$cells" --argjson loads "$loads" --argjson kills "$kills" --argjson killed "$killed" --argjson again "$again" --arg at_kills "$at_kills" \
        --argjson counted "${counted:-0}" --argjson finished "${finished:-0}" --argjson left "$(left "$folder")" --arg before "$before" --arg after "$after" --argjson took "$took" --argjson minutes "$minutes" \
        --argjson seed "$seed" --argjson turns_off "$(case $server in mariadb*) echo true ;; *) echo false ;; esac)" '
        def huge: [.footprint[].anon_huge_bytes | numbers] | max // 0;
        [.cells[] | [.malloc, .thp, .cpus, .block]] as $ids
        | [.cells[] | select(.thp == "always")] as $always | [.cells[] | select(.thp == "never")] as $never
        | {server: $server, seed: $seed, cells: $cells, kills: $killed, at_kills: $at_kills, lost: ($cells - ($ids | unique | length)), twice: (($ids | length) - ($ids | unique | length)),
            not_counted_once: ($cells - $counted), begun_again: $again, not_done: ($cells - $finished), came_to_something_else: ([.cells[] | select(.state != "done") | "\(.malloc) \(.thp) \(.state)"]),
            loads_missing: ([.cells[] | select(.state == "done" and (.loads | length) != $loads)] | length), left: $left, thp_before: $before, thp_after: $after,
            always_as_asked: "\([$always[] | select(.as_asked)] | length) of \($always | length)", always_huge_bytes: ([$always[] | huge] | max), never_huge_bytes: ([$never[] | huge] | max),
            took_s: $took, recommendation: .recommendation.take}
        | .misses = [
            (if .kills != $kills then "killed \(.kills) times, not \($kills)" else empty end),
            (("lost", "twice", "not_counted_once", "begun_again", "not_done", "loads_missing", "left") as $name | if .[$name] != 0 then "\($name) \(.[$name])" else empty end),
            (if .thp_before != .thp_after then "the host had \(.thp_before) and has \(.thp_after)" else empty end),
            (if $always == [] then empty elif $turns_off then (if any($always[]; .as_asked) then "as asked under always, where the server turns huge pages off" else empty end)
                elif any($always[]; .as_asked and huge > 0) then empty else "no huge pages under always" end),
            (if any($never[]; huge > 0) then "huge pages under never" else empty end),
            (if .took_s > $minutes * 60 then "it took \(.took_s) s" else empty end)]' "$folder/answer" >>"$json"
    tail -1 "$json" | jq -r '"\(.server): \(.cells) cells, \(.kills) kills (\(.at_kills)), lost \(.lost), twice \(.twice), begun again \(.begun_again), left \(.left), host \(.thp_before) then \(.thp_after), huge pages under always \((.always_huge_bytes // 0) / 1048576 | round) MiB (as asked in \(.always_as_asked)), under never \((.never_huge_bytes // 0) / 1048576 | round) MiB, \(.took_s) s, take \(.recommendation)\(if .came_to_something_else == [] then "" else "; came to something else: \(.came_to_something_else | join(", "))" end)\(if .misses == [] then "" else "\n  MISS: \(.misses | join("; "))" end)"'
    [ "$(tail -1 "$json" | jq '.misses == []')" = true ] || status=1
done
[ "$status" = 0 ] || echo "THE AIM IS MISSED"
echo "the same as JSON, a line for each server: $json" >&2
exit $status
