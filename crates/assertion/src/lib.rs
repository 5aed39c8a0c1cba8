// SPDX-License-Identifier: Apache-2.0
//! Conditions that a load's result must meet: `p99<20ms`, `point_select service p99.9<=5ms`, `queries/s>1000`, `errors=0`.
//!
//! In: the text, then the measurements of a load. Out: a [`Verdict`] with the condition and the measured value. No I/O. A condition fails if its
//! figure was not measured at all: a load without a single transaction has no latency below 20 ms. Where transactions had not ended, a latency may be known
//! only from below; then a condition is met if it holds for every value that the latency can have.
//!
//! In an experiment a condition may also be about what the run recorded besides the load ([`Assertion::of_run`]): the caller has the value.

mod recorded;
#[cfg(test)]
mod tests;

pub use recorded::{Recorded, Source, names};

use evidence::{Clock, LatencyHistogram, LoadResult, Phase, Quantity, Time, Times, Unit, Verdict};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use units::Span;

/// One condition on the measured phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Assertion {
    /// The text as it was written.
    text: String,
    figure: Figure,
    relation: Relation,
    limit: f64,
}

/// The reason why a text is no assertion, with the grammar for the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}\n{GRAMMAR}")]
pub struct AssertionError {
    reason: String,
}

const GRAMMAR: &str = "\
  an assertion is [CLASS | connect] [response | service] FIGURE RELATION VALUE:
    FIGURE    p50, p99, p99.9 and any other percentile, min, mean, max: VALUE is a time (20ms, 500us)
              queries/s, transactions/s, errors, reconnects, late, skipped, backlog: VALUE is a number
    RELATION  <  <=  =  >=  >
    CLASS     a class of statements, as the summary names them; without it the whole transaction counts
  for example: p99<20ms   'point_select service p99.9<=5ms'   'queries/s>1000'   errors=0";

#[derive(Debug, Clone, PartialEq)]
enum Figure {
    Latency {
        of: Of,
        clock: Clock,
        point: Point,
    },
    QueriesPerSecond,
    TransactionsPerSecond,
    Count(Count),
    /// Not of the load: [`Assertion::judge_recorded`].
    Recorded(Recorded),
}

/// The operations whose latency is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Of {
    Transaction,
    Class(String),
    Connect,
}

/// The point of a distribution that is meant.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Point {
    Percentile(f64),
    Min,
    Mean,
    Max,
}

/// A measured value: latencies in nanoseconds, other figures in their own units.
#[derive(Debug, Clone, Copy)]
enum Value {
    Time(Time),
    Number(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Errors,
    Reconnects,
    Late,
    Skipped,
    Backlog,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Below,
    AtMost,
    Equal,
    AtLeast,
    Above,
}

/// In this order, `<=` is found before `<`.
const RELATIONS: [(&str, Relation); 6] = [
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("==", Relation::Equal),
    ("<", Relation::Below),
    (">", Relation::Above),
    ("=", Relation::Equal),
];

impl AssertionError {
    /// The reason on one line, without the grammar.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl FromStr for Assertion {
    type Err = AssertionError;

