# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# The other ways to hide RAM: as much as was asked, back after the release; and after SIGKILL to everybody, what no process holds
# stays until `wringer undo`.
pool() { cat /proc/sys/vm/nr_hugepages; }
offline() { cat /sys/devices/system/memory/memory*/state | grep -cv '^online$'; }
everybody() { for victim in watchdog supervise balloon; do role $victim || true; done; }

expect 0 ram hide 256M --mechanism pool
says "huge-page pool" "free for anyone"
expect_near "pages of the pool" "$(pool)" 128 0
# shellcheck disable=SC2046
kill_together $(everybody)
sleep 1
expect_near "pages of the pool, with nobody left" "$(pool)" 128 0
expect 0 undo
expect_near "pages of the pool, given back" "$(pool)" 0 0
nothing_changed

# a pool that somebody made larger meanwhile is theirs, and named
expect 0 ram hide 64M --mechanism pool
echo 40 >/proc/sys/vm/nr_hugepages
# shellcheck disable=SC2046
kill_together $(everybody)
expect 5 undo
says "now '40'" "echo '0' > '/proc/sys/vm/nr_hugepages'"
echo 0 >/proc/sys/vm/nr_hugepages
nothing_changed

total=$(meminfo MemTotal)
expect 0 ram hide 256M --mechanism offline
expect_near "fall of MemTotal, kB" $((total - $(meminfo MemTotal))) 262144 0
# shellcheck disable=SC2046
kill_together $(everybody)
sleep 1
expect_near "blocks offline, with nobody left" "$(offline)" 2 0
expect 0 undo
expect_near "MemTotal, given back, kB" "$(meminfo MemTotal)" "$total" 0
nothing_changed

# what the kernel computes anew when blocks come and go, also where somebody has set it: after the release as it was
reserves() { cat /proc/sys/vm/user_reserve_kbytes /proc/sys/vm/admin_reserve_kbytes /proc/sys/vm/min_free_kbytes | tr '\n' ' '; }
usual=$(reserves)
set_reserves() { # set_reserves USER ADMIN FREE
    echo "$1" >/proc/sys/vm/user_reserve_kbytes
    echo "$2" >/proc/sys/vm/admin_reserve_kbytes
    echo "$3" >/proc/sys/vm/min_free_kbytes
}
set_reserves 50000 4000 3000
expect 0 ram hide 256M --mechanism offline
echo "reserves while blocks are offline: $(reserves)"
expect 0 ram release
[ "$(reserves)" = "50000 4000 3000 " ] || fail "the reserves are $(reserves)"
# shellcheck disable=SC2086
set_reserves $usual
nothing_changed

# an undo that forgets what no process holds leaves it changed, and this case would see it; by the second record it is told, and undone by the next one
forgetful_undo() { # forgetful_undo WORDS: whoever held the squeeze is dead, and the journal goes
    # shellcheck disable=SC2046
    kill_together $(everybody)
    expect 5 undo
    says "$1" "is still there; as root: "
    told=$(sed -n 's/.* is still there; as root: //p' /tmp/err)
    expect 3 ram hide 64M --mechanism pool
    says "an earlier run was not undone, and its journal is gone" "$1"
}
expect 0 ram hide 256M --mechanism offline
WRINGER_FORGET=memory_blocks forgetful_undo "memory blocks offline"
expect_near "blocks offline, forgotten" "$(offline)" 2 0
expect 0 undo
expect_near "MemTotal, given back by the second record, kB" "$(meminfo MemTotal)" "$total" 0
nothing_changed
expect 0 ram hide 256M --mechanism pool
WRINGER_FORGET=huge_pool forgetful_undo "huge pages of the pool"
expect_near "pages of the pool, forgotten" "$(pool)" 128 0
# by hand, with the command that was told
sh -c "$told"
expect_near "pages of the pool, given back by hand" "$(pool)" 0 0
expect 0 undo
nothing_changed

expect 0 ram hide 256M --mechanism balloon
balloon=$(role balloon)
# the program itself lies in memory here, and counts as shared, too
expect_near "RssShmem, kB" "$(sed -n 's/^RssShmem:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$balloon/status")" 262144 16384
# shellcheck disable=SC2046
kill_together $(role watchdog) $(role supervise)
gone() { [ ! -e "/proc/$balloon/exe" ]; }
until_true gone || fail "the balloon outlives everybody"
expect 0 undo
