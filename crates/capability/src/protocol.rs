// SPDX-License-Identifier: Apache-2.0
//! The protocol of a server. The product is its [`Flavour`](crate::Flavour): several flavours speak the same protocol.

use serde::{Deserialize, Serialize};
use sql::Dialect;

/// The protocol that a server speaks; MariaDB, MySQL and Percona Server speak the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Mysql,
    Postgresql,
}

impl Protocol {
    /// `mysql` or `postgresql`, as results name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mysql => "mysql",
            Self::Postgresql => "postgresql",
        }
    }

    /// The dialect whose quoting rules the statements follow.
    pub fn dialect(self) -> Dialect {
        match self {
            Self::Mysql => Dialect::Mysql,
            Self::Postgresql => Dialect::Postgresql,
        }
    }

    /// The protocol of a server that wrote statements by these rules.
    pub fn of(dialect: Dialect) -> Self {
        if dialect == Dialect::Postgresql { Self::Postgresql } else { Self::Mysql }
    }

    /// The port that the server's makers chose.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Mysql => 3306,
            Self::Postgresql => 5432,
        }
    }
}