    /// An assertion on the result of a load.
    fn from_str(text: &str) -> Result<Self, AssertionError> {
        let assertion = Self::of_run(text)?;
        match assertion.recorded() {
            None => Ok(assertion),
            Some(_) => Err(AssertionError {
                reason: format!(
                    "'{assertion}' is about what the run of an experiment records: assert it in an experiment's file"
                ),
            }),
        }
    }
}

impl Assertion {
    /// An assertion in an experiment: on the result of an arm's load, or on what the run recorded besides.
    ///
    /// # Errors
    /// The text is no assertion.
    pub fn of_run(text: &str) -> Result<Self, AssertionError> {
        let refuse = |reason: String| AssertionError { reason };
        // the last sign: the name of a class may have such signs in its own text (`select c from t where id = ?`)
        let last = text.rfind(['<', '>', '=']).ok_or_else(|| refuse("there is no <, <=, =, >= or > in it".into()))?;
        let at = text[..last].trim_end_matches(['<', '>', '=']).len();
        let (left, rest) = text.split_at(at);
        let found = RELATIONS.iter().find(|(sign, _)| rest.starts_with(sign));
        let (sign, relation) = found.copied().ok_or_else(|| refuse("there is no relation in it".into()))?;
        let figure = Figure::parse(left).map_err(refuse)?;
        let limit = figure.limit(rest[sign.len()..].trim()).map_err(refuse)?;
        Ok(Self { text: text.split_whitespace().collect::<Vec<_>>().join(" "), figure, relation, limit })
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Assertion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl Figure {
    fn parse(text: &str) -> Result<Self, String> {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let name = words.pop().ok_or("it does not say which figure")?;
        let clock = match words.last() {
            Some(&"response") => Some(Clock::Response),
            Some(&"service") => Some(Clock::Service),
            _ => None,
        };
        words.truncate(words.len() - usize::from(clock.is_some()));
        let of = words.join(" ");
        let point = Point::parse(name)?;
        let all: Vec<&str> = text.split_whitespace().collect();
        if let (None, Some(recorded)) = (point, Recorded::parse(&all)) {
            return recorded.map(Self::Recorded);
        }
        if let Some(point) = point {
            let of = match of.as_str() {
                "" | "transaction" => Of::Transaction,
                "connect" if clock.is_some() => return Err("connecting has no response and service time".into()),
                "connect" => Of::Connect,
                class => Of::Class(class.to_owned()),
            };
            return Ok(Self::Latency { of, clock: clock.unwrap_or(Clock::Response), point });
        }
        if !of.is_empty() || clock.is_some() {
            return Err(format!("'{name}' is no latency: it counts for the whole load, so nothing stands before it"));
        }
        Ok(match name {
            "queries/s" | "qps" => Self::QueriesPerSecond,
            "transactions/s" | "tps" => Self::TransactionsPerSecond,
            "errors" => Self::Count(Count::Errors),
            "reconnects" => Self::Count(Count::Reconnects),
            "late" => Self::Count(Count::Late),
            "skipped" => Self::Count(Count::Skipped),
            "backlog" => Self::Count(Count::Backlog),
            other => return Err(format!("'{other}' is none of the figures")),
        })
    }

    /// The limit: latencies in nanoseconds, other figures in their own units.
    fn limit(&self, text: &str) -> Result<f64, String> {
        if let Self::Latency { .. } = self {
            let span: Span = text.parse().map_err(|error: units::ParseError| error.to_string())?;
            return Ok(span.as_ns() as f64);
        }
        if let Self::Recorded(recorded) = self {
            return recorded.limit(text);
        }
        number(text)
    }

    /// `None`: nothing was measured.
    fn measure(&self, phase: &Phase, connect: &LatencyHistogram) -> Option<Value> {
        match self {
            Self::Latency { of, clock, point } => {
                let times = match of {
                    Of::Transaction => phase.times(*clock),
                    Of::Class(class) => phase.times_of_class(class, *clock)?,
                    Of::Connect => Times::known(connect),
                };
                (!times.is_empty()).then(|| Value::Time(point.of(&times)))
            }
            Self::QueriesPerSecond => phase.queries_per_second().map(Value::Number),
            Self::TransactionsPerSecond => phase.transactions_per_second().map(Value::Number),
            Self::Count(count) => Some(Value::Number(count.of(phase) as f64)),
            Self::Recorded(_) => None,
        }
    }

    fn unit(&self) -> Unit {
        match self {
            Self::Latency { .. } => Unit::Microseconds,
            Self::QueriesPerSecond | Self::TransactionsPerSecond => Unit::PerSecond,
            Self::Count(_) => Unit::Count,
            Self::Recorded(recorded) => recorded.unit(),
        }
    }
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("'{text}' is not a number"))
}

impl Point {
    fn parse(name: &str) -> Result<Option<Self>, String> {
        let number = name.strip_prefix('p').filter(|number| number.starts_with(|c: char| c.is_ascii_digit()));
        Ok(match (name, number) {
            ("min", _) => Some(Self::Min),
            ("mean" | "avg", _) => Some(Self::Mean),
            ("max", _) => Some(Self::Max),
            ("median", _) => Some(Self::Percentile(50.0)),
            (_, Some(number)) => {
                let percentile = number.parse::<f64>().ok().filter(|p| *p > 0.0 && *p <= 100.0);
                Some(Self::Percentile(percentile.ok_or_else(|| format!("'{name}' is no percentile: p50, p99, p99.9"))?))
            }
            _ => None,
        })
    }

    fn of(self, times: &Times<'_>) -> Time {
        match self {
            Self::Percentile(percentile) => times.percentile(percentile),
            Self::Min => times.min(),
            Self::Mean => times.mean(),
            Self::Max => times.max(),
        }
    }
}

impl Value {
    /// From the least to the most that the value can be.
    fn range(self) -> (f64, f64) {
        match self {
            Self::Time(time) => (time.ns, time.most_ns),
            Self::Number(number) => (number, number),
        }
    }
}

impl Count {
    fn of(self, phase: &Phase) -> u64 {
        match self {
            Self::Errors => phase.errors.values().sum(),
            Self::Reconnects => phase.reconnects,
            Self::Late => phase.late,
            Self::Skipped => phase.skipped,
            Self::Backlog => phase.backlog_max,
        }
    }
}

impl Relation {
    /// Whether it holds for every value of a range.
    fn holds(self, (least, most): (f64, f64), limit: f64) -> bool {
        match self {
            Self::Below => most < limit,
            Self::AtMost => most <= limit,
            #[allow(clippy::float_cmp)] // counts, or a figure that somebody wants to be exactly this
            Self::Equal => least == limit && most == limit,
            Self::AtLeast => least >= limit,
            Self::Above => least > limit,
        }
    }
}

impl Assertion {
    /// # Errors
    /// The assertion is about a class of statements that the load does not have; the text names the classes that it has.
    pub fn check_class<'a>(&self, classes: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        let Some(asked) = self.class() else { return Ok(()) };
        let mut known: Vec<&str> = classes.into_iter().collect();
        known.sort_unstable();
        known.dedup();
        if known.contains(&asked) {
            return Ok(());
        }
        Err(format!(
            "'{}': this workload has no statements of the class '{asked}', but {}",
            self.text,
            known.join(", ")
        ))
    }

