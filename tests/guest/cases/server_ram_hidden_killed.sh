# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# RAM is hidden, by each mechanism, while a real server commits; supervisor and watchdog are killed together. After `wringer undo` everything
# is as it was with the server alone, and the server has never stopped to commit.
export WRINGER_HOME=/data/home WRINGER_CACHE=/servers
PATIENCE=60
mkdir -p $WRINGER_HOME/sandboxes
mount -t ext4 /dev/vdb $WRINGER_HOME/sandboxes
expect 0 sandbox start mariadb --wait 2m
sandbox-test-commits mariadb >/tmp/commits 2>&1 &
client=$!
commits() { grep -c ACKNOWLEDGED /tmp/commits || true; }
more() { [ "$(commits)" -gt "$had" ]; }
snapshot >/tmp/snapshot.serving
as_with_the_server() {
    snapshot >/tmp/snapshot.now
    cmp -s /tmp/snapshot.serving /tmp/snapshot.now
}
for mechanism in holder pool offline balloon; do
    expect 0 ram hide 128M --mechanism $mechanism --yes
    had=$(commits)
    until_true more || fail "$mechanism: the server does not commit"
    kill -9 "$(role watchdog)" "$(role supervise)"
    expect 0 undo
    until_true as_with_the_server || fail "$mechanism: $(diff /tmp/snapshot.serving /tmp/snapshot.now)"
    expect 0 undo
    says "left alone: a standing server"
    had=$(commits)
    until_true more || fail "$mechanism: the server does not commit after the undo: $(tail -1 /tmp/commits)"
done
kill $client
wait $client || true
expect 0 sandbox use mariadb "CHECK TABLE durable EXTENDED"
says "status   | OK"
expect 0 sandbox stop mariadb
umount $WRINGER_HOME/sandboxes
