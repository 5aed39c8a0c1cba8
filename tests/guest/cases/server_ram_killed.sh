# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# The controller of a limited server dies at its crash points; the watchdog or `wringer undo` gives everything back, the
# controller handed down to the new cgroup too. Then watchdog and controller die together, at a few points.
dies_at_every_point 20 squeeze-test-server-ram true 64M
dies_with_its_watchdog "8 12 16 20" squeeze-test-server-ram true 64M
