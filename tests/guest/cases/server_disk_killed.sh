# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# A real server commits to a slow disk, FUSE layer and device-mapper, or within a memory cgroup; whoever holds the squeeze is killed together with
# its watchdog. After `wringer undo` the machine is as before, and whatever was acknowledged is there.
export WRINGER_HOME=/data/home WRINGER_CACHE=/servers
PATIENCE=300
sandboxes=$WRINGER_HOME/sandboxes
mkdir -p $sandboxes
commits() { # commits SERVER: starts to, in the background; until there are ten more
    # emptied here: the new process may not have come to it when the old lines are counted
    : >/tmp/commits
    sandbox-test-commits "$1" >/tmp/commits 2>&1 &
    until_true ten_commits || fail "$1 does not commit: $(cat /tmp/commits)"
}
ten_commits() { [ "$(grep -c ACKNOWLEDGED /tmp/commits)" -ge 10 ]; }
acknowledged() { sed -n 's/^ACKNOWLEDGED [a-z]* \([0-9]*\)$/\1/p' /tmp/commits | tail -1; }
all_there() { # all_there SERVER: on the disk as it is, by the server itself
    last=$(acknowledged)
    expect 0 sandbox start "$1" --wait 2m
    expect 0 sandbox use "$1" "SELECT CONCAT('has ', COUNT(*), ' commits') FROM durable WHERE id <= $last AND twin = id"
    says "has $last commits"
    expect 0 sandbox stop "$1"
    echo "$1 has its $last commits"
}

mount -t ext4 /dev/vdb $sandboxes
snapshot >/tmp/snapshot.mounted
as_mounted() {
    snapshot >/tmp/snapshot.now
    cmp -s /tmp/snapshot.mounted /tmp/snapshot.now
}

# FUSE layer: it stays, fast, until the server has let go. Servers on it are killed on the machine below, too (the durability tests): here with the
# word points=all on the kernel's command line.
if [ "${points:-}" = all ]; then
    expect 0 disk delay $sandboxes/mariadb/data --write 1ms --sync 5ms
    expect 0 sandbox start mariadb --wait 2m
    commits mariadb
    kill_together "$(role watchdog)" "$(role supervise)"
    expect 5 undo
    says "is busy: held open by mariadbd" "serves on, undelayed"
    expect 0 sandbox stop mariadb
    wait
    expect 0 undo
    expect 0 undo
    says "nothing to undo"
    until_true as_mounted || fail "mariadb on the FUSE layer: $(diff /tmp/snapshot.mounted /tmp/snapshot.now)"
    all_there mariadb
fi

# a memory cgroup around the server, as a command of `squeeze`
config=$sandboxes/mariadb/server.cnf
program=$(sed -n 's/^ *"program": "\(.*\)",*$/\1/p' $sandboxes/mariadb/manifest.json)
wringer squeeze --ram 200M -- "$program" --defaults-file=$config --user=nobody >/tmp/squeezed 2>&1 &
controller=$!
answers() { wringer sandbox use mariadb "SELECT 1" >/dev/null 2>&1; }
until_true answers || fail "the squeezed server does not answer: $(cat /tmp/squeezed)"
grep -q wringer "/proc/$(pidof mariadbd)/cgroup" || fail "the server is in no cgroup of Wringer's"
commits mariadb
kill_together "$(role watchdog)" $controller
expect 0 undo
wait
nothing_is_handed_down "in the end"
until_true as_mounted || fail "in a memory cgroup: $(diff /tmp/snapshot.mounted /tmp/snapshot.now)"
all_there mariadb
umount $sandboxes

# device-mapper: the device stays, fast, until whoever mounted it has let go
expect 0 disk delay /dev/vdb --write 4ms
mount -t ext4 "$(mapped)" $sandboxes
expect 0 sandbox start postgresql --wait 2m
commits postgresql
kill_together "$(role watchdog)" "$(role supervise)"
expect 5 undo
says "mounted at $sandboxes"
expect 0 sandbox stop postgresql
wait
umount $sandboxes
expect 0 undo
[ "$(ls /dev/mapper)" = control ] || fail "there is still $(ls /dev/mapper)"
nothing_changed
mount -t ext4 /dev/vdb $sandboxes
all_there postgresql
umount $sandboxes
