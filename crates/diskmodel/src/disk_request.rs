// SPDX-License-Identifier: Apache-2.0
use crate::distribution::Distribution;
use crate::model::{Counts, Model, Stalls};
use crate::profile::ProfileSpec;
use crate::spec::{LimitSpec, OperationSpec, SpecError};
use crate::table::Bin;
use evidence::DelayMode;
use serde::Serialize;
use std::fmt;

/// A disk as a user asks for it: a profile, single keys, or a profile changed by single keys.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct DiskRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<OperationSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<OperationSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<OperationSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DelayMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<LimitSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<LimitSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

const SEED: u64 = 1;
/// No real disk has more servers than this.
pub(crate) const MOST_DEPTH: u32 = 4096;

impl DiskRequest {
    /// `total` with a profile, whose times are total times; else `add`.
    pub fn mode(&self) -> DelayMode {
        let default = if self.profile.is_some() { DelayMode::Total } else { DelayMode::Add };
        self.mode.unwrap_or(default)
    }

    /// Whether nothing is delayed and nothing is limited.
    pub fn is_none(&self) -> bool {
        let none = |words: &Option<OperationSpec>| words.as_ref().is_none_or(OperationSpec::is_none);
        self.profile.is_none()
            && [&self.read, &self.write, &self.sync].into_iter().all(none)
            && (&self.iops, &self.bandwidth, self.depth) == (&None, &None, None)
    }

    /// Whether each class has one constant time, and nothing is limited.
    pub fn is_constant(&self) -> bool {
        self.model(&mut |_| Err(String::new())).is_ok_and(|model| model.is_constant())
    }

    /// The histogram files that [`Self::model`] reads.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        [&self.read, &self.write, &self.sync].into_iter().flatten().filter_map(OperationSpec::file)
    }

    /// Makes the model. `read` returns the bins of the histogram in a file.
    ///
    /// # Errors
    /// A file holds no histogram.
    pub fn model(&self, read: &mut dyn FnMut(&str) -> Result<Vec<Bin>, String>) -> Result<Model, SpecError> {
        let mut model = match &self.profile {
            Some(profile) => profile.model(),
            None => Model::none(DelayMode::Add),
        };
        model.mode = self.mode();
        model.seed = self.seed.unwrap_or(SEED);
        for (words, operation) in
            [(&self.read, &mut model.read), (&self.write, &mut model.write), (&self.sync, &mut model.sync)]
        {
            if let Some(words) = words {
                *operation = words.resolve(read)?;
            }
        }
        for (words, counts) in [(&self.iops, Counts::Operations), (&self.bandwidth, Counts::Bytes)] {
            if let Some(words) = words {
                model.limits.retain(|limit| limit.counts != counts);
                model.limits.push(words.limit(counts));
            }
        }
        model.depth = self.depth.map(|depth| depth.min(MOST_DEPTH)).or(model.depth);
        model.stalls = self.stalls.or(model.stalls);
        Ok(model)
    }

    /// The median time of a read, if it is known without reading a file.
    pub fn read_median_us(&self) -> f64 {
        let profile = self.profile.as_ref().map(|profile| profile.model().read.takes);
        let own = self.read.as_ref().map(|words| words.known().cloned().unwrap_or(Distribution::NONE));
        own.or(profile).map_or(0.0, |takes| takes.quantile(0.5))
    }
}

/// The text for a plan: the model if no file is needed for it, else the text that the user wrote.
impl fmt::Display for DiskRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.model(&mut |_| Err(String::new())) {
            Ok(_) if self.is_none() => f.write_str("delay 0"),
            Ok(model) => write!(f, "delay {model}"),
            Err(_) => {
                let parts = [("read", &self.read), ("write", &self.write), ("sync", &self.sync)];
                let said = parts.into_iter().filter_map(|(name, words)| Some(format!("{name} {}", words.as_ref()?)));
                write!(f, "delay {}", said.collect::<Vec<_>>().join(", "))
            }
        }
    }
}
