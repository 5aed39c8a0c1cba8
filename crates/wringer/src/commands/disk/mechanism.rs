// SPDX-License-Identifier: Apache-2.0
//! Chooses the mechanism that slows the named path.

use crate::exit::{Exit, Failure, Outcome};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use diskmodel::Model;
use evidence::DiskMechanism;
use squeeze::Slowed;
use squeeze::device::{Timing, delays};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// The values of `--mechanism`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing(pub DiskMechanism);

impl ValueEnum for Standing {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(DiskMechanism::Fuse), Self(DiskMechanism::DeviceMapper), Self(DiskMechanism::Loop)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            DiskMechanism::Fuse => "a FUSE layer over a directory: to the microsecond, distributions, limits",
            DiskMechanism::DeviceMapper => {
                "the kernel's delay target over an unmounted device: whole milliseconds, rounded up to ticks"
            }
            DiskMechanism::Loop => {
                "a loop device over a FUSE file, for an image or an unmounted device: a whole disk with all that the FUSE layer can"
            }
            // this mechanism slows only the programs that are started with it
            DiskMechanism::Preload => return None,
        };
        Some(PossibleValue::new(self.0.name()).help(help))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Device,
    File,
    /// A directory, or nothing at this path: the mechanism's own check reports that.
    Directory,
}

/// # Errors
/// Exit code 2: the asked mechanism does not work for this kind of path.
pub fn choose(asked: Option<DiskMechanism>, path: &Path, model: &Model) -> Result<DiskMechanism, Failure> {
    let named = match path.metadata().map(|it| it.file_type()) {
        Ok(kind) if kind.is_block_device() => Named::Device,
        Ok(kind) if kind.is_file() => Named::File,
        Ok(kind) if !kind.is_dir() => {
            let what = format!("{} is neither a directory nor a block device, nor an image file", path.display());
            return Err(Failure::message(Exit::Missing, what).hint("name what holds the data"));
        }
        _ => Named::Directory,
    };
    let device_mapper_can = || delays(model, path).is_ok() && matches!(Timing::here(), Ok(Some(_)));
    match (asked, named) {
        (None, Named::Device) if device_mapper_can() => Ok(DiskMechanism::DeviceMapper),
        (None | Some(DiskMechanism::Loop), Named::Device | Named::File) => Ok(DiskMechanism::Loop),
        (None | Some(DiskMechanism::Fuse), Named::Directory) => Ok(DiskMechanism::Fuse),
        (Some(DiskMechanism::DeviceMapper), Named::Device) => Ok(DiskMechanism::DeviceMapper),
        (Some(asked), named) => Err(unfit(asked, named, path)),
    }
}

/// Refuses to change the mechanism of a path that is slow already.
///
/// # Errors
/// Exit code 3: another mechanism was asked for.
pub fn refuse_another(asked: Option<DiskMechanism>, slowed: &Slowed) -> Outcome {
    let there = slowed.mechanism();
    if asked.is_none_or(|asked| asked == there) {
        return Ok(());
    }
    let shown = slowed.path().display();
    let what = format!("{shown} is slowed down already, by --mechanism {}", there.name());
    Err(Failure::message(Exit::Missing, what)
        .hint(format!("leave --mechanism out to change the delay, or `wringer disk release {shown}` first")))
}

fn unfit(asked: DiskMechanism, named: Named, path: &Path) -> Failure {
    let shown = path.display();
    let (kind, instead) = match named {
        Named::Device => ("a block device", "device-mapper and loop"),
        Named::File => ("a file", "loop"),
        Named::Directory if path.exists() => ("a directory", "fuse"),
        Named::Directory => {
            return Failure::message(Exit::Missing, format!("there is no {shown}")).hint("name one that exists");
        }
    };
    Failure::message(Exit::Usage, format!("--mechanism {} is not for {kind}, as {shown} is", asked.name()))
        .hint(format!("for {kind}: {instead}; without --mechanism the tool chooses"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::DelayMode;

    #[test]
    fn what_is_named_decides_and_what_does_not_fit_is_told() {
        let model = Model::none(DelayMode::Add);
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = here.join("Cargo.toml");
        let chosen = |asked, path| choose(asked, path, &model).map_err(|failure| format!("{failure:?}"));
        assert_eq!(chosen(None, here), Ok(DiskMechanism::Fuse));
        assert_eq!(chosen(None, &file), Ok(DiskMechanism::Loop));
        assert_eq!(chosen(Some(DiskMechanism::Loop), &file), Ok(DiskMechanism::Loop));
        let said = chosen(Some(DiskMechanism::DeviceMapper), &file).expect_err("a file is no device");
        assert!(said.contains("--mechanism device-mapper is not for a file"), "{said}");
        assert!(chosen(Some(DiskMechanism::Loop), here).is_err());
        assert!(chosen(Some(DiskMechanism::Fuse), &file).is_err());
    }
}
