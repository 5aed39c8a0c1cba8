# SPDX-License-Identifier: Apache-2.0
# A page of docs/recipes as one bash script: its `sh` blocks in their order, and a `toml NAME` block as the file of that name. Other blocks
# are not for this shell. A block without a language, or a `toml` block without a name, is an error: nobody could follow it.
# usage: awk -f script.awk PAGE.md
BEGIN { print "set -e" }
/^```/ && !inside {
    inside = 1; kind = substr($1, 4)
    if (kind == "" || (kind == "toml" && NF != 2)) {
        printf "%s:%d: a block of no kind, or of no name: %s\n", FILENAME, FNR, $0 > "/dev/stderr"; failed = 1; exit 1
    }
    if (kind == "toml") printf "cat > %s <<'END OF THE FILE'\n", $2
    next
}
/^```/ { if (kind == "toml") print "END OF THE FILE"; inside = 0; next }
inside && (kind == "sh" || kind == "toml")
END { if (inside && !failed) { print FILENAME ": the last block does not end" > "/dev/stderr"; exit 1 } }