    /// The assertion's figure, if it is one that only arrivals at a rate have: without a rate each client sends its next request when it likes, and nothing is
    /// late, skipped or waits.
    pub fn of_arrivals(&self) -> Option<&'static str> {
        self.figure().filter(|figure| ["late", "skipped", "backlog"].contains(figure))
    }

    /// The assertion's figure, if it is a number of the whole load: `errors`, `late`, `queries/s`. `None`: it is a latency, or not of the load.
    pub fn figure(&self) -> Option<&'static str> {
        Some(match self.figure {
            Figure::Latency { .. } | Figure::Recorded(_) => return None,
            Figure::QueriesPerSecond => "queries/s",
            Figure::TransactionsPerSecond => "transactions/s",
            Figure::Count(Count::Errors) => "errors",
            Figure::Count(Count::Reconnects) => "reconnects",
            Figure::Count(Count::Late) => "late",
            Figure::Count(Count::Skipped) => "skipped",
            Figure::Count(Count::Backlog) => "backlog",
        })
    }

    /// The class of statements, if the assertion is about the latency of one.
    pub fn class(&self) -> Option<&str> {
        match &self.figure {
            Figure::Latency { of: Of::Class(class), .. } => Some(class),
            _ => None,
        }
    }

    /// Whether the assertion is about the time to connect.
    pub fn is_of_connecting(&self) -> bool {
        matches!(self.figure, Figure::Latency { of: Of::Connect, .. })
    }

    /// Compares the assertion with the result of a load.
    pub fn judge(&self, result: &LoadResult) -> Verdict {
        self.judge_phase(&result.measured, &result.connect)
    }

    /// Compares the assertion with one phase and the times to connect.
    pub fn judge_phase(&self, phase: &Phase, connect: &LatencyHistogram) -> Verdict {
        self.verdict(self.figure.measure(phase, connect))
    }

    /// The figure, if the run of an experiment records it besides the result of its load.
    pub fn recorded(&self) -> Option<&Recorded> {
        match &self.figure {
            Figure::Recorded(recorded) => Some(recorded),
            _ => None,
        }
    }

    /// Compares the assertion with what a run recorded. `value`: a time in microseconds, another figure in its own unit; `None`: nothing was recorded.
    pub fn judge_recorded(&self, value: Option<f64>) -> Verdict {
        let passed = value.is_some_and(|value| self.relation.holds((value, value), self.limit));
        let asked = Quantity { value: self.limit, unit: self.figure.unit() };
        Verdict { assertion: self.text.clone(), passed, asked, measured: value, at_least: false }
    }

    /// The verdict if nothing was measured: the assertion fails.
    pub fn judge_nothing(&self) -> Verdict {
        self.verdict(None)
    }

    fn verdict(&self, measured: Option<Value>) -> Verdict {
        let unit = self.figure.unit();
        let factor = if matches!(self.figure, Figure::Latency { .. }) { 1e-3 } else { 1.0 };
        let range = measured.map(Value::range);
        let passed = range.is_some_and(|range| self.relation.holds(range, self.limit));
        // a narrow range that has the limit in it
        let is_open = !passed && range.is_some_and(|(least, _)| self.relation.holds((least, least), self.limit));
        let is_bound = matches!(measured, Some(Value::Time(time)) if time.is_at_least());
        Verdict {
            assertion: self.text.clone(),
            passed,
            asked: Quantity { value: self.limit * factor, unit },
            measured: range.map(|(least, _)| least * factor),
            at_least: is_bound || is_open,
        }
    }
}

/// One line for each verdict, for a terminal: whether the condition was met, the condition, and the measured value.
pub fn text(verdicts: &[Verdict]) -> String {
    let width = verdicts.iter().map(|verdict| verdict.assertion.chars().count()).max().unwrap_or(0);
    let line = |verdict: &Verdict| {
        let word = if verdict.passed { "met" } else { "FAILED" };
        format!("  {word:<6}  {:<width$}  measured {}", verdict.assertion, verdict.measured_text())
    };
    ["assertions".to_owned()].into_iter().chain(verdicts.iter().map(line)).collect::<Vec<_>>().join("\n")
}
