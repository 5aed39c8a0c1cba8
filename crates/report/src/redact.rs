// SPDX-License-Identifier: Apache-2.0
//! Masks texts that look like a secret. The stages before keep secrets out already; this is the second protection.

use evidence::{Conditions, MASK, Server, Tool, setting_masked};
pub(crate) use evidence::{command_masked as command, secrets_masked as text};
use std::collections::BTreeMap;

pub(crate) fn conditions(conditions: &Conditions) -> Conditions {
    let tool = Tool { command: command(&conditions.tool.command), ..conditions.tool.clone() };
    let server = Server { variables: values(&conditions.server.variables), ..conditions.server.clone() };
    let caveats = conditions.caveats.iter().map(|caveat| text(caveat)).collect();
    Conditions { tool, server, caveats, ..conditions.clone() }
}

/// Masks by name: server variables, and the details of a span.
pub(crate) fn values(values: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    values.iter().map(|(name, value)| (name.clone(), setting_masked(name, value))).collect()
}

/// Masks each line on its own: `password = "x"`, and everything that [`text`] finds.
pub(crate) fn lines(whole: &str) -> String {
    let masked = |line: &str| match line.split_once('=') {
        Some((name, value)) if setting_masked(name.trim(), value.trim()) == MASK => {
            format!("{name}= \"{MASK}\"")
        }
        _ => text(line),
    };
    whole.lines().map(masked).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_variables_stay() {
        let given = [
            ("strict_password_validation", "ON"),
            ("secret", "abc"),
            ("password_reuse", "5"),
            ("port", "1"),
            ("init_connect", "SET PASSWORD = 'x'"),
            ("note", "SET PASSWORD = 'x'"),
        ];
        let masked = values(&given.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        let shown: Vec<_> = masked.values().map(String::as_str).collect();
        assert_eq!(shown, ["***", "SET PASSWORD = '***'", "5", "1", "***", "ON"]);
    }

    #[test]
    fn an_experiment_line_is_masked() {
        assert_eq!(lines("a = 1\nroot_password = \"x\"\n# ok"), "a = 1\nroot_password = \"***\"\n# ok");
    }
}
