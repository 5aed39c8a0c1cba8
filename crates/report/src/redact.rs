// SPDX-License-Identifier: Apache-2.0
//! Masks texts that look like a secret. The stages before keep secrets out already; this is the second protection.

pub(crate) use evidence::secrets_masked as text;
use evidence::{Conditions, MASK, Server, Tool, is_password_word, is_secret_name};
use std::collections::BTreeMap;

/// Values that are no secrets, whatever the name of their variable.
const HARMLESS: [&str; 8] = ["", "on", "off", "0", "1", "yes", "no", "default"];

pub(crate) fn conditions(conditions: &Conditions) -> Conditions {
    let tool = Tool { command: command(&conditions.tool.command), ..conditions.tool.clone() };
    let server = Server { variables: values(&conditions.server.variables), ..conditions.server.clone() };
    let caveats = conditions.caveats.iter().map(|caveat| text(caveat)).collect();
    Conditions { tool, server, caveats, ..conditions.clone() }
}

/// `--password=x`, `--password x`, `-px` of a MySQL client, and passwords in addresses.
pub(crate) fn command(words: &[String]) -> Vec<String> {
    let mut masked = Vec::with_capacity(words.len());
    let mut next_is_secret = false;
    for word in words {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        let secret = name.starts_with('-') && is_secret_name(name);
        masked.push(match value {
            _ if next_is_secret && !word.starts_with('-') => MASK.to_owned(),
            _ if is_password_word(word) => format!("-p{MASK}"),
            Some(_) if secret => format!("{name}={MASK}"),
            _ => text(word),
        });
        next_is_secret = secret && value.is_none();
    }
    masked
}

/// Masks by name: server variables, and the details of a span.
pub(crate) fn values(values: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let masked = |(name, value): (&String, &String)| {
        let value = if is_secret_name(name) && !is_harmless(value) { MASK.to_owned() } else { text(value) };
        (name.clone(), value)
    };
    values.iter().map(masked).collect()
}

/// A path, a word such as `ON`, or a bare number reveals nothing.
fn is_harmless(value: &str) -> bool {
    let known = HARMLESS.contains(&value.to_ascii_lowercase().as_str());
    known || value.starts_with('/') || value.chars().all(|c| c.is_ascii_digit())
}

/// Masks each line on its own: `password = "x"`, and everything that [`text`] finds.
pub(crate) fn lines(whole: &str) -> String {
    let masked = |line: &str| match line.split_once('=') {
        Some((name, value)) if is_secret_name(name) && !is_harmless(value.trim()) => format!("{name}= \"{MASK}\""),
        _ => text(line),
    };
    whole.lines().map(masked).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_a_command_are_masked() {
        let words = [
            "wringer",
            "squeeze",
            "--password=a b",
            "-phush",
            "-p3306",
            "--mysql-password",
            "x",
            "postgres://me:pw@h/db",
            "--time",
            "5",
        ];
        let masked = command(&words.map(str::to_owned)).join(" ");
        assert_eq!(
            masked,
            "wringer squeeze --password=*** -p*** -p3306 --mysql-password *** postgres://me:***@h/db --time 5"
        );
    }

    #[test]
    fn harmless_variables_stay() {
        let given = [
            ("strict_password_validation", "ON"),
            ("secret", "abc"),
            ("password_reuse", "5"),
            ("port", "1"),
            ("init_connect", "SET PASSWORD = 'x'"),
        ];
        let masked = values(&given.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        let shown: Vec<_> = masked.values().map(String::as_str).collect();
        assert_eq!(shown, ["SET PASSWORD = '***'", "5", "1", "***", "ON"]);
    }

    #[test]
    fn an_experiment_line_is_masked() {
        assert_eq!(lines("a = 1\nroot_password = \"x\"\n# ok"), "a = 1\nroot_password = \"***\"\n# ok");
    }
}
