// SPDX-License-Identifier: Apache-2.0
//! The instances of the buffer pool.

use crate::{Flavour, Version};

/// A server makes one instance of a pool that is smaller, in bytes, whatever it is asked for: `BUF_POOL_SIZE_THRESHOLD`, include/srv0start.h of MySQL 5.7 to 8.4;
/// measured: MariaDB 10.1.23 and 10.2.11 and MySQL 9.7.4, asked for 4 with 64 MiB, have one.
pub const ONE_INSTANCE_BELOW: u64 = 1 << 30;

/// How many instances there are where `innodb_buffer_pool_instances` is `told`. `None`: it is not known, or there is no such variable.
///
/// In versions that cannot resize the pool while they run, the variable stays what the server was asked for (measured: MariaDB 10.1.23). Later ones put into it
/// what they made (measured: MariaDB 10.2.11, MySQL 9.7.4), and keep their instances when the pool is made smaller.
pub fn instances(flavour: Flavour, version: &Version, told: Option<u64>, pool_bytes: Option<u64>) -> Option<u64> {
    let since: &[u32] = match flavour {
        Flavour::Mariadb => &[10, 2],
        Flavour::Mysql | Flavour::Percona => &[5, 7],
        Flavour::Postgresql => return None,
    };
    let is_asked_for = *version < Version::of(since);
    let is_small = pool_bytes.is_some_and(|bytes| bytes < ONE_INSTANCE_BELOW);
    if is_asked_for && is_small { Some(1) } else { told.map(|it| it.max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_not_what_a_small_pool_has() {
        let of = |flavour, version: &str, pool| instances(flavour, &version.parse().expect("a version"), Some(8), pool);
        let (small, large) = (Some(24 << 20), Some(1 << 30));
        assert_eq!(of(Flavour::Mariadb, "10.1.23", small), Some(1));
        assert_eq!(of(Flavour::Percona, "5.6.36", small), Some(1));
        assert_eq!(of(Flavour::Mariadb, "10.1.23", large), Some(8));
        assert_eq!(of(Flavour::Mariadb, "10.1.23", None), Some(8));
        // a larger pool was made smaller: the variable has what there is
        assert_eq!(of(Flavour::Mysql, "5.7.44", small), Some(8));
        assert_eq!(instances(Flavour::Mysql, &Version::of(&[8, 0, 29]), None, small), None);
    }
}
