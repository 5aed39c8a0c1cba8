# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# What hiding RAM is for: a file that no longer fits into the page cache is read from disk again, every time.
size=$(($(blockdev --getsize64 /dev/vdb) >> 9))

# the cache of a device goes with its last user
exec 7</dev/vdb

read_it() { # read_it NAME: sets $sectors to what came from the disk
    before=$(sectors_read vdb)
    cat /dev/vdb >/dev/null
    sectors=$(($(sectors_read vdb) - before))
    echo "$1: $sectors of $size sectors from disk"
}

echo 1 >/proc/sys/vm/drop_caches
read_it "cold"
[ "$sectors" -ge "$size" ] || fail "a cold read did not come from disk"
read_it "warm"
[ "$sectors" -lt $((size / 20)) ] || fail "the file does not fit into the cache, although nothing is hidden"
# the kernel must first reclaim what was read
expect 0 ram leave 1G --deadline 5m -o json
[ "$(value hidden_bytes)" -gt $((256 << 20)) ] || fail "too little was hidden for this test"
read_it "first with RAM hidden"
read_it "second with RAM hidden"
# at least what does not fit into what was left; the kernel keeps some of the rest
least=$((size - (1 << 30 >> 9) * 11 / 10))
[ "$sectors" -ge $least ] || fail "only $sectors sectors of the second read came from disk: $least do not fit"
expect 0 ram release
exec 7<&-
echo 1 >/proc/sys/vm/drop_caches
