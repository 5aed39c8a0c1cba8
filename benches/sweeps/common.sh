# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Read by the scripts that kill a sweep and go on with it: what its state says, and what a kill has left behind.
# shellcheck source=benches/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

# of the sweep in FOLDER: what jq makes of its state; nothing where there is none yet
state() { # state FOLDER FILTER
    [ ! -s "$1/sweep.json" ] || jq -c "$2" "$1/sweep.json"
}

done_cells() { state "$1" '[.cells[] | select(.state == "done")] | length'; } # done_cells FOLDER
# shellcheck disable=SC2034 # read by the scripts: a filter
attempts='[.cells[] | select(.state == "done") | {key: .id, value: (.attempts | length)}] | from_entries'

# cells that were done before and were begun again, or are lost
repeated() { # repeated BEFORE AFTER
    jq -n --argjson before "${1:-{\}}" --argjson after "${2:-{\}}" '[$before | to_entries[] | select($after[.key] != .value)] | length'
}

# runs that are not over, sandboxes of this home, and mounts below FOLDER
left() { # left FOLDER
    local runs sandboxes mounts
    runs=$("$wringer" status -o json | jq '.runs | length')
    sandboxes=$(find "$WRINGER_HOME/sandboxes" -mindepth 1 -maxdepth 1 ! -name '.*' 2>/dev/null | wc -l)
    mounts=$(grep -c "$1" /proc/self/mountinfo || true)
    echo $((runs + sandboxes + mounts))
}
