// SPDX-License-Identifier: Apache-2.0
//! Statements, as the server takes them.

use crate::advised::Basis;
use crate::server::Server;
use capability::{Setting, setting};

/// A statement that sets one variable to a new value. It is never run here.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub statement: String,
    pub is_dynamic: bool,
    pub source: &'static str,
}

/// `None`: it is not known that this version has the variable.
pub(crate) fn change(server: &Server, name: &str, value: &str) -> Option<Change> {
    let Setting { is_dynamic, source, .. } = *setting(name, server.flavour?, &server.version)?;
    let statement = match is_dynamic {
        true => format!("SET GLOBAL {name} = {value};"),
        false => format!("[mysqld] {name} = {value}"),
    };
    Some(Change { statement, is_dynamic, source })
}

pub(crate) fn basis(server: &Server) -> Basis {
    if server.is_measured() { Basis::Measured } else { Basis::Assumed }
}
