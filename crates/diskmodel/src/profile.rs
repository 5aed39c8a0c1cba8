// SPDX-License-Identifier: Apache-2.0
//! Disks by name, from `profiles.toml`.

use crate::distribution::Distribution;
use crate::model::{Counts, Limit, Model, Of, Operation};
use crate::spec::{OperationSpec, SpecError, unit, wrong};
use evidence::DelayMode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;
use units::{Bytes, Span};

/// One disk with a name.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    #[serde(skip_deserializing)]
    pub name: String,
    pub title: String,
    /// The default size; `None`: the disk's figures do not depend on its size.
    pub size: Option<Bytes>,
    #[serde(rename(deserialize = "figure", serialize = "figures"))]
    pub figures: Vec<Figure>,
}

/// One figure of a disk, with its source.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// `read`, `write`, `sync`, `sequential`, `per-kib`, `iops`, `read-iops`, `write-iops`, `burst`, `credits`, `unit`, `bandwidth`, `depth`.
    pub of: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    is: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upto: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_gib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<f64>,
    #[serde(default)]
    settable: bool,
    /// An address, a document, or `assumed` with the reason.
    pub source: String,
}

static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let read: BTreeMap<String, Profile> =
        toml::from_str(include_str!("../profiles.toml")).expect("the profiles are read in a test");
    read.into_iter().map(|(name, profile)| Profile { name, ..profile }).collect()
});

/// All profiles, in the order of their names.
pub fn profiles() -> &'static [Profile] {
    &PROFILES
}

/// A profile with its options, as a user writes it: `gp3`, `gp2:100G,credits=0`, `gp3:iops=6000,bandwidth=500M`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileSpec {
    text: String,
    profile: &'static Profile,
    size: Option<Bytes>,
    credits: Option<f64>,
    set: BTreeMap<&'static str, f64>,
}

impl FromStr for ProfileSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let names = || profiles().iter().map(|profile| profile.name.as_str()).collect::<Vec<_>>().join(", ");
        let profile = profiles()
            .iter()
            .find(|profile| profile.name == name.trim())
            .ok_or_else(|| wrong(format!("there is no disk profile \"{name}\""), format!("there are {}", names())))?;
        let mut words = Self { text: text.trim().to_owned(), profile, size: None, credits: None, set: BTreeMap::new() };
        rest.split(',').filter(|part| !part.trim().is_empty()).try_for_each(|part| words.set(part.trim()))?;
        if let (Some(credits), Some(most)) = (words.credits, words.amount("credits"))
            && credits > most
        {
            let hint = format!("credits= goes from 0 to {most}");
            return Err(wrong(format!("{name} holds no {credits} credits"), hint));
        }
        Ok(words)
    }
}

impl ProfileSpec {
    fn set(&mut self, part: &str) -> Result<(), SpecError> {
        let profile = self.profile;
        let name = &profile.name;
        let valid = || wrong(format!("{name} has no \"{part}\" to set"), profile.parameters());
        let amount = |value: &str| value.parse::<f64>().ok().filter(|number| *number >= 0.0).ok_or_else(valid);
        match part.split_once('=') {
            None => self.size = Some(profile.sized(part)?),
            Some(("size", value)) => self.size = Some(profile.sized(value)?),
            Some(("credits", value)) if profile.figure("credits", 0).is_some() => self.credits = Some(amount(value)?),
            Some((key, value)) => {
                let figure = profile.figures.iter().find(|it| it.of == key && it.settable).ok_or_else(valid)?;
                let asked = if key == "bandwidth" {
                    value.parse::<Bytes>().map_err(|_| valid())?.0 as f64
                } else {
                    amount(value)?
                };
                let (least, most) = (figure.least.unwrap_or(1.0), figure.most.unwrap_or(f64::MAX));
                if !(least..=most).contains(&asked) {
                    let show =
                        |value: f64| if key == "bandwidth" { bytes(value).to_string() } else { value.to_string() };
                    let hint = format!("it goes from {} to {}", show(least), show(most));
                    return Err(wrong(format!("{name} cannot have {part}"), hint));
                }
                self.set.insert(&figure.of, asked);
            }
        }
        Ok(())
    }

