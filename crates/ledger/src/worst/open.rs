// SPDX-License-Identifier: Apache-2.0
//! The memory of this server that no setting limits, by the table of such memory.

use super::entries::{Concurrency, Unbounded};
use super::open_rows::{Counted, Open, ROWS};
use super::settings::Settings;
use crate::Inventory;

/// Where the server's settings are not known, everything is without a limit.
pub(crate) fn of(inventory: &Inventory, settings: &Settings<'_>, concurrency: &Concurrency) -> Vec<Unbounded> {
    if inventory.server.is_none() || concurrency.connections_max.is_none() {
        return vec![Unbounded {
            name: "everything".into(),
            why: "the server's settings are not known".into(),
            counted: "there is no bound".into(),
            remedy: Some("an account on the server: --sandbox, --dsn, --mysql-socket, --pgsql-host".into()),
        }];
    }
    ROWS.iter().filter(|row| row.holds(settings)).map(|row| entry(row, concurrency)).collect()
}

fn entry(row: &Open, concurrency: &Concurrency) -> Unbounded {
    let counted = match row.counted {
        Counted::Operations => {
            format!("{} of each in a session at once: {}", concurrency.operations, concurrency.operations_source)
        }
        Counted::Settings => "each session with the server's own settings".to_owned(),
        Counted::Now => "as it is now".to_owned(),
        Counted::Largest => {
            "each session with as much beside its buffers as the largest so far has held in all".to_owned()
        }
        Counted::Not => "not in the bound".to_owned(),
    };
    Unbounded { name: row.name.to_owned(), why: row.why.to_owned(), counted, remedy: row.remedy.map(str::to_owned) }
}
