// SPDX-License-Identifier: Apache-2.0
//! pgbench's built-in scripts, as the statements that a server sees from pgbench 15 on tables of the same scale.
//!
//! The same SQL goes to the MySQL family, except pgbench's END, which is COMMIT there.

use crate::distribution::{Distribution, Draw as _, Sampler};
use crate::{Kind, Name, Rng, StatementSpec, Tables, Transaction, Workload};
use capability::Protocol;

/// Rows for each unit of the scale.
pub const TELLERS: u64 = 10;
pub const ACCOUNTS: u64 = 100_000;
/// The amount of a transfer is from minus this number to this number.
const DELTA_MOST: i64 = 5000;

pub(crate) fn build(
    name: Name,
    protocol: Protocol,
    tables: &Tables,
    distribution: &Distribution,
) -> Option<Box<dyn Workload>> {
    let script: &[Step] = match name {
        Name::PgbenchTpcbLike => &TPCB_LIKE,
        Name::PgbenchSimpleUpdate => &SIMPLE_UPDATE,
        Name::PgbenchSelectOnly => &[Step::SelectAccount],
        _ => return None,
    };
    let scale = u64::from(tables.scale);
    Some(Box::new(Pgbench {
        script,
        statements: script.iter().map(|step| step.spec(protocol)).collect(),
        branches: scale,
        tellers: scale * TELLERS,
        accounts: distribution.sampler(1, scale * ACCOUNTS),
    }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    UpdateAccount,
    SelectAccount,
    UpdateTeller,
    UpdateBranch,
    InsertHistory,
    End,
}

const TPCB_LIKE: [Step; 7] = [
    Step::Begin,
    Step::UpdateAccount,
    Step::SelectAccount,
    Step::UpdateTeller,
    Step::UpdateBranch,
    Step::InsertHistory,
    Step::End,
];
const SIMPLE_UPDATE: [Step; 5] =
    [Step::Begin, Step::UpdateAccount, Step::SelectAccount, Step::InsertHistory, Step::End];

impl Step {
    fn spec(self, protocol: Protocol) -> StatementSpec {
        let (class, kind, sql) = match self {
            Self::Begin => ("begin", Kind::Other, "BEGIN"),
            Self::UpdateAccount => {
                ("update_account", Kind::Write, "UPDATE pgbench_accounts SET abalance = abalance + ? WHERE aid = ?")
            }
            Self::SelectAccount => {
                ("select_account", Kind::Read, "SELECT abalance FROM pgbench_accounts WHERE aid = ?")
            }
            Self::UpdateTeller => {
                ("update_teller", Kind::Write, "UPDATE pgbench_tellers SET tbalance = tbalance + ? WHERE tid = ?")
            }
            Self::UpdateBranch => {
                ("update_branch", Kind::Write, "UPDATE pgbench_branches SET bbalance = bbalance + ? WHERE bid = ?")
            }
            Self::InsertHistory => (
                "insert_history",
                Kind::Write,
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP)",
            ),
            Self::End if protocol == Protocol::Mysql => ("end", Kind::Other, "COMMIT"),
            Self::End => ("end", Kind::Other, "END"),
        };
        StatementSpec::new(class, kind, sql, protocol)
    }
}

struct Pgbench {
    script: &'static [Step],
    statements: Vec<StatementSpec>,
    branches: u64,
    tellers: u64,
    accounts: Sampler,
}

impl Workload for Pgbench {
    fn statements(&self) -> &[StatementSpec] {
        &self.statements
    }

    fn next(&self, rng: &mut Rng, transaction: &mut Transaction) {
        let account = signed(self.accounts.sample(rng));
        // every script draws these, as in pgbench, except the script that does not use them
        let (branch, teller, delta) = if self.script.len() == 1 {
            (0, 0, 0)
        } else {
            let widest = 2 * DELTA_MOST.unsigned_abs() + 1;
            (
                signed(1 + rng.below(self.branches)),
                signed(1 + rng.below(self.tellers)),
                signed(rng.below(widest)) - DELTA_MOST,
            )
        };
        for (index, step) in self.script.iter().enumerate() {
            transaction.step(index);
            let values: &[i64] = match step {
                Step::Begin | Step::End => &[],
                Step::UpdateAccount => &[delta, account],
                Step::SelectAccount => &[account],
                Step::UpdateTeller => &[delta, teller],
                Step::UpdateBranch => &[delta, branch],
                Step::InsertHistory => &[teller, branch, account, delta],
            };
            values.iter().for_each(|value| transaction.int(*value));
        }
    }
}

/// The largest scale makes keys of 49 bits.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