    pub fn profile(&self) -> &'static Profile {
        self.profile
    }

    pub fn size(&self) -> Option<Bytes> {
        self.size.or(self.profile.size)
    }

    /// The value of a figure at the chosen size; in bytes for a bandwidth or a unit.
    fn amount(&self, of: &str) -> Option<f64> {
        if let Some(set) = self.set.get(of) {
            return Some(*set);
        }
        let size = self.size().map_or(0, |size| size.0);
        let figure = self.profile.figure(of, size)?;
        let value = match (&figure.per_gib, &figure.is) {
            (Some(per_gib), _) => {
                let gib = size as f64 / Bytes::GIB as f64;
                (per_gib * gib).clamp(figure.least.unwrap_or(0.0), figure.most.unwrap_or(f64::MAX))
            }
            (None, Some(text)) => text.parse().ok().or_else(|| Some(text.parse::<Bytes>().ok()?.0 as f64))?,
            (None, None) => return None,
        };
        Some(value)
    }

    fn operation(&self, of: &str) -> Operation {
        let read = |of: &str| {
            let words: Option<OperationSpec> = self.profile.figure(of, 0)?.is.as_ref()?.parse().ok();
            words?.known().cloned()
        };
        let data = of != "sync";
        let per_kib = self.profile.figure("per-kib", 0).and_then(|figure| figure.is.as_ref()?.parse::<Span>().ok());
        Operation {
            takes: read(of).unwrap_or(Distribution::NONE),
            us_per_kib: per_kib.filter(|_| data).map_or(0.0, |span| span.as_ns() as f64 / 1000.0),
            sequential: read("sequential").filter(|_| data),
        }
    }

    fn limits(&self) -> Vec<Limit> {
        let unit_bytes = self.profile.figure("unit", 0).and_then(|figure| unit(figure.is.as_ref()?).ok());
        let limit = |of: Of, name: &str| {
            let rate = self.amount(name)?;
            let burst = self.amount("burst").filter(|burst| of == Of::Both && *burst > rate);
            let capacity = if burst.is_some() { self.amount("credits").unwrap_or(0.0) } else { 0.0 };
            Some(Limit {
                counts: Counts::Operations,
                of,
                rate_per_second: rate,
                burst_per_second: burst,
                capacity,
                credits: self.credits.unwrap_or(capacity).min(capacity),
                unit_bytes,
                merge: unit_bytes.is_some(),
            })
        };
        let bandwidth = self.amount("bandwidth").map(|rate| Limit {
            counts: Counts::Bytes,
            of: Of::Both,
            rate_per_second: rate,
            burst_per_second: None,
            capacity: 0.0,
            credits: 0.0,
            unit_bytes: None,
            merge: false,
        });
        let operations = [(Of::Both, "iops"), (Of::Reads, "read-iops"), (Of::Writes, "write-iops")];
        operations.into_iter().filter_map(|(of, name)| limit(of, name)).chain(bandwidth).collect()
    }

    pub(crate) fn model(&self) -> Model {
        #[allow(clippy::cast_possible_truncation)] // a small number in our own file
        let depth = self.amount("depth").map(|depth| depth as u32);
        Model {
            profile: Some(self.text.clone()),
            read: self.operation("read"),
            write: self.operation("write"),
            sync: self.operation("sync"),
            mode: DelayMode::Total,
            limits: self.limits(),
            depth,
            stalls: None,
            seed: 0,
        }
    }
}

impl fmt::Display for ProfileSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for ProfileSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl Profile {
    /// The first figure of this name that holds at this size.
    fn figure(&self, of: &str, size: u64) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.of == of && figure.upto.is_none_or(|upto| size <= upto.0))
    }

    fn sized(&self, text: &str) -> Result<Bytes, SpecError> {
        let name = &self.name;
        if self.size.is_none() {
            return Err(wrong(format!("the figures of {name} do not depend on a size"), self.parameters()));
        }
        let read = text.parse::<Bytes>().ok().filter(|size| size.0 >= Bytes::GIB);
        read.ok_or_else(|| wrong(format!("\"{text}\" is no size for {name}"), format!("write {name}:100G")))
    }

    /// The options that may follow the name.
    pub fn parameters(&self) -> String {
        let mut words: Vec<String> =
            self.size.iter().map(|size| format!("a size ({}:{}G)", self.name, size.0 >> 30)).collect();
        words.extend(self.figures.iter().filter(|it| it.settable).map(|figure| format!("{}=", figure.of)));
        words.extend(self.figure("credits", 0).map(|_| "credits=, the burst credits at the start".to_owned()));
        if words.is_empty() {
            return format!("write {} and nothing behind it", self.name);
        }
        format!("{} takes {}", self.name, words.join(", "))
    }
}

impl Figure {
    /// A sentence about the figure, for people.
    pub fn says(&self) -> String {
        let amount =
            |value: f64| if self.of == "bandwidth" { format!("{}/s", bytes(value)) } else { value.to_string() };
        let mut text = match (&self.is, self.per_gib) {
            (Some(is), _) if self.of == "bandwidth" => {
                is.parse().map_or_else(|_| is.clone(), |bytes: Bytes| format!("{bytes}/s"))
            }
            (Some(is), _) => is.clone(),
            (None, Some(per_gib)) => format!("{} a GiB", amount(per_gib)),
            (None, None) => String::new(),
        };
        if let (Some(least), Some(most)) = (self.least, self.most) {
            text.push_str(&format!(", from {} to {}", amount(least), amount(most)));
        }
        if let Some(upto) = self.upto {
            text.push_str(&format!(", up to a size of {upto}"));
        }
        text
    }

    pub fn is_assumed(&self) -> bool {
        self.source.starts_with("assumed")
    }
}

#[allow(clippy::cast_possible_truncation)] // bytes a second, not negative
fn bytes(value: f64) -> Bytes {
    Bytes(value.round() as u64)
}
