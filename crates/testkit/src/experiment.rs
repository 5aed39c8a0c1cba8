// SPDX-License-Identifier: Apache-2.0

/// A small experiment on MariaDB that loads for `time`; `squeeze` is the body of its `[squeeze]` section.
pub fn small_experiment(time: &str, squeeze: &str) -> String {
    format!(
        r#"
schema = 1
name = "small"
[server]
flavour = "mariadb"
[server.options]
innodb_buffer_pool_size = "16M"
[fill]
rows = 2000
[load]
workload = "oltp_point_select"
time = "{time}"
[squeeze]
{squeeze}
"#
    )
}
