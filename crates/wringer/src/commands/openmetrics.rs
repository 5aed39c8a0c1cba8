// SPDX-License-Identifier: Apache-2.0
//! Values as OpenMetrics text, for Prometheus and similar programs: `node_exporter`'s textfile collector reads it unchanged.

use std::fmt::Write as _;

/// The last words of names that are units.
const UNITS: [&str; 3] = ["bytes", "seconds", "ratio"];

pub(super) struct Exposition<'a> {
    text: String,
    /// The metric that was begun last.
    family: &'static str,
    server: &'a str,
}

impl<'a> Exposition<'a> {
    /// `server`: a label of each value, because the files of several servers may be collected together.
    pub(super) fn new(server: &'a str) -> Self {
        Self { text: String::new(), family: "", server }
    }

    /// The text, which ends with `# EOF`, without a line end after it.
    pub(super) fn end(mut self) -> String {
        self.text.push_str("# EOF");
        self.text
    }

    /// Begins a metric. All are gauges; the name ends with the unit, if it has one.
    pub(super) fn family(&mut self, name: &'static str, help: &str) {
        self.family = name;
        let _ = writeln!(self.text, "# TYPE {name} gauge");
        if let Some(unit) = name.rsplit('_').next().filter(|word| UNITS.contains(word)) {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}.");
    }

    /// Adds a value to the metric that was begun last.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let labels = [("server", self.server)]
            .iter()
            .chain(labels)
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect::<Vec<_>>();
        let _ = writeln!(self.text, "{}{{{}}} {value}", self.family, labels.join(","));
    }
}

/// Escapes a label: the name of a process may have any characters.
fn escaped(value: &str) -> String {
    let mut escaped = String::new();
    for c in value.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
